package workerid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Lanes is what a Keeper needs from the issuer: slots that each hold one worker id's generator or
// none. Windows are Unix ms, both ends inclusive. The Keeper makes one call at a time.
type Lanes interface {
	// Publish makes a generator with this window and puts it into the lane with one atomic swap.
	// The old generator need not be sealed, because it never leaves its own window. An error is
	// only logged; the lane does without the new generator.
	Publish(lane int, worker uint64, lo, hi int64) error
	// Extend lengthens the window of the lane's generator.
	Extend(lane int, lo, hi int64) error
	// Seal stops the lane's generator for good and returns the last Unix ms of its ids.
	Seal(lane int) (last int64)
}

// Config holds the settings of a Keeper. Fields without a default are required, except CheckTime.
type Config struct {
	Store    Store
	Lanes    Lanes
	Requests []Request     // one for each lane; Owner must be unique, and is filled in if empty
	Now      func() int64  // the id clock, Unix ms
	RunAhead time.Duration // how far ahead of the clock ids are issued; must equal the issuer's
	// mean time between two extensions, well below the lease length; each store names a suitable
	// one
	Heartbeat time.Duration
	// Beats, if not zero, says when: at whole multiples of Heartbeat since then, where timers of the program may meet
	// them. It is for a Store that no other program uses: others would call it at the same moments.
	Beats time.Time
	// returns the latest Unix ms that ids were issued from. While that stays the same, and the clock is past it, every
	// second of the Beats is left out, if RunAhead is a Heartbeat at least: the Store's windows must reach two Heartbeats
	// and RunAhead past an extension. nil = none is
	Position func() int64
	Timeout  time.Duration // of one store call; default 1 s
	// how long Run may take to give the leases back after its context has ended; default 2 s
	Grace     time.Duration
	CheckTime func(ms int64) error // the layout's: why ids cannot carry this time; a nil func allows all times
	Log       *slog.Logger         // one line for each change of a lane
	// Failed is called with each error of the Store's Acquire. It must return at once. nil = it is not called.
	Failed func(error)
}

// A Keeper runs a Machine: it carries out the effects on a Store and the lanes, and feeds the answers
// back as events. Any goroutine may call Status, Counts and Serving.
type Keeper struct {
	c       Config
	start   time.Time
	serving chan struct{} // closed when the first lane serves

	mu      sync.Mutex // guards what follows: a run steps the machine, Status reads it
	machine *Machine
	counts  Counts
}

// NewKeeper makes a Keeper. It does nothing until Run.
func NewKeeper(c Config) *Keeper {
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	requests := make([]Request, len(c.Requests))
	for i, r := range c.Requests {
		if r.Owner == "" { // a different one for each lane, see "What broke" at Machine
			r.Owner = NewOwner()
		}
		requests[i] = r
	}
	start := c.Beats
	if start.IsZero() {
		start = time.Now()
	}
	return &Keeper{
		c: c, start: start, serving: make(chan struct{}),
		machine: NewMachine(MachineConfig{
			Requests: requests, RunAhead: c.RunAhead, Heartbeat: c.Heartbeat, Even: !c.Beats.IsZero(),
			CheckTime: c.CheckTime, Seed: rand.Uint64(),
		}),
	}
}

// Serving is closed once a lane has been Serving for the first time.
func (k *Keeper) Serving() <-chan struct{} { return k.serving }

// Status describes every lane.
func (k *Keeper) Status() []LaneStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.machine.Status(k.moment())
}

func (k *Keeper) moment() Moment {
	now := Moment{Mono: time.Since(k.start), ID: k.c.Now(), Position: math.MaxInt64}
	if k.c.Position != nil {
		now.Position = k.c.Position()
	}
	return now
}

