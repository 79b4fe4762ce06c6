package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// All stands for all groups that a daemon leads.
const All = -1

var allGroups = func() (all []int) {
	for g := range MaxGroups {
		all = append(all, g)
	}
	return all
}()

var (
	// ErrAlone: no other daemon takes part, so none would lead. Nothing was done.
	ErrAlone = errors.New("no other daemon takes part")
	// ErrNotLeader: this daemon does not lead the group. Nothing was done.
	ErrNotLeader = errors.New("this daemon does not lead the group")
	// ErrReplaced: another store answers than the one that the Board began with. Nothing was learnt from it.
	// Retrying helps if the first one comes back; otherwise the daemon must be restarted.
	ErrReplaced = errors.New("the store that says who leads was replaced")
)

// Config is what a Runner is made of. All but Changed is required.
type Config struct {
	Me    Node
	Board Board
	// Clock returns CLOCK_BOOTTIME in ns, above 0: the one that moments are read from.
	Clock func() int64
	// Wall returns the time of day, Unix ns. nil = timestamps are led without regard to it.
	Wall func() int64
	Log  *slog.Logger
	// Begin is called when the daemon has become the leader of a group. It must not issue before it has
	// reserved within the Term.
	Begin func(Term)
	// End is called when a Term is over or is to be handed over; Until is 0 by then. It returns once
	// nothing of the Term can be issued any more, and what is left was given back within the Term, as
	// far as that is possible. Only then the group is handed over.
	//
	// Calls for one group come one after another, Begin and End in turn. Those for different groups come
	// from different goroutines.
	End func(Term)
	// Changed is called when a View differs from the one before in more than its time. It must return at
	// once. nil = not called.
	Changed func(*View)
}

// A Runner takes part in the election with one goroutine, and a few more for calls that are under way
// and for Begin and End. Any goroutine may call its methods.
type Runner struct {
	c     Config
	rung  chan struct{} // there may be something to do
	until [MaxGroups]atomic.Int64
	view  atomic.Pointer[View]

	mu    sync.Mutex
	m     *Machine
	cues  [MaxGroups]cue
	saw   []map[int]Leader // what watch has seen, and Run has not
	moved chan struct{}    // closed and replaced when anything has changed
	deaf  bool             // the last call failed
	other error            // the ErrReplaced that is so since a call succeeded; nil = there is none
}

// A cue is the Begins and Ends of a group that are still to be told, one after another.
type cue struct {
	events []Event
	told   bool // a goroutine tells them
}

// NewRunner makes a Runner. It does nothing before Run.
func NewRunner(c Config) *Runner {
	r := &Runner{c: c, rung: make(chan struct{}, 1), m: NewMachine(c.Me), moved: make(chan struct{})}
	r.view.Store(r.m.View())
	return r
}

// stopTimeout is how long Run tries to hand over after its context has ended.
const stopTimeout = 5 * time.Second

// Run takes part until ctx ends. From the first call on all groups are contested, so a daemon calls it
// when the first sequence with order=strict is known, and only once. When ctx ends, Run hands over what is
// still held, as Stop does but for a few seconds at most, and removes the daemon's node key. The error
// says if that failed: then no daemon leads those groups for TTL.
func (r *Runner) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx) })
	defer watching.Wait()
	ctxDone := ctx.Done()
	var giveUp <-chan time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	var under *answer
	for {
		next, wait, gone := r.next()
		if gone && giveUp != nil {
			return nil
		}
		if next != nil {
			under = r.start(*next)
		}
		timer.Reset(wait)
		var answered <-chan struct{}
		if under != nil {
			answered = under.came
		}
		select {
		case <-ctxDone:
			ctxDone, giveUp = nil, time.After(stopTimeout)
			r.step(func(now int64) { r.m.Halt(now) })
		case <-giveUp:
			return errors.New("not all groups were handed over: no daemon leads the rest until others have noticed")
		case <-r.rung:
			r.see()
		case <-answered:
			r.take(under)
			under = nil
		case <-timer.C:
			if under != nil && r.c.Clock() >= under.until {
				under.cancel() // what comes later is dropped
				under = nil
				r.take(&answer{err: fmt.Errorf("no answer within %v", Patience)})
			}
		}
	}
}

// An answer is that of a call under way. Its results are set when came is closed.
type answer struct {
	until  int64 // when it is given up
	cancel context.CancelFunc
	came   chan struct{}
	done   bool
	state  State
	err    error
}

func (r *Runner) start(c Change) *answer {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	a := &answer{until: r.c.Clock() + int64(Patience), cancel: cancel, came: make(chan struct{})}
	go func() {
		defer cancel()
		a.done, a.state, a.err = r.c.Board.Commit(ctx, c)
		close(a.came)
	}()
	return a
}

// next asks the Machine what to do. gone = it has stopped, and the Board has nothing of it.
func (r *Runner) next() (c *Change, wait time.Duration, gone bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.c.Clock()
	if r.c.Wall != nil {
		r.m.Tell(now, r.c.Wall())
	}
	c, wake := r.m.Next(now)
	return c, time.Duration(wake - now), r.m.gone()
}

