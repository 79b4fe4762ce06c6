package explore

import (
	"context"
	"errors"
	"slices"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/sim"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The figures of the world of files, ms.
const (
	beat     = 500  // static.Heartbeat
	life     = 3200 // of a process that nothing happens to; then it is stopped, as for an upgrade
	rest     = 2400 // before it starts again
	lookIn   = 1500 // between two attempts while the other one has the worker id
	restart  = 50   // after a kill
	rebooted = 1100 // after a power cut: longer than the run-ahead, see LEASES.md on directories that are put back
)

var fileLayout = generator.Layout{Epoch: began - 1_000_000_000, Unit: 1, TimeBits: 42, WorkerBits: 8, SequenceBits: 6}

// files is the world of windows in a file: two processes of one host that take turns with one worker id, with the
// real Store over a disk that loses what was not synced and a memory that outlives processes. It does not change.
type files struct {
	mutant  sim.Mutant
	shares  bool // static.Config.Share
	port    *port
	now     int64
	wall    int64 // − now
	booted  int64
	boots   int
	nonces  int
	disk    disk
	pages   []page
	daemons [2]*process
	windows []window
	past    [3][]page // what was in the memory before each of the last runs
	kept    *kept
	promise

	next    *files // after the default, if that is known
	asked   int    // requests within it
	before  *files // a request of the next call, if that is known
	request int8   // which one
}

// A process is what one has between its calls. It does not change.
type process struct {
	name   string
	store  *static.Store // nil = it does not run
	grant  workerid.Grant
	due    int64
	stop   int64
	clock  int64 // its id clock − now
	during *visit
}

// A visit is a call that waits: in the middle of the disk.
type visit struct {
	told  []answered
	until int64
	ends  bool // it is a clean stop,
	last  int64
	grant workerid.Grant // as the call began
}

// kept is a backup of the state file, and of the mark that it goes with.
type kept struct {
	copies [2]*slot
	shared [series][2]*slot
	moved  bool // the lock was moved away since: with the copy all files were, a danger that LEASES.md names
}

// Files returns the world of two processes once the first one has a window. With shares, they go by the mark of a
// second file too, as with several worker ids.
func Files(shares bool) func(mutant string) World {
	return func(mutant string) World { return newFiles(mutant, shares) }
}

func newFiles(mutant string, shares bool) World {
	w := &files{mutant: sim.Mutant(mutant), shares: shares, port: &port{}}
	for i := range w.daemons {
		w.daemons[i] = &process{name: string(rune('a' + i)), due: int64(50 + i*lookIn)}
	}
	for w.now < 2*old+1000 {
		w = w.step(Choice{})
	}
	w.wrong = ""
	return &since{w, w.now}
}

func (w *files) clone() *files {
	c := *w
	c.next, c.before = nil, nil
	c.windows, c.pages = slices.Clone(w.windows), slices.Clone(w.pages)
	return &c
}

func (w *files) own(i int) *process {
	p := *w.daemons[i]
	w.daemons[i] = &p
	return &p
}

func (p *process) at() int64 {
	switch {
	case p.during != nil:
		return p.during.until
	case p.store != nil:
		return min(p.due, p.stop)
	}
	return p.due
}

// first is the process whose call is the next.
func (w *files) first() int {
	if w.daemons[1].at() < w.daemons[0].at() {
		return 1
	}
	return 0
}

// after is just after the next event of the other process.
func (w *files) after(i int) int64 { return max(w.daemons[1-i].at(), w.now) + 1 }

func (w *files) clock(p *process) int64 { return began + w.now + p.clock }

func (w *files) clocks() static.Clocks {
	c := static.Clocks{Wall: began + w.now + w.wall, Boot: w.now - w.booted, BootID: bootNames[w.boots]}
	if w.mutant == anyBoot {
		c.Boot, c.BootID = w.now, "boot"
	}
	return c
}

// Choices implements World.
func (w *files) Choices(to []Choice, extra bool) []Choice {
	o := offer(append(to, Choice{}))
	w.restores(&o)
	if !extra {
		return o
	}
	if w.next == nil {
		w.next = w.step(Choice{})
	}
	who := w.first()
	o.preempt(who, 0, Put)
	for at := range w.next.asked {
		o.preempt(who, at, LateSend)
		o.faults(StopSend, who, at, len(pauses))
		o.fault(Kill, who, at, 0)
		o.faults(Fails, who, at, 2)
		o.faults(Power, who, at, cuts)
	}
	if o.faults(Delete, 0, 0, sharedFiles); w.shares {
		o.fault(Delete, 0, 0, sharedFiles)
	}
	o.fault(Lose, 0, 0, 0)
	o.faults(Copied, 0, 0, 2)
	o.fault(Overwrite, 0, 0, 0)
	o.faults(Jump, 0, 0, len(jumps))
	exists := w.disk.names[stateName] != 0
	if w.kept == nil && exists && (w.disk.names != w.next.disk.names || w.disk.inodes != w.next.disk.inodes) {
		o.fault(Backup, 0, 0, 0)
	}
	return o
}

// restores adds what can be put back, which costs nothing.
func (w *files) restores(o *offer) {
	if w.disk.away != 0 {
		o.free(Restore, 0, 2)
	}
	idle := w.daemons[0].store == nil && w.daemons[1].store == nil
	if w.kept != nil && !w.kept.moved && idle && w.daemons[w.first()].during == nil {
		o.free(Restore, 0, 0)
		if o.free(Restore, 0, 1); w.shares {
			o.free(Restore, 0, sharedFiles)
		}
	}
}

// sharedFiles are what is deleted or put back, rather than another file.
const sharedFiles = 4

// jumps are how far the wall clock is set, ms.
var jumps = [...]int64{-3000, 5000, 3_600_000}

// Do implements World.
func (w *files) Do(c Choice) World {
	if c.Kind == Default && w.next != nil {
		return w.next
	}
	return w.step(c)
}

func (w *files) step(c Choice) *files {
	switch c.Kind {
	case LateSend, StopSend, Kill, Power:
		return w.interrupt(c)
	}
	n := w.clone()
	switch c.Kind {
	case Default, Fails:
		n.call(c)
	case Put:
		i := int(c.Who)
		until := n.after(i)
		if n.daemons[i].during != nil {
			n.wait(i, until)
		}
		p := n.own(i)
		p.due, p.stop = max(p.due, until), max(p.stop, until)
	case Delete:
		if c.Arg == sharedFiles {
			clear(n.disk.names[shared : shared+series])
			break
		}
		if c.Arg >= 2 {
			n.disk.away = n.disk.names[lockName]
			if n.kept != nil {
				n.kept = &kept{n.kept.copies, n.kept.shared, true}
			}
		}
		n.disk.names[lockName] = 0
		if c.Arg%2 == 1 {
			n.disk.names[stateName] = 0
		}
	case Lose, Copied:
		n.loseMemory(c)
	case Overwrite:
		n.overwrite()
	case Jump:
		n.wall += jumps[c.Arg]
	case Backup:
		n.kept = &kept{copies: n.disk.inodes[n.disk.names[stateName]].cached}
		for i := range n.kept.shared {
			n.kept.shared[i] = n.disk.inodes[n.disk.names[shared+i]].cached
		}
	case Restore:
		if c.Arg == 2 {
			n.disk.names[lockName], n.disk.away = n.disk.away, 0
			break
		}
		if c.Arg == sharedFiles {
			n.restoreShared()
			break
		}
		at, copies := n.disk.make(stateName), n.kept.copies
		n.disk.inodes[at] = inode{cached: copies, durable: copies}
		if c.Arg == 1 {
			n.disk.names[lockName] = 0
			n.disk.make(lockName)
		}
		n.disk.synced, n.kept = n.disk.names, nil
		if !slices.ContainsFunc(copies[:], func(s *slot) bool { return s.boot() == bootNames[n.boots] }) {
			n.delay(runAhead) // see LEASES.md: after another boot nothing tells that such a record is a copy
		}
	}
	return n
}

// call lets the next event happen: a call of a process, or the rest of one.
func (w *files) call(c Choice) {
	i := w.first()
	p := w.own(i)
	w.now = max(w.now, p.at())
	w.use()
	u := p.during
	if u == nil {
		u = &visit{grant: p.grant, ends: p.store != nil && p.stop <= w.now}
		if p.store == nil {
			w.startProcess(p)
		} else if u.ends {
			u.last = w.seal(i)
		}
	}
	p.during = nil
	x := w.port
	x.begin(w, i, c, u.told)
	s, publish := w.carryOut(p, u)
	if publish != nil {
		publish()
	}
	for n := 0; n < len(x.later); n++ { // what goes on behind the caller's back
		x.later[n]()
	}
	x.end()
	w.asked = int(x.asked)
	switch {
	case x.over == errWaits:
		p.during = &visit{slices.Clone(x.told), w.now, u.ends, u.last, u.grant}
	case u.ends || s == nil:
		w.disk.close(-1, i)
		p.store, p.grant = nil, workerid.Grant{}
		p.due = w.now + map[bool]int64{true: rest, false: lookIn}[u.ends]
	default:
		p.store = s
	}
	w.use()
	w.port.w = nil
}

func (w *files) startProcess(p *process) {
	p.clock, p.stop = w.wall, w.now+life
	if w.mutant == forgotten && w.daemons[0].store == nil && w.daemons[1].store == nil {
		w.disk.names[stateName] = 0
	}
}

// carryOut is one call to the Store of a process, as it is after that. publish is what its result means.
func (w *files) carryOut(p *process, u *visit) (s *static.Store, publish func()) {
	ctx, i := &impatient{Context: context.Background()}, w.port.i
	if p.store == nil {
		opened, err := static.Open(w.port.config())
		if errors.Is(err, static.ErrDamaged) {
			w.wrong = err.Error()
		}
		if err != nil {
			return nil, nil
		}
		s = opened
	} else {
		s = p.store.Clone()
	}
	switch {
	case u.ends:
		_ = s.Release(ctx, u.grant, u.last)
		return s, nil
	case u.grant.Owner == "":
		g, err := s.Acquire(ctx, workerid.Request{Owner: p.name, Min: 1, Max: 1})
		p.due = w.now + beat
		if errors.Is(err, workerid.ErrSkew) { // nobody stops it while it waits
			p.stop = w.now + life
		}
		if err != nil || w.port.over != nil {
			return s, nil
		}
		return s, func() {
			p.grant = g
			w.windows = append(w.windows, window{g.Worker, g.Lo, g.Hi, g.Lo - 1, i, w.page(i), w.clock(p)})
		}
	}
	results, err := s.Extend(ctx, []workerid.Grant{u.grant})
	p.due = w.now + beat
	if err != nil || w.port.over != nil {
		return s, nil
	}
	return s, func() {
		r := results[0]
		switch {
		case errors.Is(r.Err, workerid.ErrShared):
			w.seal(i)
			p.grant, p.due = workerid.Grant{}, w.now+restart
		case errors.Is(r.Err, workerid.ErrLost):
			p.grant, p.due = workerid.Grant{}, w.now+restart
		case r.Err == nil:
			n := w.page(i)
			if n >= 0 && w.pages[n].changed && !w.pages[n].gone && len(u.told) == 0 { // since before the call
				w.wrong = "a window goes on whose word was written to"
			}
			p.grant.Hi = r.Grant.Hi
			lengthen(w.windows, i, u.grant.Worker, u.grant.Lo, r.Grant.Hi)
		}
	}
}

// page is the newest page of a process.
func (w *files) page(i int) int {
	for n := len(w.pages) - 1; n >= 0; n-- {
		if w.pages[n].daemon == i {
			return n
		}
	}
	return -1
}

// seal ends the windows of a process, and returns up to where it has issued.
func (w *files) seal(i int) (last int64) {
	for n := range w.windows {
		if x := &w.windows[n]; x.daemon == i {
			if last = x.used; w.mutant == earlyReport {
				last = x.lo - 1
			}
			if w.mutant != unsealed {
				x.daemon = -1
			}
		}
	}
	return last
}

// use notes up to where processes may have issued ids by now, and moves their words.
func (w *files) use() {
	for n := range w.windows {
		x := &w.windows[n]
		if x.daemon < 0 {
			continue
		}
		hi := x.hi
		if w.mutant == sim.Unfenced {
			hi = x.lo + 3_600_000
		}
		x.used = max(x.used, min(hi, w.clock(w.daemons[x.daemon])+runAhead))
		if x.page >= 0 && w.mutant != wordless && !w.pages[x.page].changed {
			w.pages[x.page].word = fileLayout.First(x.used + 1)
		}
	}
	w.apart(w.windows)
}
