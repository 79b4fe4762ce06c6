// Package windows holds a program's right to issue ids: the id clock, the lanes with their generators,
// the store that grants windows of worker ids, and the keeper that extends them. Where the store has a
// place for it, a Holder also announces the program there and compares clocks with the others.
//
// The guarantee: the Issuer issues ids only from windows that the store has granted, none of them after
// Stop or GiveAway has returned, and a program may have several Holders. Not promised: that two Holders
// with the same fixed worker ids and different state directories notice each other, except by Claim.
//
// The life of a Holder: New, Open, Start, Stop. Opened says that clients can come, Leave that they should
// not any more. The process that succeeds another one calls TakeOver after Start; the other one calls
// GiveAway, and TakeBack if the successor fails.
//
// It knows neither ports nor names, and no client library of any store: Config.Store opens one.
package windows

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A Holder holds windows of worker ids, and issues ids from them. Any goroutine may read its fields and call its
// methods, except that Open, Start, Stop, TakeOver, GiveAway and TakeBack come one after another.
type Holder struct {
	Clock  *clock.Clock   // the present
	Issuer *issuer.Issuer // the lanes
	c      Config

	mu     sync.RWMutex // held to write the next two while the program runs, and by others to read them
	store  workerid.Backend
	keeper *workerid.Keeper
	ended  chan error         // the keeper's result; nil = it does not run
	stop   context.CancelFunc // of the keeper

	keeping    context.Context // ends with Stop
	endKeeping context.CancelFunc
	background sync.WaitGroup // the clock's goroutine, and those of the peers
	started    bool
	stopped    bool

	floor  int64          // the process before this one issued nothing after it, Unix ms; 0 = unknown
	places []issuer.Place // and came so far with ids of other layouts, for the worker ids that are handed over

	peers  peers
	outage outage
}

// New makes a Holder. It opens nothing yet. Config.Validate must have found nothing.
func New(c Config) *Holder {
	h := &Holder{Clock: clock.New(), c: c, store: elsewhere{}}
	h.keeping, h.endKeeping = context.WithCancel(context.Background())
	h.Issuer = issuer.New(issuer.Config{
		Lanes: c.lanes(), RunAhead: c.MaxRunAhead, Layout: c.Layout, Random: c.RandomStart,
		Now: h.Clock.Now, Sleep: time.Sleep, Word: h.word, Wake: c.Wake,
	})
	if c.Ready == nil {
		h.c.Ready = func() error { return h.Issuer.Ready(h.Clock.Now()) }
	}
	h.Clock.EachSecond = h.eachSecond
	return h
}

// Open opens the store, unless another process still has the windows. An error means that the program cannot
// start: for example a state file that must not be used. Stop must be called in any case.
func (h *Holder) Open() error {
	if err := h.c.checkDefault(true); err != nil {
		return err
	}
	h.findAddress()
	if h.c.leased() || !h.c.Succeeds {
		store, err := h.open()
		if err != nil {
			return err
		}
		h.store = store
	}
	h.joinPeers()
	h.keeper = h.newKeeper()
	return nil
}

// Start keeps the windows from now on, until Stop. A successor keeps what it can have beside its predecessor. Start may
// be called again.
func (h *Holder) Start() {
	if h.started {
		return
	}
	h.started = true
	if !h.c.Succeeds {
		h.runClock()
	}
	if h.c.leased() || !h.c.Succeeds {
		h.keep()
	}
	h.runPeers()
}

// runClock keeps the id clock beside the wall clock until Stop.
func (h *Holder) runClock() {
	h.background.Go(func() { h.Clock.Run(h.keeping, h.Issuer.Position, h.c.Log) })
}

// keep runs the keeper until end.
func (h *Holder) keep() {
	ctx, stop := context.WithCancel(context.Background())
	ended, keeper := make(chan error, 1), h.keeper
	h.stop, h.ended = stop, ended
	go func() { ended <- keeper.Run(ctx) }()
}

