package sim

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A daemon is a process and its host's clock. The real Machine decides, the real issuer issues;
// what lies between them in the real daemon, the keeper and the store's connection, is played here,
// so that it can go wrong.
type daemon struct {
	w      *world
	name   string
	offset int64 // id clock − time, ms

	life    int // counts the lives of the process: what is due for an earlier one is void
	up      bool
	isCopy  bool      // of another process; does not start again when it has ended
	copies  []*daemon // of this life
	shared  int       // calls up to this one are in a copy's memory, too
	booted  int64
	machine *workerid.Machine
	client  *poolClient
	issuer  *issuer.Issuer
	ask     func() // request
	home    id.Source
	served  bool // has issued an id in this life
	tick    int  // number of the tick that is due; older ones are void
	calls   int
	pending map[int]func(error) workerid.Event // calls without an answer, and what it means that none comes

	paused    bool
	asleep    int64 // since when its timers stand still as well; 0 = they go on
	backlog   []event
	cutOff    int64            // until then no packet passes between it and the store
	sheltered int64            // until then nothing keeps it from the store
	windows   map[int]window   // by lane, for the mutants
	had       map[uint64]int64 // by worker id: up to where it may have been issued from
	uncounted map[uint64]int64
	last      int64 // id clock at the last request, for the mutants
}

type window struct {
	worker uint64
	lo, hi int64
}

func (d *daemon) clock() int64 { return start + d.w.now + d.offset }

func (d *daemon) moment() workerid.Moment {
	return workerid.Moment{Mono: time.Duration(d.w.now-d.booted) * time.Millisecond, ID: d.clock()}
}

// boot starts a new process.
func (d *daemon) boot() {
	if d.up {
		return
	}
	w := d.w
	d.begin()
	requests := make([]workerid.Request, w.Lanes)
	for i := range requests {
		requests[i] = workerid.Request{Owner: w.requestID(), Min: 1, Max: uint64(w.Workers)}
	}
	d.machine = workerid.NewMachine(workerid.MachineConfig{
		Requests: requests, RunAhead: runAhead * time.Millisecond, Heartbeat: heartbeat * time.Millisecond,
		CheckTime: w.layout.CheckTime, Seed: w.rand.Uint64(),
	})
	d.client = w.store.client(d)
	d.step(workerid.Tick{})
	d.request()
}

func (d *daemon) begin() {
	d.life++
	d.up, d.paused, d.asleep, d.backlog, d.booted = true, false, 0, nil, d.w.now
	d.copies, d.shared, d.ask = nil, 0, d.request
	d.had = map[uint64]int64{}
	d.windows, d.uncounted, d.pending, d.served = map[int]window{}, nil, map[int]func(error) workerid.Event{}, false
	d.issuer = issuer.New(issuer.Config{
		Lanes: d.w.Lanes, RunAhead: runAhead * time.Millisecond, Layout: d.w.layout,
		Now: d.clock, Sleep: func(time.Duration) {},
	})
	d.home = d.issuer.Source(d.w.rand.IntN(d.w.Lanes))
}

// kill ends the process without a word.
func (d *daemon) kill() {
	d.life++
	d.up, d.backlog = false, nil
}

// later does something in this life of the process, when it is not paused.
func (d *daemon) later(ms int64, do func()) { d.w.push(ms, d, do) }

func (d *daemon) do(e event) {
	switch {
	case e.life != d.life:
	case d.paused:
		e.at = d.w.now
		d.backlog = append(d.backlog, e)
	default:
		e.do()
	}
}

func (d *daemon) resume() {
	asleep, backlog := d.asleep, d.backlog
	d.paused, d.asleep, d.backlog = false, 0, nil
	for _, e := range backlog {
		wait := int64(0)
		if asleep > 0 {
			wait = e.at - asleep
		}
		d.later(wait, e.do)
	}
}

// step tells the machine something and carries out what it wants.
func (d *daemon) step(e workerid.Event) {
	switch e := e.(type) {
	case workerid.Acquired:
		if e.Err == nil {
			d.noteGrant(e.Grant)
		}
	case workerid.Extended:
		for _, r := range e.Results {
			if r.Err == nil && r.Grant.Lo <= r.Grant.Hi {
				d.noteGrant(r.Grant)
			}
			if errors.Is(r.Err, workerid.ErrLost) {
				d.w.Lost++
			}
		}
	}
	for queue := []workerid.Event{e}; len(queue) > 0; queue = queue[1:] {
		for _, e := range d.machine.Step(d.moment(), queue[0]) {
			switch e := e.(type) {
			case workerid.Publish:
				d.publish(e.Lane, window{e.Grant.Worker, e.Grant.Lo, e.Grant.Hi})
			case workerid.Lengthen:
				d.lengthen(e)
			case workerid.Seal:
				queue = append(queue, workerid.SealedAt{Lane: e.Lane, Last: d.seal(e.Lane)})
			case workerid.Acquire:
				d.acquire(e)
			case workerid.Extend:
				d.extend(e)
			case workerid.Release:
				d.release(e)
			case workerid.Finished:
				d.later(d.w.upTo(20), d.end) // requests that are being served may still come to the generators
			}
		}
	}
	d.tick++
	tick, at := d.tick, d.machine.Deadline(d.moment())
	if at < 0 {
		return
	}
	// Timers are late, never early.
	d.later(int64(at/time.Millisecond)+1-(d.w.now-d.booted)+d.w.upTo(2), func() {
		if tick == d.tick {
			d.step(workerid.Tick{})
		}
	})
}