// step lets something happen to the Machine, and acts on it.
func (r *Runner) step(happen func(now int64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	happen(r.c.Clock())
	for g := range r.until { // before tell, which takes mu
		r.until[g].Store(r.m.Until(g))
	}
	for _, e := range r.m.Events() {
		q := &r.cues[e.Group]
		q.events = append(q.events, e)
		if !q.told {
			q.told = true
			go r.tell(q)
		}
	}
	close(r.moved)
	r.moved = make(chan struct{})
	r.ring()
}

func (r *Runner) ring() {
	select {
	case r.rung <- struct{}{}:
	default:
	}
}

// tell calls Begin and End of a group.
func (r *Runner) tell(q *cue) {
	for {
		r.mu.Lock()
		if len(q.events) == 0 {
			q.told = false
			r.mu.Unlock()
			return
		}
		e := q.events[0]
		q.events = q.events[1:]
		r.mu.Unlock()
		switch {
		case e.Begins:
			r.c.Log.Info("this daemon leads a group of sequences", "group", e.Group, "term", e.Number)
			r.c.Begin(e.Term)
			continue
		case e.Lost:
			r.c.Log.Warn("another daemon has taken over a group of sequences", "group", e.Group, "term", e.Number)
		default:
			r.c.Log.Info("a group of sequences is handed over", "group", e.Group, "term", e.Number)
		}
		r.c.End(e.Term)
		r.step(func(int64) { r.m.Ended(e.Group) })
	}
}

// take gives the Machine an answer.
func (r *Runner) take(a *answer) {
	was, replaced := r.Replaced(), errors.Is(a.err, ErrReplaced)
	switch {
	case replaced && was == nil:
		r.c.Log.Error("sequences with order=strict are refused until this daemon is restarted", "error", a.err)
	case a.err != nil && !replaced && !r.deaf:
		r.c.Log.Warn("the store that says who leads does not answer", "error", a.err)
	case a.err == nil && r.deaf:
		r.c.Log.Info("the store that says who leads answers again")
	}
	r.deaf = a.err != nil
	if replaced || a.err == nil {
		r.mu.Lock()
		r.other = a.err
		r.mu.Unlock()
	}
	r.step(func(now int64) { r.m.Answer(now, a.done, a.state, a.err) })
	r.publish()
}

// see gives the Machine what watch has seen.
func (r *Runner) see() {
	r.mu.Lock()
	saw := r.saw
	r.saw = nil
	r.mu.Unlock()
	if saw == nil {
		return
	}
	r.step(func(now int64) {
		for _, written := range saw {
			r.m.Saw(now, written)
		}
	})
	r.publish()
}

// publish makes what the Machine knows the View. Only Run's goroutine may call it.
func (r *Runner) publish() {
	r.mu.Lock()
	now := r.m.View()
	r.mu.Unlock()
	old := r.view.Swap(now)
	node := func(a, b NodeKey) bool { return a.Node == b.Node }
	same := (old.At != 0 || now.At == 0) && old.Leaders == now.Leaders && slices.EqualFunc(old.Nodes, now.Nodes, node)
	if !same && r.c.Changed != nil {
		r.c.Changed(now)
	}
}

// watch tells the Machine what has changed, or when to read. It works without.
func (r *Runner) watch(ctx context.Context) {
	changed := func(written map[int]Leader) {
		r.mu.Lock()
		r.saw = append(r.saw, written)
		r.mu.Unlock()
		r.ring()
	}
	for ctx.Err() == nil {
		r.c.Board.Watch(ctx, changed) // whatever the reason for its end, the poll goes on
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

// SetTimed says that a group of timestamps has some, see Machine.
func (r *Runner) SetTimed(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m.SetTimed(group)
}

// Until returns up to when this daemon leads a group, as a moment of Config.Clock: it may answer a
// request that arrived before. 0 = it does not lead. From the end of a Term on it is 0 until End
// has returned for it. It is one atomic load.
func (r *Runner) Until(group int) int64 { return r.until[group].Load() }

// View returns what is known of all. It is one atomic load; no caller may change what it points to.
func (r *Runner) View() *View { return r.view.Load() }

// Replaced returns an ErrReplaced from when another store answers until the first one does again, or nil.
func (r *Runner) Replaced() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.other
}

// Demote hands groups over to other daemons, or All, and returns when that is done. For 2 s this daemon
// does not claim them again, unless the other one hands them back. If none can be handed over it returns
// ErrAlone or ErrNotLeader; or that of ctx: then they are handed over later.
func (r *Runner) Demote(ctx context.Context, groups ...int) error {
	if len(groups) == 1 && groups[0] == All {
		groups = allGroups
	}
	var terms []Term
	var why error
	r.step(func(now int64) {
		for _, g := range groups {
			if err := r.m.Demote(now, g); err == nil {
				terms = append(terms, r.m.groups[g].term)
			} else if why == nil || err == ErrAlone {
				why = err
			}
		}
	})
	if len(terms) == 0 {
		return why
	}
	return r.wait(ctx, func() bool {
		return !slices.ContainsFunc(terms, func(t Term) bool { return r.m.Leads(t.Group) && r.m.groups[t.Group].term == t })
	})
}

// Stop hands all groups over and claims none afterwards, nor is this daemon an heir. Run goes on,
// so that View stays true while the daemon forwards. The error is that of ctx, or ErrAlone: then it leads on.
func (r *Runner) Stop(ctx context.Context) error {
	alone := false
	r.step(func(now int64) {
		if alone = r.m.busy() && len(r.m.alive(now, 0)) == 0; !alone {
			r.m.Stop(now)
		}
	})
	if alone {
		return ErrAlone
	}
	return r.wait(ctx, func() bool { return !r.m.busy() })
}

// wait waits for a condition of the Machine.
func (r *Runner) wait(ctx context.Context, condition func() bool) error {
	for {
		r.mu.Lock()
		moved, ok := r.moved, condition()
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stats are what a Runner counts.
type Stats struct {
	Renewals uint64 // that were confirmed
	Failures uint64 // calls of the Board without an answer in time
	Terms    uint64 // that began
	Lost     uint64 // terms that ended because another daemon had taken the group
	Handed   uint64 // terms that were handed over
	Renewed  int64  // when the last confirmed renewal was sent, in ns of Config.Clock; 0 = never
}

// Stats returns the figures so far.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m.Stats()
}