// end seals the lanes and gives the worker ids back: from here on no id is issued, and the worker ids
// are free. It may be called again.
func (h *Holder) end() error {
	if h.ended == nil {
		return nil
	}
	h.stop()
	err := <-h.ended
	h.ended = nil
	return err
}

// Stop gives everything back, in whatever state the Holder is: from here on no id is issued and the worker ids
// are free. succeeded tells that another process goes on. Stop may be called again.
func (h *Holder) Stop(succeeded bool) {
	if h.stopped {
		return
	}
	h.stopped = true
	h.Quiet(true)
	h.endKeeping()
	if h.peers.fleet != nil {
		h.peers.fleet.Stop()
	}
	err := h.end()
	h.withdraw()
	if err = errors.Join(err, h.store.Close()); err != nil {
		h.c.Log.Warn("worker ids are not given back: they are free when their windows end", "error", err)
	}
	h.background.Wait()
	if !succeeded {
		h.warnOfRestart()
	}
}

// open opens the store that remembers the windows of the worker ids. With an error it is not to be used.
func (h *Holder) open() (store workerid.Backend, err error) {
	c := &h.c
	switch {
	case c.leased():
		store, err = c.Store.Open(h.Clock.Now, h.peers.address())
	case c.StateDir == "":
		c.Log.Warn(noRecord + "ids repeat if this host's clock goes back, in a run or between two, and the next run " +
			"starts before it has passed the last id")
		if c.Ordinal {
			c.Log.Warn(noRecord + "with -worker-id ordinal the next run may be on another host, whose clock may be behind " +
				"this one's: give each pod a volume for -state-dir")
		}
		h.Clock.StaysAhead = h.warnOfRestarts
		store, err = static.NewEphemeral(static.EphemeralConfig{
			Workers: c.WorkerIDs, Fingerprint: c.Layout.Fingerprint(), RunAhead: c.MaxRunAhead, Now: h.Clock.Now, Claim: c.Claim,
			Floor: h.floor,
		})
	default:
		c.Log.Info("windows are recorded", "state_dir", c.StateDir)
		store, err = static.Open(static.Config{
			Dir: c.StateDir, Workers: c.WorkerIDs, Fingerprint: c.Layout.Fingerprint(),
			Tick: c.tick(), RunAhead: c.MaxRunAhead, Now: h.Clock.Now, Claim: c.Claim, AnyDisk: c.AnyDisk,
			Share: len(c.WorkerIDs) > 1, Log: c.Log, Memory: h.sharedMemory(), Issued: c.Layout.Issued, First: c.Layout.First,
			Floor: h.Issuer.Floor(),
		})
	}
	if err != nil && c.StateDirByDefault {
		err = fmt.Errorf("%w (in the state directory by default; -state-dir names another one, or none)", err)
	}
	return store, err
}

// sharedMemory returns memory for the generators' positions that outlives the process, or nil if
// there is none.
func (h *Holder) sharedMemory() static.Memory {
	m, err := static.SharedMemory(h.c.RuntimeDir)
	if err != nil {
		h.c.Log.Info("a stalled disk stops ids after a second or two", "why", err)
		return nil
	}
	return m
}

// word returns where a generator keeps its position, or nil if the generator keeps it itself.
func (h *Holder) word(worker uint64, lo int64) *atomic.Uint64 {
	if s, ok := h.theStore().(*static.Store); ok {
		return s.Word(worker, lo)
	}
	return nil
}

