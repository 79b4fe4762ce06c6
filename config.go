package katsubushi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// DefaultRunAhead is how far ahead of the clock ids may be issued: so long a program is faster than its layout.
const DefaultRunAhead = time.Second

// Config says what IDs are. Only Store is required.
type Config struct {
	// Store is where worker ids come from: redis.Leased(URL), etcd.Leased(URL), zookeeper.Leased(URL), or
	// static.Dir(DIRECTORY, WORKER ID).
	Store workerid.Provider
	// Lanes is how many worker ids are leased: each adds as many ids a second as the layout has. Default 1.
	Lanes int
	// Layout is that of the ids. Default generator.Katsubushi(). All users of a pool have the same one.
	Layout generator.Layout
	// RunAhead is how far ahead of the clock ids may be issued. Default DefaultRunAhead.
	RunAhead time.Duration
	// Counters is the store of sequences, for Name; Close closes it. Default none.
	Counters counter.Store
	// Log gets a line when something changes: worker ids, the store, the clock. Default nothing is logged.
	Log *slog.Logger
}

// fields are what the room that holds the right to issue calls otherwise.
var fields = map[string]string{
	"WorkerIDs": "Store", "MaxRunAhead": "RunAhead", "Store.Max": "Layout", "Store.Lease": "Store",
}

// settle returns the settings of the room that holds the right to issue. A pool that belongs to others is told to
// foreign.
func (c Config) settle(foreign chan<- error) (w windows.Config, err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Layout == (generator.Layout{}) {
		c.Layout = generator.Katsubushi()
	}
	if c.RunAhead == 0 {
		c.RunAhead = DefaultRunAhead
	}
	w = windows.Config{
		Log: c.Log, Layout: c.Layout, MaxRunAhead: c.RunAhead, Lanes: cmp.Or(c.Lanes, 1),
		WorkerIDs: c.Store.Workers, StateDir: c.Store.Dir, Claim: true, Announce: "off", PeerCheck: "off",
	}
	var problems problem.List
	switch {
	case c.Store.Lease != nil:
		problems.Include("Store.", c.lease(&w, foreign))
	case len(c.Store.Workers) == 0:
		problems.Add("Store", "none given, such as redis.Leased(URL) or static.Dir(DIR, WORKER ID)")
		return w, fmt.Errorf("katsubushi: Config.%w", problems.Err())
	case c.Store.Dir == "":
		problems.Add("Store", "the directory is empty: without a record ids repeat when the clock goes back")
	case c.Lanes != 0:
		problems.Add("Lanes", "%d: each worker id that is given has its own", c.Lanes)
	}
	for _, p := range problem.Of(w.Validate()) {
		p.Field = cmp.Or(fields[p.Field], p.Field)
		problems = append(problems, p)
	}
	if err := problems.Err(); err != nil {
		return w, fmt.Errorf("katsubushi: Config: %w", err)
	}
	return w, nil
}

// lease sets where worker ids are leased.
func (c Config) lease(w *windows.Config, foreign chan<- error) error {
	terms := workerid.Terms{Min: 1, Max: c.Layout.MaxWorker(), Layout: c.Layout.Fingerprint(), Log: c.Log}
	settings := func(now func() int64) workerid.Leases {
		t := terms
		t.Now = now
		return c.Store.Lease(t)
	}
	leases := settings(nil)
	counts := leases.WithDefaults()
	if counts.Heartbeat == 0 {
		counts.Heartbeat = leases.BestHeartbeat()
	}
	w.Store = windows.Store{
		Flag: "Store", Min: counts.Min, Max: counts.Max, Lease: counts.Lease, Heartbeat: counts.Heartbeat,
		Fingerprint: counts.Fingerprint(), Pool: leases.Pool,
		Open: func(now func() int64, _ string) (workerid.Backend, error) {
			store, err := settings(now).Open()
			if err != nil {
				return nil, err
			}
			return watched{store, foreign}, nil
		},
	}
	return errors.Join(leases.Validate(), leases.ReadSecrets())
}

// A watched store tells when its pool belongs to others.
type watched struct {
	workerid.Backend
	foreign chan<- error
}

func (w watched) Acquire(ctx context.Context, r workerid.Request) (workerid.Grant, error) {
	g, err := w.Backend.Acquire(ctx, r)
	if errors.Is(err, workerid.ErrForeignPool) {
		select {
		case w.foreign <- err:
		default:
		}
	}
	return g, err
}
