package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Bound says how much a schedule may have.
type Bound struct {
	Faults, Preemptions int
	Time                int64  // ms from the start of the world
	Kinds               []Kind // of faults; nil = all
	Last                []Kind // the last fault is one of these if there are more than one; nil = any
	Begin               int64  // faults begin before that, ms from the start; 0 = at any time
}

// A Choice is what happens next.
type Choice struct {
	Kind               Kind
	Faults, Preemption int8 // what it costs
	Who, At, Arg       int8 // as the Kind needs them
}

// An offer is choices that a world gathers.
type offer []Choice

func (o *offer) fault(k Kind, who, at, arg int) {
	*o = append(*o, Choice{Kind: k, Faults: 1, Who: int8(who), At: int8(at), Arg: int8(arg)})
}

// faults adds those of a Kind with so many Args, from 0 on.
func (o *offer) faults(k Kind, who, at, args int) {
	for arg := range args {
		o.fault(k, who, at, arg)
	}
}

// preempt adds what only changes an order.
func (o *offer) preempt(who, at int, all ...Kind) {
	for _, k := range all {
		*o = append(*o, Choice{Kind: k, Preemption: 1, Who: int8(who), At: int8(at)})
	}
}

// free adds what costs nothing.
func (o *offer) free(k Kind, who, arg int) {
	*o = append(*o, Choice{Kind: k, Who: int8(who), Arg: int8(arg)})
}

// A World is a state. It does not change, so any number of states may share parts.
type World interface {
	// Choices adds all that may happen next, the default first. extra says whether any may cost; what costs nothing
	// may happen without it.
	Choices(to []Choice, extra bool) []Choice
	// Do is the state after a choice; nil if it makes no difference.
	Do(c Choice) World
	Say(c Choice) string // what it means here
	Digest() uint64
	Now() int64 // ms from the start
	Err() error // a promise is broken
}

// A server is a World that says whether its daemons serve.
type server interface{ serves() bool }

// A Deviation is a choice that costs, and the number of choices before it.
type Deviation struct {
	Step int
	Choice
}

// A Schedule is all deviations of a run. Everything else is the default.
type Schedule []Deviation

// Report is what came of an exploration.
type Report struct {
	Points   int64 // choices that were carried out
	States   int   // that differ
	Complete bool  // within the bound
	Schedule Schedule
	Err      error // what the schedule shows
}

// left is what a state has left of the bound.
type left struct {
	faults, preemptions uint32
	time                int64
}

func (l left) pack() uint32 { return l.faults<<28 | l.preemptions<<24 | uint32(max(l.time, 0)) }

// covers says whether what is left in a is at least what is left in b.
func covers(a, b uint32) bool {
	return a>>28 >= b>>28 && a>>24&15 >= b>>24&15 && a&0xffffff >= b&0xffffff
}

// A frame is a state on the way to the present one.
type frame struct {
	world   World
	choices []Choice
	next    int
	left    left
}

// An Explorer explores one world within one bound.
type Explorer struct {
	Bound  Bound
	Most   int          // states that are remembered; 0 = 1<<24. Beyond that, states are visited again
	Every  int64        // points between two calls of Tell; 0 = never
	Tell   func(Report) // may panic to stop; Path is valid within
	Resume []int        // the Path of an earlier exploration of the same world and bound

	seen   table
	stack  []frame
	report Report
}

// Path is the choices, by number, that led to the present state.
func (e *Explorer) Path() []int {
	path := make([]int, 0, len(e.stack))
	for _, f := range e.stack {
		if f.next > 0 { // the last one may be new
			path = append(path, f.next-1)
		}
	}
	return path
}

// Run explores everything after a start. It stops at the first state that breaks a promise.
func (e *Explorer) Run(start World) Report {
	if e.Most == 0 {
		e.Most = 1 << 24
	}
	e.seen.most = e.Most
	e.enter(start, left{uint32(e.Bound.Faults), uint32(e.Bound.Preemptions), e.Bound.Time})
	resume := e.Resume
	for len(e.stack) > 0 {
		f := &e.stack[len(e.stack)-1]
		if len(resume) > 0 {
			f.next, resume = resume[0], resume[1:]
		}
		if f.next >= len(f.choices) {
			e.stack = e.stack[:len(e.stack)-1]
			continue
		}
		c := f.choices[f.next]
		f.next++
		if !e.allowed(c, f.left, f.world) {
			continue
		}
		w := f.world.Do(c)
		if w == nil {
			continue
		}
		e.report.Points++
		if err := w.Err(); err != nil {
			e.report.Err, e.report.Schedule = err, e.schedule()
			e.report.States = e.seen.n
			return e.report
		}
		e.enter(w, left{f.left.faults - uint32(c.Faults), f.left.preemptions - uint32(c.Preemption), e.Bound.Time - w.Now()})
		if e.Every > 0 && e.report.Points%e.Every == 0 {
			e.report.States = e.seen.n
			e.Tell(e.report)
		}
	}
	e.report.States, e.report.Complete = e.seen.n, true
	return e.report
}

