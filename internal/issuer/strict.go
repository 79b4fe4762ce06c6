package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// StrictConfig holds the settings of a Strict. All but Why and Complain are required.
type StrictConfig struct {
	Definition counter.Definition
	// MaxWait is how long requests wait for a leader, or for its answer; at least leastWait counts.
	MaxWait time.Duration
	Moment  func() int64          // CLOCK_BOOTTIME in ns, above 0
	Status  func() counter.Status // what the keeper knows, for Figures; asked only while this daemon leads
	Refused *atomic.Uint64        // counts refusals, with those of others; nil = it need not
	Ring    func()                // asks for a block; see counter.Keeper.Ring. It must return at once
	Wake    func()                // tells all who got id.ErrWait to ask again. It must return at once
	Forward Forwarder
	// Why returns why leadership is not renewed, or nil if the counter store does not answer. nil = not called.
	Why func() error
	// Complain is told why a request was refused for which no daemon had a value. It must return at once. nil = not
	// called.
	Complain func(why string)
	Clock    Clock // of timestamps only
}

const (
	leastWait  = 100 * time.Millisecond // for a call to another daemon
	lastWait   = 250 * time.Millisecond // for a call to a daemon that leads no more
	retryPause = 25 * time.Millisecond  // after one that failed
	paceAgain  = 2 * time.Millisecond   // after which those ask again who wait for the pace of timestamps
)

// A Strict issues the values of a sequence in strict order, as one of several daemons of which at most
// one leads at a time. It implements Reporter and id.Punctual. Any goroutine may call its methods, but
// Lead, HandOver and Follow only one at a time.
//
// # Order
//
// Let the answer to A have arrived before B was asked. Then A < B:
//
//   - In one term, the take of A had returned before that of B began: generator.Sequence.
//   - If B is of a later term, its block was reserved in that term, above all that the store had granted
//     before or keeps: counter/leader's fence.
//   - B cannot be of an earlier term. That A was answered means that the later term had begun before B
//     was asked. B's moment was read after that, and B was taken because its moment lay before the end
//     of the earlier term's authority, which lies before the beginning of any later term.
//
// So it matters when the request arrived, and not when its value is taken. But a request must take a
// value of the very term whose authority it compared with: both are in one standing.
type Strict struct {
	c    StrictConfig
	slot int
	row  row
	*tally
	standing  atomic.Pointer[standing]
	forwarded atomic.Uint64 // values that other daemons issued for requests to this one
	setBacks  atomic.Uint64 // see setBack
	nudged    atomic.Bool   // those who wait for the pace of timestamps are to be woken soon

	mu      sync.Mutex // guards the rest, and is held while standing changes
	past    uint64     // values issued in past terms
	last    uint64     // the largest value of those
	issued  uint64     // what Issued returned last
	batches *Batches
	cancel  context.CancelFunc // of the call under way; nil = there is none
	pausing bool               // no call before retryPause is over
	failure error              // of the last call; nil = it brought values
	over    error              // what a leader said for good; nil = nothing
	lacked  int64              // the newest end of authority that a request has come up against,
	found   int64              // and when the first one did
	still   standstill
}

// A standing says who issues: this daemon (term), another one (address), or none.
type standing struct {
	term    *Sequence
	until   func() int64 // moments before this one may take values of term
	owed    bool         // some requests may have values of the leader before, and collect those first
	address string
	since   int64 // since when no daemon issues
}

// NewStrict makes a Strict that has no leader yet.
func NewStrict(c StrictConfig) *Strict {
	s := &Strict{
		c: c, slot: id.Slot(c.Definition.Name), tally: &tally{all: c.Refused}, row: rowOf(c.Definition, c.Clock.RunAhead),
	}
	s.batches = s.row.batches()
	s.standing.Store(&standing{since: c.Moment()})
	return s
}

