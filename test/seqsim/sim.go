// Package seqsim runs real sequences in a simulated world: counter.Machine and issuer.Sequence over a
// record, with answers that are lost or late, crashes between any two steps, and an operator.
//
// The guarantee: one seed gives one run. A run checks each value when it is issued: it is new, recorded
// as granted, of the right step and offset, not below a floor that the daemon has learnt of, and above
// all that this process issued before. In a calm world a clean stop leaves no gap, and no client waits
// but the first. The mutants leave out one rule each; the tests show that a run notices.
package seqsim

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// A Mutant is a world without one of the rules.
type Mutant int

// The mutants. They are faults of a daemon, but IgnoreToken, RaiseLowers and ReturnBelowFloor are the
// record's.
const (
	None             Mutant = iota
	ReserveAfterUse         // a block is issued from before it is recorded
	ResumeBlock             // a daemon that restarts goes on with the block that it had
	WriteNumber             // a clean stop writes the next value, whoever has written since
	IgnoreToken             // a block that was given back, and granted to another daemon, can be given back again
	IgnoreStep              // a daemon that restarts takes the step from its flags, not from the record
	NeverRing               // nobody looks at a sequence before it is empty
	AppendLate              // a block that is answered late is issued after ones above it
	RaiseLowers             // an operator's raise sets the next value, even if that is less
	ReturnBelowFloor        // values below the floor can be given back
	NumMutants
)

func (m Mutant) String() string {
	return [...]string{
		"None", "ReserveAfterUse", "ResumeBlock", "WriteNumber", "IgnoreToken", "IgnoreStep", "NeverRing", "AppendLate",
		"RaiseLowers", "ReturnBelowFloor",
	}[m]
}

// A World is what there is.
type World struct {
	Shared bool // two daemons share one record; otherwise each has its own, one odd values and one even ones
	Calm   bool // nothing fails, and the store is fast

	mutant  Mutant
	rnd     *rand.Rand
	now     time.Time
	records []counter.Record
	writes  int
	daemons []*daemon
	seen    map[uint64]bool
	late    []func() // writes that are under way although nobody waits for them any more
	Values  int      // issued
	problem error
}

// A daemon is one process after another.
type daemon struct {
	*issuer.Sequence
	w       *World
	record  int
	machine *counter.Machine
	call    *call
	rung    bool
	last    uint64 // value of this process
	floor   uint64 // that this process has learnt of
	block   counter.Block
	lost    []counter.Block // whose answers did not arrive
	dry     int             // how often a client found no value
}

// A call is a Reserve under way.
type call struct {
	n    uint64
	done bool // carried out
	b    counter.Block
	err  error
}

var errTimeout = errors.New("timeout")

// Run runs a world for so many steps. The error says what went wrong, and when.
func Run(seed uint64, steps int, mutant Mutant) (*World, error) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	w := &World{rnd: rnd, mutant: mutant, now: time.Unix(0, 0), seen: map[uint64]bool{}, Shared: rnd.IntN(2) == 0,
		Calm: rnd.IntN(4) == 0}
	for i := range 2 {
		d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: uint64(i + 1), Max: counter.MaxValue}
		if rnd.IntN(2) == 0 {
			d.Batch = 1 + rnd.Uint64N(20)
		}
		record := i
		if w.Shared {
			d.Step, d.Offset, record = 1, 1, 0
		}
		if record == i {
			w.records = append(w.records, counter.NewRecord(d, w.token()))
		}
		daemon := &daemon{w: w, record: record}
		w.daemons = append(w.daemons, daemon)
		daemon.start(false)
	}
	for step := range steps {
		w.step()
		if w.problem != nil {
			return w, fmt.Errorf("step %d: %w", step, w.problem)
		}
	}
	return w, nil
}

func (w *World) token() string {
	w.writes++
	return fmt.Sprint("write ", w.writes)
}

func (w *World) fail(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
	}
}

func (w *World) chance(of int) bool { return !w.Calm && w.rnd.IntN(of) == 0 }

// step lets one thing happen.
func (w *World) step() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(200)) * time.Millisecond)
	d := w.daemons[w.rnd.IntN(len(w.daemons))]
	if w.Calm {
		for d.rung || d.call != nil {
			d.keep()
		}
	}
	switch k := w.rnd.IntN(100); {
	case k < 55:
		d.client()
	case k < 85:
		d.keep()
	case k < 88 && len(w.late) > 0:
		i := w.rnd.IntN(len(w.late))
		late := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		late()
	case k < 92:
		d.learn()
	case k == 92:
		d.cleanStop()
	case k == 93 && w.chance(2):
		d.start(true)
	case k == 94 && w.chance(2):
		w.raise(w.rnd.IntN(len(w.records)))
	}
}

// start starts a process, after the one before has crashed or stopped.
func (d *daemon) start(crashed bool) {
	w := d.w
	if c := d.call; c != nil && !c.done { // it may still arrive
		w.late = append(w.late, func() { d.reserve(c) })
	}
	r := w.records[d.record]
	def := r.Definition
	if w.mutant == IgnoreStep && crashed {
		def.Step, def.Offset = 1, 1
	}
	held := d.block
	*d = daemon{w: w, record: d.record, floor: r.Floor, dry: d.dry}
	d.Sequence = issuer.NewSequence(issuer.SequenceConfig{
		Definition: def, Wake: func() {}, Ring: func() { d.rung = d.rung || w.mutant != NeverRing },
		Status: func() counter.Status { return counter.Status{} },
	})
	r.Definition = def
	d.machine = counter.NewMachine(r, keeping{d}, def.Batch, slog.New(slog.DiscardHandler))
	if w.mutant == ResumeBlock && held.Hi > 0 {
		d.Append(held.Lo, held.Hi)
	}
}