// noteGrant counts a window that this daemon has had before, in whichever lane. The machine refuses
// it. Of a daemon and its copy, one may have given back what the other has.
func (d *daemon) noteGrant(g workerid.Grant) {
	if had, again := d.had[g.Worker]; again && g.Lo <= had && !d.isCopy && d.copies == nil {
		d.w.Regrants++
	}
}

// end is the last thing that a process does that was told to stop.
func (d *daemon) end() {
	d.kill()
	if !d.isCopy {
		d.w.after(d.w.upTo(3000), d.boot)
	}
}

func (d *daemon) publish(lane int, win window) {
	d.windows[lane] = win
	if win.lo <= win.hi { // nothing was issued from an empty one
		d.had[win.worker] = win.hi
	}
	if d.w.Mutant == Unfenced {
		win.hi = math.MaxInt64
	}
	if err := d.issuer.Publish(lane, win.worker, win.lo, win.hi); err != nil {
		panic(err) // the store granted what is no window
	}
}

func (d *daemon) lengthen(e workerid.Lengthen) {
	win := d.windows[e.Lane]
	win.hi = e.Hi
	d.windows[e.Lane], d.had[win.worker] = win, win.hi
	if d.w.Mutant == Unfenced {
		return
	}
	if err := d.issuer.Extend(e.Lane, e.Lo, e.Hi); err != nil {
		panic(err) // the machine let a gap through
	}
}

func (d *daemon) seal(lane int) int64 {
	last := d.issuer.Seal(lane)
	d.had[d.windows[lane].worker] = last // the rest may be given back, and granted to another lane
	return last
}

// request is a client that asks for ids now and then, for as long as the process lives: mostly few,
// at times for so many that they run ahead of the clock.
func (d *daemon) request() {
	d.serve()
	d.later(1+d.w.upTo(150), d.ask)
}

func (d *daemon) serve() {
	w, now := d.w, d.clock()
	if w.Mutant == Rewinding && now < d.last { // a sequence that starts again when the clock goes back
		for lane, win := range d.windows {
			d.publish(lane, win)
		}
	}
	d.last = now
	n, calls := 1+w.rand.IntN(20), 1
	if w.chance(100) && !w.calm {
		n, calls = 60, 1+w.rand.IntN(1200) // at most more than the run-ahead has
	}
	for range calls {
		w.Requests++
		run, err := d.home.Mint(id.At(now), n, n > 1)
		if err != nil {
			if d.served && !isRate(err) { // being asked for more than there is is nobody's fault
				w.Refused++
			}
			return
		}
		d.served = true
		if !d.isUncounted(run.First) {
			w.IDs.AddRun(run.First, run.Stride, run.N)
		}
	}
}

func isRate(err error) bool {
	var r *issuer.Refusal
	return errors.As(err, &r) && r.Reason == issuer.RateExceeded
}

// isUncounted says whether an id lies in a window that a copy of a process and its original both
// had in memory when the copy was made, or had both asked for. Nothing can keep these apart.
func (d *daemon) isUncounted(id uint64) bool {
	p := d.w.layout.Decompose(id)
	hi, ok := d.uncounted[p.Worker]
	return ok && p.Time.UnixMilli() <= hi
}

// sharedAnswer notes what the original is granted by a request that the copies remember, too: they
// know its request id, and go on from there.
func (d *daemon) sharedAnswer(call int, e workerid.Event) {
	if call > d.shared {
		return
	}
	var granted []workerid.Grant
	switch e := e.(type) {
	case workerid.Acquired:
		granted = append(granted, e.Grant)
	case workerid.Extended:
		for _, r := range e.Results {
			granted = append(granted, r.Grant)
		}
	}
	for _, x := range append(d.copies, d) {
		if x.uncounted == nil {
			x.uncounted = map[uint64]int64{}
		}
		for _, g := range granted {
			x.uncounted[g.Worker] = max(g.Hi, x.uncounted[g.Worker])
		}
	}
}

// copyOf makes a copy of a running process, as a snapshot of a virtual machine does that is started
// a second time. What it was waiting for never comes.
func (w *world) copyOf(d *daemon) {
	c := &daemon{w: w, name: "copy of " + d.name, offset: d.offset, isCopy: true}
	c.begin()
	d.copies, d.shared = append(d.copies, c), d.calls
	c.booted, c.machine, c.client, c.pending = d.booted, copied.Of(d.machine), d.client.clone(c), maps.Clone(d.pending)
	c.uncounted = map[uint64]int64{}
	for lane := range w.Lanes {
		win, g := d.windows[lane], d.issuer.Generator(lane)
		if g == nil || errors.Is(g.Check(0, 0), generator.ErrSealed) {
			continue
		}
		c.publish(lane, window{win.worker, g.Position() + 1, win.hi})
		c.uncounted[win.worker] = max(win.hi, c.uncounted[win.worker])
	}
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		c.timeOut(id, timeout)
	}
	w.daemons = append(w.daemons, c)
	c.step(workerid.Tick{})
	c.request()
	c.later(lease/2+w.upTo(2*lease), c.kill)
}