// Lead begins a term of this daemon: requests whose moment is before until() get values. What it returns
// is the term's, for a counter.Keeper to fill with blocks that are reserved within the term. It is
// sealed when the term ends, and never used in another one. until is called for every request.
func (s *Strict) Lead(until func() int64) counter.Issuer {
	term := NewSequence(SequenceConfig{Definition: s.c.Definition, MaxWait: s.c.MaxWait, Status: s.c.Status,
		Ring: s.c.Ring, Wake: s.c.Wake, Clock: s.c.Clock})
	term.tally, term.term = s.tally, true
	s.mu.Lock()
	term.above = max(s.last, s.batches.last)
	s.mu.Unlock()
	s.stand(&standing{term: term, until: until})
	return term
}

// HandOver ends this daemon's term, if it leads: no value is issued any more, and requests wait for the
// next leader. It seals the term's issuer.
func (s *Strict) HandOver() { s.Follow("") }

// Follow ends this daemon's term, if it leads, and makes another daemon the leader: that at address,
// host:port of its Redis protocol; "" = no daemon leads, and requests wait.
func (s *Strict) Follow(address string) {
	if st := s.standing.Load(); st.term == nil && st.address == address { // most of 10,000 at each change
		return
	}
	s.stand(&standing{address: address})
}

// stand changes the standing. The old term is sealed before any event loop sees the new one.
func (s *Strict) stand(next *standing) {
	s.mu.Lock()
	old := s.standing.Load()
	if old.term == nil && next.term == nil && old.address == next.address {
		s.mu.Unlock()
		return
	}
	if old.term != nil {
		old.term.values.Seal()
		s.past += old.term.values.Issued()
		s.last = max(s.last, old.term.values.Last())
	}
	if next.term == nil && next.address == "" {
		next.since = s.c.Moment()
	}
	if next.term != nil {
		s.batches.Clear()
	}
	next.owed = next.address == "" && s.batches.Due()
	if s.cancel != nil { // the old leader may have issued the values: they would be a gap
		time.AfterFunc(lastWait, s.cancel)
	}
	if next.owed {
		time.AfterFunc(2*lastWait, func() { s.settle(next) })
	}
	s.failure, s.pausing = nil, false
	s.standing.Store(next)
	if next.address != "" {
		s.send(next.address)
	}
	s.mu.Unlock()
	s.c.Wake()
}

// settle ends the time in which requests collect values of the leader before. Those of clients that went
// away are never collected.
func (s *Strict) settle(old *standing) {
	next := *old
	next.owed = false
	s.standing.CompareAndSwap(old, &next)
}

// collect answers a request that the leader before may have answered. Its values are not too small for the
// request, which had arrived before they were issued. ok = false: it gets others.
func (s *Strict) collect(moment int64, n int) (run id.Run, err error, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.row.most)
	if s.batches.Asked(moment, n) {
		return run, id.ErrWait, true
	}
	run, err, ok = s.batches.Collect(moment, n)
	if err != nil {
		err = s.told(err)
	}
	return run, err, ok
}

// Source implements Kind. All loops share one source.
func (s *Strict) Source(int) id.Source { return s }

// Moment implements id.Punctual.
func (s *Strict) Moment() int64 { return s.c.Moment() }

// Mint implements id.Source. A sequence has no bulk: it has no rate to share.
func (s *Strict) Mint(when id.When, n int, _ bool) (id.Run, error) {
	if when.Moment == 0 {
		return id.Run{}, id.ErrMoment
	}
	if st := s.standing.Load(); st.term != nil && !st.owed && when.Moment < st.until() {
		if run, err := st.term.values.Take(when.Moment, n); err == nil {
			return run, nil
		}
	}
	return s.insist(when, n, false)
}

// Reserve implements id.Reserver.
func (s *Strict) Reserve(when id.When, n int) (id.Run, error) {
	if when.Moment == 0 {
		return id.Run{}, id.ErrMoment
	}
	if st := s.standing.Load(); st.term != nil && !st.owed && when.Moment < st.until() {
		if run, err := st.term.values.Reserve(when.Moment, n); err == nil {
			return run, nil
		}
	}
	return s.insist(when, n, true)
}

