package cas

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/turns"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// DefaultTimeout is how long a call of a Driver may take.
const DefaultTimeout = time.Second

// Config is what a Store and an Admin are made of.
type Config struct {
	workerid.Terms
	Driver  Driver
	Kind    string        // of store, for errors and figures: "etcd"
	Where   string        // its servers, for errors and figures, without secrets
	Path    string        // of the pool in the store, for errors: "/chroot/katsubushi/"
	Addr    string        // this daemon's host:port, for its presences
	Boot    func() int64  // see Options
	Timeout time.Duration // of one call of the Driver; 0 = DefaultTimeout
	// Reading is how long a Load may take while nothing waits for it: an Admin's, or that of a daemon that has no
	// window. 0 = Timeout
	Reading time.Duration
}

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors.
func (c Config) Validate() error {
	var problems problem.List
	if c.Driver == nil || c.Boot == nil {
		problems.Add("Driver", "a driver and a clock are required")
	}
	problems.Include("", validateTerms(c.Terms))
	return problems.Err()
}

// validateTerms is for the Config of a driver, which has no Driver yet.
func validateTerms(t workerid.Terms) error {
	var problems problem.List
	problems.Include("", t.Validate())
	if t.Min <= t.Max && t.Max-t.Min >= maxWorkers {
		problems.Add("Max", "a pool has at most %d worker ids, not those from %d to %d", maxWorkers, t.Min, t.Max)
	}
	return problems.Err()
}

// A Store is a daemon's side of a pool. Any goroutine may call it; calls are carried out one after
// another.
type Store struct {
	c       Config
	turn    turns.Turn
	session Session // used only by the holder of the turn
	closed  bool    // the same

	timer *time.Timer        // of upkeep
	stop  context.CancelFunc // the same
	done  sync.WaitGroup

	mu        sync.Mutex
	status    Status
	watched   time.Duration     // on Boot: until when the last call was told to wait
	announced map[string]string // by name; "" is to end
}

var _ interface {
	workerid.Backend
	workerid.Directory
} = (*Store)(nil)

// Open makes a Store. It does not connect yet. The Store owns the Driver, unless there is an error.
func Open(c Config) (*Store, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{c: c, turn: turns.New(), session: c.session(ctx), timer: time.NewTimer(c.Heartbeat), stop: stop}
	s.session.Announced = s.wanted
	s.done.Go(func() { s.upkeep(ctx) })
	return s, nil
}

func (c Config) withDefaults() Config {
	c.Terms = c.Terms.WithDefaults()
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = BestHeartbeat(c.Lease)
	}
	return c
}

// session makes a Session. Its readings by Free end with life.
func (c Config) session(life context.Context) Session {
	var free Driver
	if c.Reading > c.Timeout {
		free = limited{c.Driver, c.Timeout, c.Reading, life}
	}
	return Session{
		Driver: limited{c.Driver, c.Timeout, c.Timeout, context.Background()}, Free: free,
		// that of all daemons of the pool, which may not be slower
		Rules: pool.Rules{W: pool.WatchOf(max(c.Heartbeat, BestHeartbeat(c.Lease)), c.Timeout),
			MaxSkew: c.MaxSkew.Milliseconds()},
		Pool: pool.Meta{
			Fingerprint: c.Layout, Lease: c.Lease.Milliseconds(), Epsilon: workerid.Epsilon(c.MaxSkew).Milliseconds(),
			Min: c.Min, Max: c.Max,
		},
		AutoInit: c.AutoInit, Path: c.Path, Addr: c.Addr,
		Now: func() pool.Moment {
			return pool.Moment{Boot: time.Duration(c.Boot()), ID: c.Now(), Wall: time.Now().UnixMilli()}
		},
	}
}

var errClosed = errors.New("the store is closed")

func take[T any](ctx context.Context, s *Store, f func() (T, func(), error)) (T, error) {
	connect := func(ctx context.Context) (struct{}, error) {
		if s.closed {
			return struct{}{}, errClosed
		}
		return struct{}{}, s.session.connect(ctx)
	}
	return turns.Take(ctx, s.turn, s.c.Kind, s.c.Where, connect, func(struct{}) (T, func(), error) {
		v, heard, err := f()
		s.note(err)
		return v, heard, err
	})
}

