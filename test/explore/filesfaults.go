package explore

// What happens to the world of files.

// restoreShared puts back the marks of a backup, and nothing else.
func (w *files) restoreShared() {
	for i, copies := range w.kept.shared {
		w.disk.names[shared+i] = 0
		if copies != [2]*slot{} {
			at := w.disk.make(shared + i)
			w.disk.inodes[at] = inode{cached: copies, durable: copies}
		}
	}
	w.disk.synced, w.kept = w.disk.names, nil
}

// delay keeps processes from starting for a while.
func (w *files) delay(ms int64) {
	for i := range w.daemons {
		p := w.own(i)
		p.due = max(p.due, w.now+ms+1)
	}
}

// interrupt lets something happen in the middle of the next call: before a request.
func (w *files) interrupt(c Choice) *files {
	if w.before == nil || w.request != c.At {
		w.before, w.request = w.clone(), c.At
		w.before.call(Choice{Kind: StopSend, At: c.At})
	}
	n := w.before.clone()
	switch i := int(c.Who); c.Kind {
	case LateSend:
		n.wait(i, n.after(i))
	case StopSend:
		n.wait(i, n.now+pauses[c.Arg])
	case Kill:
		n.kill(i, restart)
	case Power:
		n.powerCut(c.Arg)
	}
	return n
}

// wait lets a call go on later.
func (w *files) wait(i int, until int64) {
	later := *w.daemons[i].during
	later.until = max(later.until, until)
	w.own(i).during = &later
}

// loseMemory loses all pages. Copies of them may take their place, or what there was before an earlier run.
func (w *files) loseMemory(c Choice) {
	var before []page
	for i := range w.pages {
		if x := &w.pages[i]; !x.gone {
			before, x.gone = append(before, *x), true
		}
	}
	switch {
	case c.Kind == Copied && c.Arg == 0:
		for _, x := range before {
			x.id, x.daemon = "copy", -1
			w.pages = append(w.pages, x)
		}
	case c.Kind == Copied:
		w.pages = append(w.pages, w.past[0]...)
	}
}

// overwrite sets the words of pages back to what they were when they were made. What was issued until the next
// extension may then be issued again: the windows of such a page count only up to here.
func (w *files) overwrite() {
	for i := range w.pages {
		if x := &w.pages[i]; !x.gone && x.daemon >= 0 {
			x.changed = true
			x.word = fileLayout.First(x.issued + 1)
		}
	}
}

// kill ends a process: the kernel closes its files, and its pages stay.
func (w *files) kill(i int, pause int64) {
	w.use()
	end(w.windows, i)
	for n := range w.pages {
		if w.pages[n].daemon == i {
			w.pages[n].daemon = -1
		}
	}
	w.disk.close(-1, i)
	w.daemons[i] = &process{name: w.daemons[i].name, due: w.now + pause}
}

func (w *files) powerCut(how int8) {
	for i := range w.daemons {
		w.kill(i, rebooted+int64(i)*lookIn)
	}
	if w.mutant != anyBoot {
		w.pages = nil
	}
	for i := range w.pages { // they come back from somewhere, as old as can be
		w.pages[i].word = fileLayout.First(w.pages[i].issued + 1)
	}
	w.disk.cut(how)
	w.booted, w.boots = w.now, w.boots+1
}
