package katsubushi

import (
	"cmp"
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
	// static.Dir(DIRECTORY, WORKER ID), whose directory is made, and must be on a local disk: not on a tmpfs or a
	// container's overlay.
	Store workerid.Provider
	// Lanes is how many worker ids are leased: each adds as many ids a second as the layout has. Goroutines are spread
	// over them, so that processors seldom wait for each other. With more than one, the ids of a goroutine need not
	// rise. Default 1.
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
// refuse.
func (c Config) settle(refuse func(error)) (w windows.Config, err error) {
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
		problems.Include("Store.", c.lease(&w, refuse))
	case len(c.Store.Workers) == 0:
		problems.Add("Store", "none given, such as redis.Leased(URL) or static.Dir(DIR, WORKER ID)")
		return w, fmt.Errorf("katsubushi: Config.%w", problems.Err())
	case c.Store.Dir == "":
		problems.Add("Store", "the directory is empty: without a record ids repeat when the clock goes back")
	case c.Lanes != 0 && c.Lanes != len(c.Store.Workers):
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
func (c Config) lease(w *windows.Config, refuse func(error)) error {
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
		Open: func(now func() int64, _ string) (workerid.Backend, error) { return settings(now).Open() },
	}
	w.Failed = func(err error) {
		if errors.Is(err, workerid.ErrForeignPool) {
			refuse(fmt.Errorf("%w: %w", ErrRefused, err))
		}
	}
	return errors.Join(leases.Validate(), leases.ReadSecrets())
}
