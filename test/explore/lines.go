package explore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/counter"
	rate "github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/sim"
)

// The figures of the world of lines, ms, and how many values a daemon reserves: so many that the line is soon reached.
const (
	pace     = 400
	linePull = 250
	lineRate = 10
	lineTime = 12_000
	longTake = 3 // steps after which a block that was not confirmed is taken back late
)

// raises are by how much operators raise the sequence.
var raises = [...]uint64{100, 3000}

// lines is the world of one sequence in Redis with the real rules of package line: two servers of which one follows the
// other, or one whose disk is behind; daemons that reserve, and an operator. A world of one kind of loss has another
// start. It does not change.
type lines struct {
	mutant  sim.Mutant
	how     loss
	now     int64
	servers [2]lineServer
	master  int
	names   int
	writes  int
	steps   int
	granted []counter.Block // to daemons that heard of it
	floor   uint64          // of a raise that was confirmed
	defined bool            // a definition was confirmed
	back    *unconfirmed
	promise
}

// A loss is a way in which Redis loses what it has confirmed.
type loss int

// The losses.
const (
	FailOver   loss = iota // the old master has stopped
	TwoMasters             // it has not, and grants wait for the replica
	Restart                // one server, whose disk is a while behind
)

// A lineServer holds one sequence. Records do not change.
type lineServer struct {
	ahead   int64
	history string
	record  *rate.Record
	disk    *rate.Record
	behind  bool // its replica, or its disk, gets nothing new
	follows bool
	serves  bool
}

// unconfirmed is a block that is to be taken back.
type unconfirmed struct {
	server int
	block  counter.Block
	step   int
}

// Lines returns the world of a way to lose, before the sequence is created.
func Lines(how loss) func(mutant string) World {
	return func(mutant string) World { return newLines(how, mutant) }
}

func newLines(how loss, mutant string) World {
	w := &lines{mutant: sim.Mutant(mutant), how: how, now: 1e12}
	w.servers[0] = lineServer{history: w.newHistory(), serves: true, ahead: rate.MaxSkew.Milliseconds()}
	w.servers[1] = lineServer{history: w.newHistory(), follows: how != Restart, ahead: -rate.MaxSkew.Milliseconds()}
	return &since{w, w.now}
}

func (w *lines) newHistory() string {
	w.names++
	return nonceNames[w.names%len(nonceNames)]
}

func (w *lines) token() string {
	w.writes++
	return tokenNames[w.writes%len(tokenNames)]
}

// Choices implements World.
func (w *lines) Choices(to []Choice, extra bool) []Choice {
	all := offer(append(to, Choice{}))
	m, o := &w.servers[w.master], &w.servers[1-w.master]
	if w.how != Restart && !o.follows {
		all.free(Restore, 1-w.master, 0) // it becomes a replica
	}
	if !extra {
		return all
	}
	if m.record != nil {
		all.fault(NoAnswer, w.master, 0, 0)
		all.faults(Raise, w.master, 0, len(raises))
		if w.back != nil {
			all.preempt(w.back.server, 0, LateSend)
		}
	}
	if o.serves {
		all.preempt(1-w.master, 0, Put)
	}
	if !m.behind {
		all.fault(Breaks, w.master, 0, 0)
	}
	if !o.serves {
		all.fault(Kill, w.master, 0, 0)
	}
	if w.how == TwoMasters && !o.serves {
		all.fault(Kill, w.master, 0, 1)
	}
	all.faults(Jump, w.master, 0, 2)
	return all
}

// Do implements World.
func (w *lines) Do(c Choice) World {
	n := *w
	n.granted = slices.Clip(w.granted)
	switch i := int(c.Who); c.Kind {
	case Default:
		n.step(n.master, true)
	case NoAnswer:
		n.step(n.master, false)
	case Put:
		n.step(i, true)
	case LateSend:
		later := *n.back
		later.step += longTake
		n.back = &later
		n.step(n.master, true)
	case Raise:
		n.raise(i, raises[c.Arg])
	case Breaks:
		n.servers[i].behind = true
	case Kill:
		n.lose(c.Arg == 1)
	case Restore:
		m, o := &n.servers[n.master], &n.servers[i]
		o.serves, o.follows, o.record, m.behind = false, true, m.record, false
	case Jump:
		s := &n.servers[i]
		if s.ahead = rate.MaxSkew.Milliseconds(); c.Arg == 0 {
			s.ahead = -s.ahead
		}
	}
	return &n
}

// step is what happens in a pace: somebody creates the sequence, or reserves.
func (w *lines) step(i int, heard bool) {
	w.now += pace
	w.steps++
	if b := w.back; b != nil && w.steps >= b.step {
		w.takeBack()
	}
	if w.servers[i].record == nil {
		w.create(i)
		return
	}
	w.reserve(i, heard)
	w.follow(i)
}

func (w *lines) moment(i int) rate.Moment {
	s := &w.servers[i]
	return rate.Moment{Now: w.now + s.ahead, History: s.history}
}

// follow brings what a server has to its replica, or to its disk, and says whether it is there.
func (w *lines) follow(i int) bool {
	s, o := &w.servers[i], &w.servers[1-i]
	switch {
	case s.behind:
		return false
	case w.how == Restart:
		s.disk = s.record
		return true
	case o.follows:
		o.record = s.record
		return true
	}
	return false
}

// set writes a record.
func (w *lines) set(i int, r rate.Record) { w.servers[i].record = &r }