// newKeeper makes the keeper of the windows.
func (h *Holder) newKeeper() *workerid.Keeper {
	c := &h.c
	requests, heartbeat, beats := make([]workerid.Request, c.lanes()), static.Heartbeat, h.Clock.Base()
	if c.leased() {
		beats = time.Time{}
		for lane := range requests {
			requests[lane] = workerid.Request{Min: c.Store.Min, Max: c.Store.Max}
		}
		heartbeat = c.Store.Heartbeat
	}
	for lane, id := range c.WorkerIDs {
		requests[lane] = workerid.Request{Min: id, Max: id}
	}
	store := workerid.Store(h.store)
	if h.peers.checker != nil {
		store = h.peers.checker.Gate(store)
	}
	return workerid.NewKeeper(workerid.Config{
		Store: store, Lanes: h.Issuer, Requests: requests,
		Now: h.Clock.Now, RunAhead: c.MaxRunAhead, Heartbeat: heartbeat, Beats: beats,
		Position:  h.Issuer.Position,
		CheckTime: c.checkTime, Log: c.Log,
		Failed: c.Failed,
	})
}

// theStore returns the store of the worker ids.
func (h *Holder) theStore() workerid.Backend {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.store
}

// theKeeper returns the keeper of the worker ids.
func (h *Holder) theKeeper() *workerid.Keeper {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.keeper
}

// Serving is closed once a lane may issue ids. After TakeOver and TakeBack it is another channel.
func (h *Holder) Serving() <-chan struct{} { return h.theKeeper().Serving() }

// Lanes describes every lane.
func (h *Holder) Lanes() []workerid.LaneStatus { return h.theKeeper().Status() }

// Counts returns how the calls to the store went.
func (h *Holder) Counts() workerid.Counts { return h.theKeeper().Counts() }

// Leased reports whether worker ids are leased, not fixed.
func (h *Holder) Leased() bool { return h.c.leased() }

// Record names what records the windows of the worker ids.
func (h *Holder) Record() string {
	switch {
	case h.c.leased():
		return "store"
	case h.c.StateDir != "":
		return "state_dir"
	}
	return "none"
}

// Status says in a few words which worker ids there are, or why no ids are issued.
func (h *Holder) Status() string {
	if err := h.c.Ready(); err != nil {
		return h.Explain(err)
	}
	var workers []string
	for _, s := range h.Lanes() {
		if HasWorker(s) {
			workers = append(workers, strconv.FormatUint(s.Worker, 10))
		}
	}
	return "serving, worker id " + strings.Join(workers, ", ")
}

// Explain returns why no ids are issued, and below it what each lane is waiting for, and what is known of the peers.
func (h *Holder) Explain(why error) string {
	return strings.Join(append([]string{why.Error()}, h.notes(true)...), "\n")
}

// Notes returns what operators must know though ids are issued: which lanes do not serve, and what is
// known of the peers.
func (h *Holder) Notes() []string { return h.notes(false) }

func (h *Holder) notes(all bool) (list []string) {
	for lane, s := range h.Lanes() {
		if all || s.State != workerid.Serving {
			list = append(list, laneNote(lane, s))
		}
	}
	if c := h.peers.checker; c != nil {
		list = append(list, c.Notes()...)
	}
	return list
}

func laneNote(lane int, s workerid.LaneStatus) string {
	note := fmt.Sprintf("lane %d: %v for %v", lane, s.State, s.For.Round(time.Second))
	if s.Reason != "" {
		note += ": " + s.Reason
	}
	return note
}

// HasWorker reports whether a lane has a worker id: it holds the lease, or the lease is lost but
// the window is not over yet.
func HasWorker(s workerid.LaneStatus) bool { return s.Held || s.State == workerid.Draining }

// elsewhere stands for the store of worker ids that another process has.
type elsewhere struct{}

var errElsewhere = fmt.Errorf("%w: the previous process has it", workerid.ErrNoID)

func (elsewhere) Acquire(context.Context, workerid.Request) (workerid.Grant, error) {
	return workerid.Grant{}, errElsewhere
}

func (elsewhere) Extend(context.Context, []workerid.Grant) ([]workerid.Result, error) {
	return nil, errElsewhere
}

func (elsewhere) Release(context.Context, workerid.Grant, int64) error { return workerid.ErrLost }
func (elsewhere) Figures(func(figure.Figure)) workerid.Condition       { return workerid.Condition{} }
func (elsewhere) Close() error                                         { return nil }