// enter goes on from a state, unless that was done already.
func (e *Explorer) enter(w World, l left) {
	if l.time <= 0 || !e.seen.add(w.Digest(), l.pack()) {
		return
	}
	var room []Choice
	if n := len(e.stack); n < cap(e.stack) { // what an earlier frame used
		room = e.stack[:n+1][n].choices[:0]
	}
	e.stack = append(e.stack, frame{w, w.Choices(room, l.faults+l.preemptions > 0), 0, l})
}

func (e *Explorer) allowed(c Choice, l left, w World) bool {
	if uint32(c.Faults) > l.faults || uint32(c.Preemption) > l.preemptions {
		return false
	}
	if c.Faults == 0 {
		return true
	}
	if e.Bound.Begin > 0 && w.Now() >= e.Bound.Begin {
		return false
	}
	if e.Bound.Kinds != nil && !slices.Contains(e.Bound.Kinds, c.Kind) {
		return false
	}
	return l.faults > 1 || e.Bound.Faults < 2 || e.Bound.Last == nil || slices.Contains(e.Bound.Last, c.Kind)
}

// schedule is how the present state came about.
func (e *Explorer) schedule() (s Schedule) {
	for i, f := range e.stack {
		if c := f.choices[f.next-1]; c.Kind != Default {
			s = append(s, Deviation{i, c})
		}
	}
	return s
}

// ErrOther: a schedule does not fit the world, because that has changed.
var ErrOther = errors.New("the schedule does not fit this world")

// Replay runs a schedule from a start for some time, ms, and returns what happens in it in plain sentences,
// and what it shows to be wrong: nil if nothing is.
func Replay(w World, s Schedule, time int64) (told []string, err error) {
	var room []Choice
	for step := 0; w.Now() < time; step++ {
		room = w.Choices(room[:0], len(s) > 0)
		c := room[0]
		if len(s) > 0 && s[0].Step == step {
			c, s = s[0].Choice, s[1:]
			if !slices.Contains(room, c) {
				return told, ErrOther
			}
		}
		if c.Kind != Default || len(s) == 0 || s[0].Step < step+3 {
			told = append(told, fmt.Sprintf("%6d ms: %s", w.Now(), w.Say(c)))
		}
		next := w.Do(c)
		if next == nil {
			return told, ErrOther
		}
		if w = next; w.Err() != nil {
			return told, w.Err()
		}
	}
	return told, nil
}

// Stage is a world once a schedule has happened to it. Its time begins there.
func Stage(w World, s Schedule) (World, error) {
	var room []Choice
	for step := 0; len(s) > 0; step++ {
		room = w.Choices(room[:0], true)
		c := room[0]
		if s[0].Step == step {
			c, s = s[0].Choice, s[1:]
		}
		if !slices.Contains(room, c) {
			return nil, ErrOther
		}
		if w = w.Do(c); w == nil {
			return nil, ErrOther
		}
	}
	return &since{w, w.Now()}, w.Err()
}

// Shorten leaves out the deviations that are not needed.
func Shorten(w World, s Schedule, time int64) Schedule {
	for i := 0; i < len(s); {
		shorter := slices.Delete(slices.Clone(s), i, i+1)
		if _, err := Replay(w, shorter, time); err != nil && !errors.Is(err, ErrOther) {
			s = shorter
		} else {
			i++
		}
	}
	return s
}

// String is the Go text of a Schedule, for a test that replays it.
func (s Schedule) String() string {
	var b strings.Builder
	for i, d := range s {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "%d:%d.%d.%d.%d.%d.%d", d.Step, d.Kind, d.Faults, d.Preemption, d.Who, d.At, d.Arg)
	}
	return b.String()
}

// ParseSchedule reads what String wrote.
func ParseSchedule(text string) (s Schedule, err error) {
	for part := range strings.FieldsSeq(text) {
		var d Deviation
		const form = "%d:%d.%d.%d.%d.%d.%d"
		_, err := fmt.Sscanf(part, form, &d.Step, &d.Kind, &d.Faults, &d.Preemption, &d.Who, &d.At, &d.Arg)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		s = append(s, d)
	}
	return s, nil
}

// A since is a world whose time counts from a start.
type since struct {
	World
	start int64
}

// Now implements World.
func (s *since) Now() int64 { return s.World.Now() - s.start }

func (s *since) serves() bool {
	w, does := s.World.(server)
	return !does || w.serves()
}

// Do implements World.
func (s *since) Do(c Choice) World {
	next := s.World.Do(c)
	if next == nil {
		return nil
	}
	return &since{next, s.start}
}
