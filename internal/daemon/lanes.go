package daemon

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// openTheStore opens the store that remembers the windows of the worker ids.
func (d *Daemon) openTheStore() (store workerid.Backend, err error) {
	c := &d.c
	switch {
	case c.leased():
		s := c.storeSettings()
		s.Now, s.CAS.Addr = d.clock.Now, d.peers.address()
		store, err = stores.Open(s)
	case c.StateDir == "":
		c.Log.Warn(noRecord + "ids repeat if this host's clock goes back, in a run or between two, and the next run " +
			"starts before it has passed the last id")
		if c.Ordinal {
			c.Log.Warn(noRecord + "with -worker-id ordinal the next run may be on another host, whose clock may be behind " +
				"this one's: give each pod a volume for -state-dir")
		}
		d.clock.StaysAhead = d.warnOfRestarts
		store, err = static.NewEphemeral(static.EphemeralConfig{
			Workers: c.WorkerIDs, Fingerprint: c.Layout.Fingerprint(), RunAhead: c.MaxRunAhead, Now: d.clock.Now, Claim: c.Claim,
			Floor: d.floor,
		})
	default:
		c.Log.Info("windows are recorded", "state_dir", c.StateDir)
		store, err = static.Open(static.Config{
			Dir: c.StateDir, Workers: c.WorkerIDs, Fingerprint: c.Layout.Fingerprint(),
			Tick: c.tick(), RunAhead: c.MaxRunAhead, Now: d.clock.Now, Claim: c.Claim, AnyDisk: c.AnyDisk, Log: c.Log,
			Memory: d.sharedMemory(), Issued: c.Layout.Issued, First: c.Layout.First,
		})
	}
	if err != nil && c.StateDirByDefault {
		err = fmt.Errorf("%w (in the state directory by default; -state-dir names another one, or none)", err)
	}
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return store, nil
}

// sharedMemory returns memory for the generators' positions that outlives the process, or nil if
// there is none.
func (d *Daemon) sharedMemory() static.Memory {
	m, err := static.SharedMemory(d.c.RuntimeDir)
	if err != nil {
		d.c.Log.Info("a stalled disk stops ids after a second or two", "why", err)
		return nil
	}
	return m
}

// word returns where a generator keeps its position, or nil if the generator keeps it itself.
func (d *Daemon) word(worker uint64, lo int64) *atomic.Uint64 {
	if s, ok := d.theStore().(*static.Store); ok {
		return s.Word(worker, lo)
	}
	return nil
}

// newKeeper makes the keeper of the leases.
func (d *Daemon) newKeeper() *workerid.Keeper {
	requests, heartbeat := make([]workerid.Request, d.c.lanes()), static.Heartbeat
	if d.c.leased() {
		for lane := range requests {
			requests[lane] = workerid.Request{Min: d.c.Store.Min, Max: d.c.Store.Max}
		}
		heartbeat = d.c.Store.Interval()
	}
	for lane, id := range d.c.WorkerIDs {
		requests[lane] = workerid.Request{Min: id, Max: id}
	}
	store := workerid.Store(d.store)
	if d.peers.checker != nil {
		store = d.peers.checker.Gate(store)
	}
	return workerid.NewKeeper(workerid.Config{
		Store: store, Lanes: d.issuer, Requests: requests,
		Now: d.clock.Now, RunAhead: d.c.MaxRunAhead, Heartbeat: heartbeat, CheckTime: d.c.checkTime, Log: d.c.Log,
	})
}

// lanes returns how many worker ids the daemon has at once.
func (c *Config) lanes() int {
	if c.leased() {
		return c.Lanes
	}
	return len(c.WorkerIDs)
}

// listenWhenServing opens the ports once the first lane serves. If ctx ends before that, it returns
// ctx's error.
func (d *Daemon) listenWhenServing(ctx context.Context) (ports []server.Port, err error) {
	select {
	case <-d.theKeeper().Serving():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	again := sockets.Binder{Log: d.c.Log}
	err = again.Bind(ctx, func() (err error) {
		ports, err = d.listen(d.c.Loops)
		return err
	})
	d.keep(ports)
	return ports, err
}
