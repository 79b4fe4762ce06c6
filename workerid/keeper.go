package workerid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Lanes is what a Keeper needs from the issuer: slots that each hold one worker id's generator or
// none. Windows are Unix ms, both ends inclusive. The Keeper calls from one goroutine.
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
	Timeout   time.Duration // of one store call; default 1 s
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
	events  chan Event
	serving chan struct{} // closed when the first lane serves

	mu      sync.Mutex // guards what follows: Run steps the machine, Status reads it
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
	return &Keeper{
		c: c, start: time.Now(), serving: make(chan struct{}),
		// room for every answer that can be due at once, so no call blocks on it
		events: make(chan Event, len(requests)+2),
		machine: NewMachine(MachineConfig{
			Requests: requests, RunAhead: c.RunAhead, Heartbeat: c.Heartbeat, CheckTime: c.CheckTime, Seed: rand.Uint64(),
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

func (k *Keeper) moment() Moment { return Moment{Mono: time.Since(k.start), ID: k.c.Now()} }

// Run keeps the leases until ctx ends. Then it seals every lane, gives the leases back and returns
// nil. It returns an error if the store refuses a release, or does not answer within Grace; such a
// worker id becomes free when its lease ends. Call Run only once.
func (k *Keeper) Run(ctx context.Context) error {
	// Calls must outlive ctx, because releases are sent after it ends.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timer, stop := time.NewTimer(0), ctx.Done()
	defer timer.Stop()
	var grace <-chan time.Time
	var unreleased []error
	for {
		var e Event
		select {
		case <-timer.C:
			e = Tick{}
		case e = <-k.events:
		case <-stop:
			e, stop = Stop{}, nil
			grace = time.After(k.c.Grace)
		case <-grace:
			return fmt.Errorf("workerid: the store did not answer for %v: leases are not given back", k.c.Grace)
		}
		if r, ok := e.(Released); ok && r.Err != nil {
			unreleased = append(unreleased, fmt.Errorf("workerid: lease of lane %d not given back: %w", r.Lane, r.Err))
		}
		if k.step(calls, e) {
			return errors.Join(unreleased...)
		}
		if at := k.deadline(); at >= 0 {
			timer.Reset(at - time.Since(k.start))
		} else {
			timer.Stop()
		}
	}
}

// step feeds one event to the machine and carries out the effects. It reports whether the machine
// has finished.
func (k *Keeper) step(ctx context.Context, first Event) (finished bool) {
	for queue := []Event{first}; len(queue) > 0; queue = queue[1:] {
		k.mu.Lock()
		effects := k.machine.Step(k.moment(), queue[0])
		k.mu.Unlock()
		for _, e := range effects {
			switch e := e.(type) {
			case Publish:
				k.warn(e.Lane, k.c.Lanes.Publish(e.Lane, e.Grant.Worker, e.Grant.Lo, e.Grant.Hi))
			case Lengthen:
				k.warn(e.Lane, k.c.Lanes.Extend(e.Lane, e.Lo, e.Hi))
			case Seal:
				queue = append(queue, SealedAt{e.Lane, k.c.Lanes.Seal(e.Lane)})
			case Changed:
				k.changed(e)
			case Finished:
				finished = true
			default:
				k.call(ctx, e)
			}
		}
	}
	return finished
}

// call starts a store call. The answer becomes an event, however late it arrives.
func (k *Keeper) call(ctx context.Context, e Effect) {
	go func() {
		ctx, cancel := context.WithTimeout(ctx, k.c.Timeout)
		defer cancel()
		var answer Event
		begun, lanes := time.Now(), 1
		switch e := e.(type) {
		case Acquire:
			g, err := k.c.Store.Acquire(ctx, e.Request)
			if err != nil && k.c.Failed != nil {
				k.c.Failed(err)
			}
			answer = Acquired{e.Lane, g, err}
		case Extend:
			results, err := k.c.Store.Extend(ctx, e.Held)
			answer, lanes = Extended{results, err}, len(e.Held)
		case Release:
			answer = Released{e.Lane, k.c.Store.Release(ctx, e.Grant, e.Last)}
		}
		k.count(answer, lanes, time.Since(begun))
		k.events <- answer
	}()
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