// insist does what it takes to get values, as far as no client has to wait for it.
func (s *Strict) insist(when id.When, n int, whole bool) (run id.Run, err error) {
	if whole && n > s.row.most {
		return run, s.tooMany(n)
	}
	st, moment, redirect := s.standing.Load(), when.Moment, when.Redirect
	if st.owed {
		if run, err, ok := s.collect(moment, n); ok {
			return run, err
		}
	}
	switch {
	case st.term != nil && moment < st.until():
		if whole {
			run, err = st.term.Reserve(when, n)
		} else {
			run, err = st.term.Mint(when, n, false)
		}
		if err == generator.ErrAhead {
			err = s.tooFast(moment, st.term)
		}
		return run, err
	case st.term != nil:
		return run, s.lapsed(st.until())
	case st.address == "":
		return run, s.leaderless(st, redirect)
	case redirect:
		return run, id.Elsewhere{Slot: s.slot, Address: st.address}
	}
	return s.fetch(moment, min(n, s.row.most))
}

// tooMany is the error for more timestamps in a row than there can be.
func (s *Strict) tooMany(n int) error {
	return s.refuseForGood("sequence %s: %d ids in a row: at most %d fit into a tick of its layout and the run-ahead",
		s.c.Definition.Name, n, s.row.most)
}

// tooFast is the error for a request that must wait because the timestamps are ahead of the clock.
func (s *Strict) tooFast(moment int64, term *Sequence) error {
	s.mu.Lock()
	wait := s.waits(moment)
	s.mu.Unlock()
	if wait < s.c.MaxWait {
		if !s.nudged.Swap(true) {
			time.AfterFunc(paceAgain, func() {
				s.nudged.Store(false)
				s.c.Wake()
			})
		}
		return id.ErrWait
	}
	behind := term.values.(*generator.Positions).Distance()
	if behind <= s.c.Clock.RunAhead+MaxWait {
		return s.refuse("sequence %s: id rate exceeded", s.c.Definition.Name)
	}
	return s.refuse("sequence %s: clock %s behind the last id", s.c.Definition.Name, ago(behind.Milliseconds()))
}

// Where implements id.Punctual.
func (s *Strict) Where() (at id.Elsewhere, elsewhere bool) {
	st := s.standing.Load()
	return id.Elsewhere{Slot: s.slot, Address: st.address}, st.term == nil && st.address != ""
}

// lapsed is the error while this daemon leads and may not issue, because it could not renew its
// leadership. until is 0 if the term is ending.
func (s *Strict) lapsed(until int64) error {
	if until > 0 && s.lacks(until) >= s.c.MaxWait {
		return s.complain(s.notRenewed(s.after(until)))
	}
	return id.ErrWait
}

// lacks is called for a request that no daemon may answer since the moment over. It returns for how long that has
// been so for requests: a process that was stopped meanwhile, or that no client asked, does not count that time. So
// a request after a pause waits for the renewal under way. over is another moment after each renewal or change of
// leader, and later than those before: a thread that still has an old one begins nothing anew.
func (s *Strict) lacks(over int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.waits(s.found)
	if over > s.lacked {
		s.lacked, s.found, wait = over, s.still.asked, 0
	}
	return wait
}

// waits is called for a request that must wait. It returns for how long one has that has waited since a moment. The
// caller holds mu.
func (s *Strict) waits(since int64) time.Duration {
	now := s.c.Moment()
	s.still.ask(now)
	return s.still.waited(now, since)
}

func (s *Strict) notRenewed(wait time.Duration) string {
	why := s.why()
	if why == nil {
		why = errors.New("the counter store does not answer")
	}
	return fmt.Sprintf("sequence %s: this daemon has not renewed its leadership for %.1fs: %v",
		s.c.Definition.Name, wait.Seconds(), why)
}

// leaderless is the error while no daemon leads.
func (s *Strict) leaderless(st *standing, redirect bool) error {
	if s.lacks(st.since) < s.c.MaxWait {
		return id.ErrWait
	}
	err := s.complain(s.noLeader(s.after(st.since)))
	if redirect {
		return id.Elsewhere{Slot: s.slot}
	}
	return err
}

