package sim

// fault lets something go wrong, and sees to the next time.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.Happened++
	if w.Weather == Bridged {
		w.store.bridged()
		w.after(lease, w.fault)
		return
	}
	w.store.fault()
	w.after(500+w.upTo(6000), w.fault)
}

// pause stops the process for a time.
func (d *daemon) pause(ms int64) {
	d.paused = true
	life := d.life
	d.w.after(ms, func() {
		if life == d.life {
			d.resume()
		}
	})
}

// sleep is what happens when the host is suspended: the process's timers do not run meanwhile.
func (d *daemon) sleep(ms int64) {
	d.pause(ms)
	d.asleep = d.w.now
}

// stand lets the process, or its host, stand still.
func (d *daemon) stand(ms int64) {
	if d.w.chance(2) {
		d.pause(ms)
	} else {
		d.sleep(ms)
	}
}

// restart kills a daemon that is up, and starts it again after ms.
func (d *daemon) restart(ms int64) {
	if d.up && !d.isCopy && d.w.now >= d.sheltered {
		d.kill()
		d.w.after(ms, d.boot)
	}
}

// repaired sees to it that the clock is soon right again: until then the store talks to nobody else.
func (d *daemon) repaired() {
	d.w.after(d.w.upTo(lease), func() { d.offset = 0 })
}

// calmDown ends all faults, and mends what they did.
func (w *world) calmDown() {
	w.calm, w.unreachable, w.answersLost = true, 0, 0
	w.store.calm()
	originals := w.daemons[:w.Daemons]
	for _, copied := range w.daemons[w.Daemons:] {
		copied.kill()
	}
	w.daemons = originals
	for _, d := range originals {
		d.cutOff = 0
		if w.Weather == Storm {
			d.offset = 0
		}
		if d.paused {
			d.resume()
		}
		d.boot()
	}
}
