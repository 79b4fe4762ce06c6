package storefaults

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A report is what a daemon says: a window that it got, a generator that it sealed, or the state of a
// lane when that has changed.
type report struct {
	Kind   string // window, sealed, state
	Lane   int
	Worker uint64
	Lo, Hi int64 // of a window; Hi is the last ms of a sealed generator
	Status workerid.LaneStatus
}

// A runner is a daemon: a store and a keeper.
type runner struct {
	store workerid.Backend
	tell  func(report)
	ahead atomic.Int64 // ms of its clock before the machine's
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex
	windows []report // of the lanes
}

func (r *runner) now() int64 { return time.Now().UnixMilli() + r.ahead.Load() }

// run starts a daemon. It tells what happens from one goroutine.
func run(k Kind, s cas.Settings, lanes int, ahead int64, tell func(report)) (*runner, error) {
	r := &runner{tell: tell, done: make(chan struct{}), windows: make([]report, lanes)}
	r.ahead.Store(ahead)
	s.Now = r.now
	var err error
	if r.store, err = k.Stores.Backend(s, k.Timeout); err != nil {
		return nil, err
	}
	var requests []workerid.Request
	for range lanes {
		requests = append(requests, workerid.Request{Min: s.Min, Max: s.Max})
	}
	keeper := workerid.NewKeeper(workerid.Config{
		Store: r.store, Lanes: r, Requests: requests, Now: r.now, RunAhead: 100 * time.Millisecond, Heartbeat: s.Heartbeat,
		Grace: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	ran := make(chan struct{})
	go func() {
		keeper.Run(ctx)
		close(ran)
	}()
	go func() {
		defer close(r.done)
		last := make([]workerid.LaneStatus, lanes)
		for ended := false; ; {
			for i, now := range keeper.Status() {
				was := last[i]
				if last[i] = now; was.State != now.State || was.Hi != now.Hi || was.Reason != now.Reason ||
					was.Worker != now.Worker {
					tell(report{Kind: "state", Lane: i, Status: now})
				}
			}
			if ended {
				r.store.Close()
				return
			}
			select {
			case <-ran:
				ended = true
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return r, nil
}

func (r *runner) Publish(lane int, worker uint64, lo, hi int64) error {
	r.mu.Lock()
	r.windows[lane] = report{Kind: "window", Lane: lane, Worker: worker, Lo: lo, Hi: hi}
	n := r.windows[lane]
	r.mu.Unlock()
	r.tell(n)
	return nil
}

func (r *runner) Extend(lane int, lo, hi int64) error {
	r.mu.Lock()
	r.windows[lane].Hi = hi
	worker := r.windows[lane].Worker
	r.mu.Unlock()
	r.tell(report{Kind: "window", Lane: lane, Worker: worker, Lo: lo, Hi: hi})
	return nil
}

// Seal says that it issued up to the present.
func (r *runner) Seal(lane int) (last int64) {
	r.mu.Lock()
	w := r.windows[lane]
	r.mu.Unlock()
	last = min(max(r.now(), w.Lo-1), w.Hi)
	r.tell(report{Kind: "sealed", Lane: lane, Worker: w.Worker, Lo: w.Lo, Hi: last})
	return last
}

// A Daemon is a runner in this process or in another one, and what it has told.
type Daemon struct {
	w    *World
	name string

	here  *runner
	child *child

	mu      sync.Mutex
	status  []workerid.LaneStatus
	refused string // why a lane that had served issued nothing
	served  []bool
}

// Start starts a daemon in this process that reaches the store at these addresses, by default at all of
// the servers'.
func (w *World) Start(hosts ...string) *Daemon { return w.StartWith(1, 0, hosts...) }

// StartWith starts a daemon with lanes, and a clock that is ahead of the machine's.
func (w *World) StartWith(lanes int, ahead time.Duration, hosts ...string) *Daemon {
	w.Helper()
	if len(hosts) == 0 {
		hosts = w.Hosts()
	}
	d := w.add(lanes)
	var err error
	if d.here, err = run(w.Kind, w.settings(hosts), lanes, ahead.Milliseconds(), d.hear); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { // without waiting: the servers may be gone
		d.here.stop()
	})
	return d
}

func (w *World) add(lanes int) *Daemon {
	d := &Daemon{w: w, name: fmt.Sprint("daemon", len(w.daemons)+1), status: make([]workerid.LaneStatus, lanes),
		served: make([]bool, lanes)}
	w.daemons = append(w.daemons, d)
	return d
}

// hear notes a report.
func (d *Daemon) hear(r report) {
	switch r.Kind {
	case "window":
		d.w.book(r.Worker, window{d.name, r.Lo, r.Hi})
	case "sealed":
		d.w.cut(r.Worker, d.name, r.Hi)
	case "state":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.status[r.Lane] = r.Status
		issues := r.Status.State.Issues()
		if d.served[r.Lane] && !issues && d.refused == "" {
			d.refused = fmt.Sprintf("%v: %s", r.Status.State, r.Status.Reason)
		}
		d.served[r.Lane] = d.served[r.Lane] || issues
	}
}

func (d *Daemon) lanes() []workerid.LaneStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]workerid.LaneStatus(nil), d.status...)
}

// Serves says whether all lanes have a lease that the store has extended lately.
func (d *Daemon) Serves() bool {
	for _, s := range d.lanes() {
		if s.State != workerid.Serving {
			return false
		}
	}
	return true
}

// Is says whether the first lane is in a state, for a reason that contains this.
func (d *Daemon) Is(state workerid.State, reason string) bool {
	s := d.lanes()[0]
	return s.State == state && strings.Contains(s.Reason, reason)
}

// Worker is the worker id of the first lane.
func (d *Daemon) Worker() uint64 { return d.lanes()[0].Worker }

// MustNotRefuse fails the test if a lane that has served did not issue for a moment.
func (d *Daemon) MustNotRefuse() {
	d.w.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused != "" {
		d.w.Errorf("%s refused: %s", d.name, d.refused)
	}
}

// Stop ends a daemon in order. It gives its worker ids back.
func (d *Daemon) Stop() {
	d.w.Helper()
	if d.child != nil {
		d.child.say("stop")
		<-d.child.ended
		return
	}
	d.here.stop()
	<-d.here.done
}

// Clock sets how far the daemon's clock is ahead of the machine's.
func (d *Daemon) Clock(ahead time.Duration) { d.here.ahead.Store(ahead.Milliseconds()) }

// Extended waits until every daemon has a window that was extended after this moment.
func (w *World) Extended(all ...*Daemon) {
	w.Helper()
	since := time.Now().Add(w.terms.Lease).UnixMilli()
	w.Until("all leases are extended", func() bool {
		for _, d := range all {
			for _, s := range d.lanes() {
				if s.State != workerid.Serving || s.Hi <= since {
					return false
				}
			}
		}
		return true
	})
}

// serve waits until all daemons serve.
func (w *World) serve(all ...*Daemon) {
	w.Helper()
	w.Until("all daemons serve", func() bool {
		for _, d := range all {
			if !d.Serves() {
				return false
			}
		}
		return true
	})
}