// complain refuses a request for which no daemon has a value.
func (s *Strict) complain(why string) error {
	if s.c.Complain != nil {
		s.c.Complain(why)
	}
	return s.refuse("%s", why)
}

func (s *Strict) noLeader(wait time.Duration) string {
	text := fmt.Sprintf("sequence %s: no daemon has led it for %.1fs", s.c.Definition.Name, wait.Seconds())
	if why := s.why(); why != nil {
		text += ": " + why.Error()
	}
	return text
}

func (s *Strict) why() error {
	if s.c.Why == nil {
		return nil
	}
	return s.c.Why()
}

// after returns the time since a moment.
func (s *Strict) after(moment int64) time.Duration { return time.Duration(s.c.Moment() - moment) }

// Over returns why the sequence issues nothing any more, for good, as far as this daemon knows: if it leads it, or its
// leader has said so.
func (s *Strict) Over() error {
	if term := s.standing.Load().term; term != nil {
		return term.Over()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Ready implements Kind. While another daemon leads it is an error only if that one does not answer.
func (s *Strict) Ready(now int64) error {
	st := s.standing.Load()
	s.mu.Lock()
	failure := s.failure
	s.mu.Unlock()
	switch {
	case st.term != nil:
		if until := st.until(); until > 0 && s.after(until) >= s.c.MaxWait {
			return refusal("%s", s.notRenewed(s.after(until)))
		}
		return st.term.Ready(now)
	case st.address == "" && s.after(st.since) >= s.c.MaxWait:
		return refusal("%s", s.noLeader(s.after(st.since)))
	case failure != nil:
		return refusal("sequence %s: no value from its leader %s: %v", s.c.Definition.Name, st.address, failure)
	}
	return nil
}

// Issued implements Reporter: the values that this daemon issued as the leader.
func (s *Strict) Issued() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.past
	if st := s.standing.Load(); st.term != nil {
		n += st.term.values.Issued()
	}
	s.issued = max(s.issued, n)
	return s.issued
}

// Figures implements Reporter.
func (s *Strict) Figures(emit func(figure.Figure)) Condition {
	s.mu.Lock()
	st, last := s.standing.Load(), max(s.last, s.batches.last) // of its terms, and of its leaders' answers
	s.mu.Unlock()
	c, left := Condition{Order: "strict", Leader: st.address}, uint64(0)
	var status func() counter.Status
	switch {
	case st.term != nil:
		c.Leader, left, status = "this daemon", st.term.values.Left(), s.c.Status
		last = max(last, st.term.values.Last())
	case c.Leader == "":
		c.Leader = "none"
	}
	s.figures(emit, &c, last, left, status)
	emit(figure.Figure{Stat: "leader", Value: c.Leader})
	emit(figure.Figure{
		Stat: "forwarded", Metric: "generator_forwarded_total", Value: s.forwarded.Load(), Count: true,
		Help: "Values that another daemon, the leader, issued for clients of this one.",
	})
	if s.c.Definition.Timed() {
		c.figures(emit, st.term)
	}
	emit(figure.Figure{
		Stat: "set_back", Metric: "generator_set_back_total", Value: s.setBacks.Load(), Count: true,
		Help: "Values that were not passed on because larger ones were issued before: the counter store has lost " +
			"data.",
	})
	return c
}

// figures emits what only timestamps have, and notes it. term is nil while this daemon does not lead.
func (c *Condition) figures(emit func(figure.Figure), term *Sequence) {
	if term != nil {
		p := term.values.(*generator.Positions)
		c.Hi, c.Distance = p.Hi(), max(p.Distance(), 0)
	}
	emit(figure.Figure{
		Stat: hiStat, Metric: "generator_hi", Value: int64(c.Hi),
		Help: "Largest id of strict timestamps that may be issued without another write; 0 on daemons that do not lead.",
	})
	emit(figure.Figure{
		Stat: "distance_ms", Metric: "generator_distance_seconds", Value: c.Distance,
		Help: "How far the last timestamp is ahead of the clock, on the daemon that leads.",
	})
}
