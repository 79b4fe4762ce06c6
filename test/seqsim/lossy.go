package seqsim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
)

// A Fault is a lossy world without one of the rules of package line.
type Fault int

// The faults.
const (
	NoFault          Fault = iota
	NoJump                 // R2: a server that was promoted goes on where its record is
	JumpWithoutEps         // R2: the clocks of two servers are taken for one
	NoCeiling              // R1
	IgnoreWait             // R3: a grant counts though the replica lacks it
	BeforeSafe             // R4: values are issued before the definition is where a loss cannot take it
	RaiseWithoutLine       // R5: what was raised is granted above the line
	RaiseNotSafe           // R5: a raise counts although a loss can take it
	TakeBackAnyway         // what was not confirmed is taken back whoever has written since
	NumFaults
)

func (f Fault) String() string {
	return [...]string{
		"NoFault", "NoJump", "JumpWithoutEps", "NoCeiling", "IgnoreWait", "BeforeSafe", "RaiseWithoutLine", "RaiseNotSafe",
		"TakeBackAnyway",
	}[f]
}

// A Lossy is a world of two servers that lose what they have confirmed, as Redis does. One follows the
// other, some writes behind. Fail-overs, restarts and an operator come at any time.
type Lossy struct {
	Values int // granted to daemons that heard of it
	Losses int // of writes that had been confirmed
	Taken  int // blocks that were not confirmed and did not become gaps

	fault   Fault
	mode    mode
	rnd     *rand.Rand
	now     int64 // true time, ms
	servers [2]*lossyServer
	master  int
	names   int // of histories
	tokens  int
	seen    map[uint64]bool
	floor   uint64 // of a raise that was confirmed
	defined bool   // a definition was confirmed
	back    func() // takes back what was not confirmed; nil = nothing to take back
	problem error
}

type mode int

const (
	oneMaster  mode = iota // a fail-over loses writes, and the old master has stopped
	twoMasters             // it has not, and grants wait for the replica
	restarts               // one server, whose disk is a while behind
	numModes
)

// A lossyServer holds one sequence.
type lossyServer struct {
	ahead   int64 // ms of its clock before the true time
	history string
	record  *line.Record // nil = none
	disk    *line.Record // what a restart brings back
	follows bool         // the other one
	serves  bool
}

// RunLossy runs a world for so many steps. The error says what went wrong, and when.
func RunLossy(seed uint64, steps int, fault Fault) (*Lossy, error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &Lossy{fault: fault, rnd: rnd, mode: mode(rnd.IntN(int(numModes))), now: 1e12, seen: map[uint64]bool{}}
	for i := range w.servers {
		w.servers[i] = &lossyServer{ahead: w.skew(), history: w.newHistory()}
	}
	w.servers[0].serves, w.servers[1].follows = true, true
	for step := range steps {
		w.now += rnd.Int64N(400)
		w.step()
		if w.problem != nil {
			return w, fmt.Errorf("step %d, %.1f s, mode %d: %w", step, float64(w.now-1e12)/1000, w.mode, w.problem)
		}
	}
	return w, nil
}

// skew is as far from true as a clock may be.
func (w *Lossy) skew() int64 {
	most := line.MaxSkew.Milliseconds()
	return w.rnd.Int64N(2*most+1) - most
}

func (w *Lossy) newHistory() string {
	w.names++
	return fmt.Sprint("history", w.names)
}
func (w *Lossy) token() string {
	w.tokens++
	return fmt.Sprint("write", w.tokens)
}

func copyOf(r *line.Record) *line.Record {
	if r == nil {
		return nil
	}
	c := *r
	return &c
}

func (w *Lossy) other(s *lossyServer) *lossyServer {
	if w.servers[0] == s {
		return w.servers[1]
	}
	return w.servers[0]
}

func (w *Lossy) moment(s *lossyServer) line.Moment {
	return line.Moment{Now: w.now + s.ahead, History: s.history}
}

// wait brings what a server has to its replica, or says that there is none.
func (w *Lossy) wait(s *lossyServer) bool {
	if o := w.other(s); w.mode != restarts && o.follows {
		o.record = copyOf(s.record)
		return true
	}
	return false
}

func (w *Lossy) step() {
	s := w.servers[w.master]
	if o := w.other(s); o.serves && w.rnd.IntN(2) == 0 { // a daemon has not heard of the fail-over
		s = o
	}
	switch k := w.rnd.IntN(100); {
	case k < 60:
		w.reserve(s)
	case k < 70:
		w.wait(s)
		s.disk = copyOf(s.record)
	case k < 76:
		w.operate(s)
	case k < 80:
		w.lose()
	case k < 82 && w.back != nil:
		w.back()
		w.back = nil
	case k < 88: // what was master becomes a replica
		if m := w.servers[w.master]; w.mode != restarts {
			o := w.other(m)
			o.serves, o.follows, o.record = false, true, copyOf(m.record)
		}
	case k < 90: // the clocks are corrected, or drift
		s.ahead = w.skew()
	case k == 90:
		if w.mode != restarts {
			w.other(w.servers[w.master]).follows = false
		}
	}
}