// note keeps what Figures emits. err is that of a call.
func (s *Store) note(err error) {
	status, until := s.session.Status(), time.Duration(0)
	if w := (Watching{}); errors.As(err, &w) {
		until = time.Duration(s.c.Boot()) + w.Left
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.watched = status, max(s.watched, until)
}

// Figures implements workerid.Backend.
func (s *Store) Figures(emit func(figure.Figure)) workerid.Condition {
	s.mu.Lock()
	status, watched := s.status, s.watched
	s.mu.Unlock()
	name := "lease_" + s.c.Kind
	wait := time.Duration(max(0, status.Floor-s.c.Now())) * time.Millisecond
	figure.Info(emit, name,
		"The source of the leases; the epoch changes when the store may have forgotten some. Always 1.",
		"`count(count by (epoch) (katsubushi_"+name+"_info)) > 1` for a minute: daemons of one pool talk to two "+
			"stores. The epoch changes when a restore or a wipe was noticed",
		"addr", "address", s.c.Where, "epoch", "epoch", status.Epoch)
	emit(figure.Figure{
		Stat: name + "_floor_wait_ms", Metric: name + "_floor_wait_seconds", Value: wait,
		Help: "Time until newcomers get ids, after the store may have forgotten leases.",
		Worry: "more than 0, unless after a restore: grants may have been forgotten, and newcomers get ids when " +
			"it is 0",
	})
	emit(figure.Figure{
		Stat: name + "_watch_left_ms", Metric: name + "_watch_left_seconds",
		Value: max(0, watched-time.Duration(s.c.Boot())),
		Help:  "Time that this daemon still watches the pool before it writes.",
	})
	emit(figure.Figure{
		Stat: name + "_clock_ahead_ms", Metric: name + "_clock_ahead_seconds", Value: status.Ahead,
		Help:  "The median of the other daemons' clocks minus the id clock, at the last watch.",
		Worry: "more than a second either way, half of the default `-max-skew`: correct this clock, or theirs",
	})
	emit(figure.Figure{
		Stat: name + "_clocks", Metric: name + "_clocks", Value: status.Holders,
		Help: "Other daemons whose clocks were compared at the last watch.",
	})
	s.c.Driver.Figures(emit)
	return workerid.Condition{ClockAhead: status.Ahead, FloorWait: wait}
}

// Acquire grants a worker id. The first calls say that the pool is watched, and for how long.
func (s *Store) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	return take(ctx, s, func() (workerid.Grant, func(), error) {
		g, err := s.session.Acquire(context.WithoutCancel(ctx), want)
		return g, func() {
			if err == nil {
				s.session.Heard(g)
			}
		}, err
	})
}

// Extend lengthens all held grants in one commit.
func (s *Store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	return take(ctx, s, func() ([]workerid.Result, func(), error) {
		results, err := s.session.Extend(context.WithoutCancel(ctx), held)
		for _, r := range results {
			if r.Err != nil {
				s.note(r.Err)
			}
		}
		if s.session.Idle() {
			s.timer.Reset(IdleFor(s.c.Heartbeat))
		}
		return results, nil, err
	})
}

// Release gives a grant back. Its generator must be sealed. It is sent only once.
func (s *Store) Release(ctx context.Context, g workerid.Grant, last int64) error {
	_, err := take(ctx, s, func() (struct{}, func(), error) {
		return struct{}{}, nil, s.session.Release(context.WithoutCancel(ctx), g, last)
	})
	return err
}

// upkeep does what is due between calls. Each extension that leaves nothing to do puts it off.
func (s *Store) upkeep(ctx context.Context) {
	defer s.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.timer.C:
		}
		next := s.c.Heartbeat
		select {
		case s.turn <- struct{}{}:
			if s.session.Upkeep(ctx) {
				next = s.c.Timeout / 4
			}
			s.note(nil)
			s.timer.Reset(next)
			<-s.turn
		case <-ctx.Done():
			return
		}
	}
}

// Close waits for its turn and closes the Driver, which ends the presences. It does not give leases
// back.
func (s *Store) Close() error {
	s.stop()
	s.done.Wait()
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.c.Driver.Close()
}

// limited gives each call of a Driver its time.
type limited struct {
	Driver
	timeout, reading time.Duration
	life             context.Context // of readings
}

func (d limited) Connect(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.Driver.Connect(ctx)
}

func (d limited) Load(ctx context.Context, conn string) (pool.View, error) {
	ctx, cancel := context.WithTimeout(ctx, d.reading)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	return d.Driver.Load(ctx, conn)
}

func (d limited) Commit(ctx context.Context, conn string, c pool.Change) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.Driver.Commit(ctx, conn, c)
}

func (d limited) Announce(ctx context.Context, conn string, worker uint64, text string) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.Driver.Announce(ctx, conn, worker, text)
}

func (d limited) Publish(ctx context.Context, conn, name, text string) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.Driver.Publish(ctx, conn, name, text)
}

func (d limited) Peers(ctx context.Context, conn string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.Driver.Peers(ctx, conn)
}
