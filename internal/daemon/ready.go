package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

var errStopping = errors.New("shutting down")

// ready returns nil if ids are issued, or the reason why not.
func (d *Daemon) ready() error {
	if d.stopping.Load() {
		return errStopping
	}
	return d.names.Ready()
}

// readiness returns the text of /readyz: the error that clients get, and below it what each lane is
// waiting for, and what is known of the store.
func (d *Daemon) readiness() error {
	err := d.ready()
	if err == nil || errors.Is(err, errStopping) {
		return err
	}
	text := d.windows.Explain(err)
	if facts := d.storeFacts(); len(facts) > 0 {
		text += "\nstore: " + strings.Join(facts, ", ")
	}
	return errors.New(text)
}

// storeFacts returns what is known of the store, by the names of the statistics.
func (d *Daemon) storeFacts() (lines []string) {
	d.windows.StoreFigures(func(f figure.Figure) {
		if f.Stat != "" {
			lines = append(lines, fmt.Sprintf("%s %v", strings.TrimPrefix(f.Name(), "lease_"), f.Value))
		}
	})
	return lines
}

// Serving is closed once ids are served.
func (d *Daemon) Serving() <-chan struct{} { return d.giver.Serving() }

// Status says in a few words what the daemon does now: which worker ids it serves, or why it does not.
func (d *Daemon) Status() string {
	if d.stopping.Load() {
		return errStopping.Error()
	}
	return d.windows.Status()
}

// listenWhenServing opens the ports once the first lane serves. If ctx ends before that, it returns
// ctx's error.
func (d *Daemon) listenWhenServing(ctx context.Context) error {
	select {
	case <-d.windows.Serving():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.front.Open(ctx); err != nil {
		return err
	}
	d.found()
	d.names.Reachable(d.ownNode())
	return nil
}

// Addr returns where the memcached port listens. It may be called once Serving is closed.
func (d *Daemon) Addr() net.Addr { return d.front.Addresses()[0].At }
