package daemon

import (
	"context"
	"errors"
	"math"
	"time"
)

// fillLanes gives every lane a generator for one of the configured worker ids. Nothing records what they issue, so each starts above
// everything that a predecessor with the same clock may have issued: a run-ahead's length from now.
func (d *Daemon) fillLanes() error {
	d.c.Log.Warn("no state directory: ids may repeat if this host's clock goes back between two runs, or if another daemon has the same worker id")
	for lane, worker := range d.c.WorkerIDs {
		if err := d.issuer.Publish(lane, worker, d.clock.Now()+d.c.MaxRunAhead.Milliseconds()+1, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// sealLanes ends all generators: when it has returned, no id is issued any more.
func (d *Daemon) sealLanes() {
	for lane := range d.issuer.Lanes() {
		if g := d.issuer.Generator(lane); g != nil {
			d.c.Log.Debug("lane sealed", "lane", lane, "worker_id", g.Worker(), "last_id_unix_ms", g.Seal())
		}
	}
}

var errStopping = errors.New("shutting down")

// ready says whether ids are issued: nil, or why not.
func (d *Daemon) ready() error {
	if d.stopping.Load() {
		return errStopping
	}
	return d.issuer.Ready(d.clock.Now())
}

// waitUntilReady returns nil when the first lane may issue.
func (d *Daemon) waitUntilReady(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	var said string
	for {
		err := d.ready()
		if err == nil {
			return nil
		}
		if reason := err.Error(); said == "" {
			said = reason
			d.c.Log.Info("the port stays closed until ids can be issued", "reason", reason)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// mint issues n ids for the HTTP port, all or none.
func (d *Daemon) mint(n int) ([]uint64, error) {
	h := d.issuer.Handler(0)
	ids := make([]uint64, 0, n)
	for len(ids) < n {
		first, stride, got, err := h.Mint(d.clock.Now(), 0, n-len(ids))
		if err != nil {
			return nil, err
		}
		for i := range got {
			ids = append(ids, first+uint64(i)*stride)
		}
	}
	return ids, nil
}