// lose is a fail-over, or a restart.
func (w *Lossy) lose() {
	old := w.servers[w.master]
	if w.mode == restarts {
		if old.disk == nil || old.record == nil || *old.disk != *old.record {
			w.Losses++
		}
		old.record, old.history, old.ahead = copyOf(old.disk), w.newHistory(), w.skew()
		return
	}
	next := w.other(old)
	if next.serves {
		return
	}
	w.master = 1 - w.master
	next.serves, next.follows, next.history, next.disk = true, false, w.newHistory(), copyOf(next.record)
	old.serves = w.mode == twoMasters && w.rnd.IntN(2) == 0
	w.Losses++
}

// makeSafe does what Store.makeSafe does.
func (w *Lossy) makeSafe(s *lossyServer) bool {
	s.record.Token = w.token()
	if w.mode == restarts {
		s.disk = copyOf(s.record)
	} else if !w.wait(s) {
		return false
	}
	s.record.Safe, s.record.Token = true, w.token()
	return true
}

// operate is what an operator does: create, and raise.
func (w *Lossy) operate(s *lossyServer) {
	if s.record == nil {
		if w.defined {
			w.problem = errors.New("a definition was lost that had been confirmed")
			return
		}
		d := counter.Sequence("orders")
		d.Rate = 10
		r := line.New(d, w.moment(s), false, w.token()) // nobody was told that there was one, so this is right
		s.record = &r
		w.defined = w.makeSafe(s)
		return
	}
	if w.rnd.IntN(8) > 0 || !s.record.Safe {
		return
	}
	r := *s.record
	v := r.Next + w.rnd.Uint64N(3000)
	base, safe := r.Base, r.Safe
	if err := r.Raise(w.moment(s), v, w.token()); err != nil {
		w.problem = err
		return
	}
	switch w.fault {
	case RaiseWithoutLine:
		r.Base = base
	case RaiseNotSafe:
		r.Safe = safe
	}
	s.record = &r
	if r.Safe || w.makeSafe(s) {
		if w.fault != RaiseNotSafe {
			w.floor = max(w.floor, v)
		}
	}
}

// reserve is a daemon's.
func (w *Lossy) reserve(s *lossyServer) {
	if s.record == nil {
		return
	}
	r, m := copyOf(s.record), w.moment(s)
	switch w.fault {
	case NoJump:
		r.History = m.History
	case JumpWithoutEps:
		r.Epsilon = 0
	case BeforeSafe:
		r.Safe = true
	}
	adopted := r.Adopt(m)
	epsilon := s.record.Epsilon
	n := 1 + w.rnd.Uint64N(200)
	b, err := r.Reserve(m, n, w.token())
	if errors.Is(err, line.ErrCeiling) && (w.fault == NoCeiling || w.fault == RaiseWithoutLine && r.Floor > 0) {
		b, err = r.Record.Reserve(n, w.token())
	}
	if errors.Is(err, line.ErrNotSafe) && w.makeSafe(s) {
		w.defined = true
		return
	}
	if err != nil && !adopted {
		return
	}
	r.Epsilon = epsilon
	s.record = r
	switch {
	case err != nil:
	case w.mode == twoMasters && !w.wait(s) && w.fault != IgnoreWait: // it does not count
		w.back = func() { w.takeBack(s, b) }
	case w.rnd.IntN(10) > 0: // the answer is not lost
		w.granted(b)
	}
}

// takeBack does what Store.giveBack does with a block of which nobody was told.
func (w *Lossy) takeBack(s *lossyServer, b counter.Block) {
	if s.record == nil {
		return
	}
	r := copyOf(s.record)
	if w.fault == TakeBackAnyway {
		r.Next, r.Token = b.Lo, w.token()
	} else if r.Return(w.moment(s), b, b.Lo, w.token()) != nil {
		return
	}
	s.record = r
	w.Taken++
}

// granted checks a block that a daemon may issue.
func (w *Lossy) granted(b counter.Block) {
	if b.Lo < w.floor {
		w.problem = fmt.Errorf("%d to %d were granted below the floor %d", b.Lo, b.Hi, w.floor)
	}
	for v := b.Lo; v <= b.Hi; v++ {
		if w.seen[v] {
			w.problem = fmt.Errorf("%d was granted twice", v)
			return
		}
		w.seen[v] = true
		w.Values++
	}
}