// makeSafe does what Store.makeSafe does. A disk is asked to be there, and is.
func (w *lines) makeSafe(i int) bool {
	r := *w.servers[i].record
	r.Token = w.token()
	w.set(i, r)
	if w.how == Restart {
		w.servers[i].disk = w.servers[i].record
	} else if !w.follow(i) {
		return false
	}
	r.Safe, r.Token = true, w.token()
	w.set(i, r)
	return true
}

func (w *lines) create(i int) {
	if w.defined {
		w.wrong = "a definition was lost that had been confirmed"
		return
	}
	d := counter.Sequence("orders")
	d.Rate = lineRate
	w.set(i, rate.New(d, w.moment(i), false, w.token())) // nobody was told that there was one, so this is right
	w.defined = w.makeSafe(i)
}

func (w *lines) raise(i int, by uint64) {
	r := *w.servers[i].record
	if !r.Safe {
		return
	}
	v, base, safe := r.Next+by, r.Base, r.Safe
	if err := r.Raise(w.moment(i), v, w.token()); err != nil {
		w.wrong = err.Error()
		return
	}
	switch w.mutant {
	case raiseWithoutLine:
		r.Base = base
	case raiseNotSafe:
		r.Safe = safe
	}
	w.set(i, r)
	if r.Safe || w.makeSafe(i) {
		w.floor = max(w.floor, v)
	}
}

// lose is a fail-over, or a restart. The old master may serve on.
func (w *lines) lose(serves bool) {
	old := &w.servers[w.master]
	if w.how == Restart {
		old.record, old.history, old.behind = old.disk, w.newHistory(), false
		return
	}
	next := &w.servers[1-w.master]
	w.master = 1 - w.master
	next.serves, next.follows, next.history, next.behind = true, false, w.newHistory(), false
	old.serves = serves
}

// reserve is a daemon's.
func (w *lines) reserve(i int, heard bool) {
	r, m := *w.servers[i].record, w.moment(i)
	switch w.mutant {
	case noJump:
		r.History = m.History
	case jumpWithoutEps:
		r.Epsilon = 0
	case beforeSafe:
		r.Safe = true
	}
	adopted := r.Adopt(m)
	r.Epsilon = w.servers[i].record.Epsilon
	b, err := r.Reserve(m, linePull, w.token())
	unlimited := w.mutant == noCeiling || w.mutant == raiseWithoutLine && r.Floor > 0
	if errors.Is(err, rate.ErrCeiling) && unlimited {
		b, err = r.Record.Reserve(linePull, w.token())
	}
	if errors.Is(err, rate.ErrNotSafe) && w.makeSafe(i) {
		w.defined = true
		return
	}
	if err != nil && !adopted {
		return
	}
	w.set(i, r)
	switch {
	case err != nil:
	case w.how == TwoMasters && !w.follow(i) && w.mutant != ignoreWait: // it does not count
		if w.back == nil {
			w.back = &unconfirmed{i, b, w.steps + 1}
		}
	case heard:
		w.grant(b)
	}
}

// takeBack does what a store does with a block of which nobody was told.
func (w *lines) takeBack() {
	b := w.back
	w.back = nil
	if w.servers[b.server].record == nil {
		return
	}
	r := *w.servers[b.server].record
	if w.mutant == takeBackAnyway {
		r.Next, r.Token = b.block.Lo, w.token()
	} else if r.Return(w.moment(b.server), b.block, b.block.Lo, w.token()) != nil {
		return
	}
	w.set(b.server, r)
}

// grant checks a block that a daemon may issue.
func (w *lines) grant(b counter.Block) {
	if b.Lo < w.floor {
		w.wrong = fmt.Sprintf("%d to %d were granted below the floor %d", b.Lo, b.Hi, w.floor)
	}
	for _, x := range w.granted {
		if max(b.Lo, x.Lo) <= min(b.Hi, x.Hi) {
			w.wrong = fmt.Sprintf("%d to %d were granted, and %d to %d before", b.Lo, b.Hi, x.Lo, x.Hi)
		}
	}
	w.granted = append(w.granted, counter.Block{Lo: b.Lo, Hi: b.Hi})
}

// Now implements World.
func (w *lines) Now() int64 { return w.now }

// Digest implements World.
func (w *lines) Digest() uint64 {
	d := digest{seen: make([]string, 0, 16)}
	d.numbers(w.now, int64(w.master))
	for i := range w.servers {
		s := &w.servers[i]
		d.Name(s.history)
		d.numbers(s.ahead, flags(s.behind, s.follows, s.serves, s.disk == s.record))
		visitLine(s.record, &d)
		visitLine(s.disk, &d)
	}
	d.numbers(int64(w.floor), flags(w.defined))
	for _, b := range w.granted {
		d.add(b.Lo)
		d.add(b.Hi)
	}
	if b := w.back; b != nil {
		d.numbers(int64(b.server), int64(b.step-w.steps))
		d.add(b.block.Lo)
		d.Name(b.block.Token)
	}
	return d.h
}

func visitLine(r *rate.Record, d *digest) {
	if r == nil {
		d.Number(-2)
		return
	}
	d.names(r.Token, r.History)
	d.numbers(int64(r.Next), int64(r.Floor), int64(r.Base), r.Created, r.Seen, flags(r.Safe))
}

// Say implements World.
func (w *lines) Say(c Choice) string {
	return say("lines", c, "CALL", "a daemon reserves at "+serverName(w.master), "SERVER", serverName(int(c.Who)),
		"RAISE", strconv.FormatUint(raises[c.Arg], 10), "SKEW", rate.MaxSkew.String())
}