// keeping is the daemon's issuer as its Machine sees it.
type keeping struct{ *daemon }

func (k keeping) Append(lo, hi uint64) error {
	d := k.daemon
	err := d.Sequence.Append(lo, hi)
	if err != nil && d.w.mutant == AppendLate {
		d.Sequence = issuer.NewSequence(issuer.SequenceConfig{
			Definition: d.w.records[d.record].Definition, Wake: func() {}, Ring: func() { d.rung = true },
		})
		err = d.Sequence.Append(lo, hi)
	}
	return err
}

// client asks for values.
func (d *daemon) client() {
	w, n := d.w, 1
	if w.rnd.IntN(3) == 0 && !w.Calm {
		n = 1 + w.rnd.IntN(30)
	}
	ask := func() (id.Run, error) { return d.Mint(id.At(0), n, false) }
	if w.rnd.IntN(5) == 0 {
		ask = func() (id.Run, error) { return d.Sequence.Reserve(id.At(0), n) }
	}
	run, err := ask()
	if err != nil {
		d.dry++
		d.rung = true // a client that waits always makes the keeper look
		return
	}
	for i := range run.N {
		d.issued(run.First + uint64(i)*run.Stride)
	}
}

// issued checks a value.
func (d *daemon) issued(v uint64) {
	w, r := d.w, &d.w.records[d.record]
	w.Values++
	switch {
	case w.seen[v]:
		w.fail("%d was issued twice", v)
	case v >= r.Next:
		w.fail("%d was issued, and only those below %d are granted", v, r.Next)
	case v != r.Ceil(v) || v > r.Max:
		w.fail("%d was issued, which is no value of %+v", v, r.Definition)
	case v <= d.last:
		w.fail("%d was issued after %d", v, d.last)
	case v < d.floor:
		w.fail("%d was issued below the floor %d", v, d.floor)
	}
	w.seen[v], d.last = true, v
}

// keep does one step of the keeper.
func (d *daemon) keep() {
	w := d.w
	c := d.call
	switch {
	case c == nil:
		if !d.rung {
			return
		}
		d.rung = false
		if n := d.machine.Need(w.now); n > 0 {
			d.call = &call{n: n}
			if w.mutant == ReserveAfterUse {
				r := w.records[d.record]
				b, err := r.Reserve(n, "not yet")
				d.machine.Answer(w.now, b, err)
			}
		}
	case !c.done && w.chance(10): // it takes too long: the write may still happen
		w.late = append(w.late, func() { d.reserve(c) })
		d.answer(counter.Block{}, errTimeout)
	case !c.done:
		d.reserve(c)
	case w.chance(10): // the answer is lost
		d.answer(counter.Block{}, errTimeout)
		d.lost = append(d.lost, c.b)
	case w.chance(10) && len(d.lost) > 0: // an earlier call's answer is taken for this one's
		d.answer(d.lost[w.rnd.IntN(len(d.lost))], nil)
	case w.mutant == ReserveAfterUse:
		d.call = nil
	default:
		d.lost = append(d.lost, c.b) // it may come again
		d.answer(c.b, c.err)
	}
}

func (d *daemon) reserve(c *call) {
	c.b, c.err = d.w.records[d.record].Reserve(c.n, d.w.token())
	c.done = true
}

func (d *daemon) answer(b counter.Block, err error) {
	d.call = nil
	if err == nil {
		d.block = b
	}
	d.machine.Answer(d.w.now, b, err)
	d.w.now = d.w.now.Add(time.Second) // so that it may ask again
	d.rung = d.rung || d.w.mutant != NeverRing
}

// learn is the poll for what operators did.
func (d *daemon) learn() {
	r := d.w.records[d.record]
	d.machine.Learn(r)
	d.floor = r.Floor
}

// cleanStop waits for the call under way, seals, gives back and starts another process.
func (d *daemon) cleanStop() {
	w, r := d.w, &d.w.records[d.record]
	for d.call != nil {
		d.keep()
	}
	b, next, ok := d.machine.Stop()
	if ok {
		giveBack := func() {
			switch w.mutant {
			case WriteNumber:
				r.Next, r.Token = next, w.token()
				return
			case IgnoreToken:
				b.Token = r.Token
			case ReturnBelowFloor:
				defer func(floor uint64) { r.Floor = floor }(r.Floor)
				r.Floor = 0
			}
			if err := r.Return(b, next, w.token()); err != nil && w.Calm && !w.Shared {
				w.fail("nobody else wrote, and a clean stop left a gap: %v", err)
			}
		}
		switch {
		case w.chance(4): // late, perhaps after others
			w.late = append(w.late, giveBack)
		case w.chance(4): // twice: the network repeats it
			w.late = append(w.late, giveBack)
			fallthrough
		default:
			giveBack()
		}
	}
	if w.Calm && !w.Shared && r.Next > d.last+r.Step && d.last > 0 {
		w.fail("a clean stop left a gap between %d and %d", d.last, r.Next)
	}
	if w.Calm && d.dry > 1 {
		w.fail("clients found no value %d times although the store was fast", d.dry)
	}
	d.dry = 0
	d.start(false)
}

// raise is the operator's.
func (w *World) raise(record int) {
	r := &w.records[record]
	v := r.Next + w.rnd.Uint64N(30) - min(w.rnd.Uint64N(60), r.Next-1)
	if w.mutant == RaiseLowers {
		r.Next, r.Token = r.Ceil(v), w.token()
		return
	}
	if err := r.Raise(v, w.token()); err != nil {
		w.fail("%v", err)
	}
}