// Run keeps the leases until ctx ends. Then it seals every lane, gives the leases back and returns
// nil. It returns an error if the store refuses a release, or does not answer within Grace; such a
// worker id becomes free when its lease ends. Call Run only once.
func (k *Keeper) Run(ctx context.Context) error {
	// Calls must outlive ctx, because releases are sent after it ends.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &run{Keeper: k, calls: calls, finished: make(chan struct{})}
	r.turn.Lock()
	r.timer = time.AfterFunc(0, func() { r.take(Tick{}) })
	r.turn.Unlock()
	<-ctx.Done()
	r.take(Stop{})
	grace := time.NewTimer(k.c.Grace)
	defer grace.Stop()
	select {
	case <-r.finished:
	case <-grace.C:
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	r.over = true
	r.timer.Stop()
	select {
	case <-r.finished:
		return errors.Join(r.unreleased...)
	default:
		return fmt.Errorf("workerid: the store did not answer for %v: leases are not given back", k.c.Grace)
	}
}

// A run is what Run and the goroutines that it begins share.
type run struct {
	*Keeper
	calls    context.Context
	finished chan struct{} // closed when the machine has finished

	turn       sync.Mutex // held while a goroutine feeds an event to the machine and carries the effects out
	timer      *time.Timer
	over       bool // Run is about to return
	unreleased []error
}

// take feeds an event to the machine and carries the effects out, one goroutine at a time. If an Extend is among them,
// the goroutine calls the store itself, without the turn: a state file answers at once, and another goroutine would
// wake another thread. While the store does not answer, other goroutines bring the events.
func (r *run) take(e Event) {
	for e != nil {
		extend := r.carryOut(e)
		if e = nil; extend != nil {
			e = r.ask(*extend)
		}
	}
}

func (r *run) carryOut(e Event) (extend *Extend) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.over {
		return nil
	}
	if e, ok := e.(Released); ok && e.Err != nil {
		r.unreleased = append(r.unreleased, fmt.Errorf("workerid: lease of lane %d not given back: %w", e.Lane, e.Err))
	}
	extend = r.step(e)
	if at := r.deadline(); at >= 0 {
		r.timer.Reset(at - time.Since(r.start))
	} else {
		r.timer.Stop()
	}
	return extend
}

// step feeds one event to the machine and carries out the effects, but for an Extend, which it returns.
func (r *run) step(first Event) (extend *Extend) {
	for queue := []Event{first}; len(queue) > 0; queue = queue[1:] {
		r.mu.Lock()
		effects := r.machine.Step(r.moment(), queue[0])
		r.mu.Unlock()
		for _, e := range effects {
			switch e := e.(type) {
			case Publish:
				r.warn(e.Lane, r.c.Lanes.Publish(e.Lane, e.Grant.Worker, e.Grant.Lo, e.Grant.Hi))
			case Lengthen:
				r.warn(e.Lane, r.c.Lanes.Extend(e.Lane, e.Lo, e.Hi))
			case Seal:
				queue = append(queue, SealedAt{e.Lane, r.c.Lanes.Seal(e.Lane)})
			case Changed:
				r.changed(e)
			case Finished:
				close(r.finished)
			case Extend:
				extend = &e
			default:
				go func() { r.take(r.ask(e)) }()
			}
		}
	}
	return extend
}

// ask calls the store. The answer is an event, however late it arrives.
func (r *run) ask(e Effect) (answer Event) {
	ctx, cancel := context.WithTimeout(r.calls, r.c.Timeout)
	defer cancel()
	begun, lanes := time.Now(), 1
	switch e := e.(type) {
	case Acquire:
		g, err := r.c.Store.Acquire(ctx, e.Request)
		if err != nil && r.c.Failed != nil {
			r.c.Failed(err)
		}
		answer = Acquired{e.Lane, g, err}
	case Extend:
		results, err := r.c.Store.Extend(ctx, e.Held)
		answer, lanes = Extended{results, err}, len(e.Held)
	case Release:
		answer = Released{e.Lane, r.c.Store.Release(ctx, e.Grant, e.Last)}
	}
	r.count(answer, lanes, time.Since(begun))
	return answer
}

func (k *Keeper) deadline() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.machine.Deadline(k.moment())
}

func (k *Keeper) warn(lane int, err error) {
	if err != nil {
		k.c.Log.Error("generator not set", "lane", lane, "error", err)
	}
}

// longestWatch is longer than any pool is watched by a newcomer.
const longestWatch = 6 * time.Second

func (k *Keeper) changed(e Changed) {
	if e.To == Serving {
		select {
		case <-k.serving:
		default:
			close(k.serving)
		}
	}
	// normal at a start: without a state file, and while a pool is watched
	level, brief := slog.LevelInfo, e.Wait > 0 && (e.Wait < k.c.Heartbeat || e.To == Acquiring && e.Wait < longestWatch)
	if e.Reason != "" && !brief || e.To == Exhausted || e.To == Draining {
		level = slog.LevelWarn
	}
	if e.To == Serving && (e.From == Degraded || e.From == Exhausted) {
		level = slog.LevelWarn // the end of what was shown at this level
	}
	attrs := []any{"lane", e.Lane, "state", e.To.String()}
	if e.From != e.To {
		attrs = append(attrs, "was", e.From.String())
	}
	if e.Grant.Owner != "" {
		attrs = append(attrs, "worker_id", e.Grant.Worker)
	}
	if e.Reason != "" {
		attrs = append(attrs, "reason", e.Reason)
	}
	k.c.Log.Log(context.Background(), level, "lease", attrs...)
}
