// Package daemon assembles the parts: it knows all of them, and none of them knows it.
//
// The life of a Daemon: New binds addresses and opens the store. Run serves until its context ends,
// then stops in the order that stop shows. The memcached port opens once the first lane may issue
// ids, and then stays open until the end, whatever happens to the lanes.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/grpcapi"
	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/names"
	"github.com/katsubushi/katsubushi/v3/internal/observe"
	"github.com/katsubushi/katsubushi/v3/internal/services"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A Daemon is everything that one katsubushi process consists of. Run may be called once.
type Daemon struct {
	c      Config
	events *events.Log  // the last changes of state; what Config.Log logs is kept there
	noise  *slog.Logger // the log without that: for what connections and requests can cause

	windows  *windows.Holder
	names    *names.Names
	front    *front.Front
	services *services.Services
	observer *observe.Observer
	giver    *handover.Giver

	binder sockets.Binder
	fail   func(error) // ends Run; set by it
}

// New checks the configuration, binds the services' ports and opens the store of the windows; it
// serves nothing before Run. An error means that the daemon cannot start: an invalid setting (see
// Config.Validate), an address still in use after sockets.Patience, a state file that must not be used; or ctx ended.
func New(ctx context.Context, c Config) (*Daemon, error) {
	if err := errors.Join(c.Validate(), c.ReadSecrets()); err != nil {
		return nil, err
	}
	c.Loops = c.Inherited.Loops(c.places()[0].Name(), c.Loops)
	noise, kept := c.Log, new(events.Log)
	c.Log = slog.New(kept.Handler(noise.Handler()))
	d := &Daemon{c: c, events: kept, noise: noise, binder: sockets.Binder{Log: c.Log}}
	d.observer = observe.New(observe.Config{
		Version: c.Version, Advertise: c.Advertise, Started: time.Now(), Log: c.Log, Events: kept,
		LogDropped: c.LogDropped, Windows: &d.c.Windows, Store: c.storeSettings(), Front: &d.c.Front,
		Services: &d.c.Services,
	})
	w := c.windows()
	w.Ready, w.Wake = d.observer.Ready, func() { d.names.Wake() }
	w.Succeeds, w.Peers.Ask = c.Inherited.Succeeds(), d.peerAsker()
	d.windows = windows.New(w)
	d.names = names.New(c.names(), names.Given{
		Log: c.Log, Issuer: d.windows.Issuer, Now: d.windows.Clock.Now, AnyDisk: c.AnyDisk, Forwarder: d.newForwarder,
		NextSecond: func() time.Duration { return d.windows.Clock.Next(time.Second) },
		Wake:       func() { d.front.Wake() }, Hidden: c.HasLogins(), Unreachable: c.nowhere(),
		Succeeds: c.Inherited.Succeeds(),
	})
	if err := c.Inherited.Check(c.places(), SocketNames()); err != nil {
		return nil, err
	}
	if err := d.newFront(); err != nil {
		return nil, err
	}
	d.newServices()
	d.observer.Watch(observe.Rooms{Windows: d.windows, Names: d.names, Front: d.front, Services: d.services})
	bind := d.bind
	if c.Inherited.Succeeds() {
		bind = func() error { return nil }
	}
	open := func() error { return d.names.Open(ctx) }
	for _, prepare := range []func() error{bind, d.windows.Open, open, d.openUsers} {
		if err := cmp.Or(prepare(), ctx.Err()); err != nil {
			d.end(true)
			return nil, err
		}
	}
	d.giver = handover.NewGiver(d.handover())
	return d, nil
}

// A part is a room, or a half of one, that starts and stops by itself. stop is harmless before start. another says that
// another process goes on: a successor, or the one before if this one's start has failed.
type part struct {
	start func(ctx context.Context) error
	stop  func(another bool)
}

// simple returns a part whose start cannot fail, and whose stop is the same if another process goes on.
func simple(start, stop func()) part {
	return part{func(context.Context) error {
		start()
		return nil
	}, func(bool) { stop() }}
}

// parts lists everything that runs, in the order in which it starts. It stops in the opposite order: read the reasons
// from the last to the first.
func (d *Daemon) parts() []part {
	return []part{
		// The users, and the process that compares passwords: until here a client may log in.
		simple(func() { d.front.Start(d.fail) }, d.front.End),
		// HTTP, gRPC, admin, debug: until here they say that the daemon is not ready.
		simple(func() { d.services.Start(d.fail) }, d.services.Stop),
		// What sequences have not issued goes back to their store, now that no client can ask for it.
		simple(d.names.Start, d.names.Stop),
		// From here on no id is issued, and the worker ids are free.
		{simple(d.windows.Start, nil).start, d.windows.Stop},
		// What the page shows is read from the parts above.
		simple(d.observer.Start, d.observer.Stop),
		// The engine, and with it those services that issue ids: accept what has already arrived, then nothing more;
		// every connection takes its replies, or runs out of time.
		{d.serve, func(bool) {
			d.front.Close()
			d.services.Drain() // meanwhile
			d.front.Wait()
		}},
	}
}

// bind opens the ports of the services and the UDP port, and finds out whether those of the engine are in use. A
// successor does that once its predecessor has given it everything; any other process in New, so that an address in use
// is an error of New.
func (d *Daemon) bind() error {
	if err := d.services.Open(&d.binder); err != nil {
		return err
	}
	return d.front.Claim(&d.binder)
}

// handover returns what both sides of an upgrade need.
func (d *Daemon) handover() handover.Config {
	return handover.Config{
		Log: d.c.Log, Version: d.c.Version, Fingerprint: d.c.Layout.Fingerprint(), Windows: d.windows,
		Counters: d.c.Counters.Place(), Keeps: d.names.Keeps,
		Mover: d.front.Mover(), Sockets: d.sockets, Pause: d.pause, Resume: d.resume,
	}
}

// sockets returns copies of all sockets that this process listens on.
func (d *Daemon) sockets() (sockets.Passed, error) {
	all, err := d.front.Sockets()
	return all, errors.Join(err, d.services.Sockets(&all))
}

// pause ends what answers beside the engine, whose sockets a successor has too.
func (d *Daemon) pause() {
	var all sync.WaitGroup
	all.Go(d.services.Pause)
	d.front.PauseUDP()
	all.Wait()
}

// resume undoes pause, with copies of the sockets.
func (d *Daemon) resume(passed sockets.Passed) error {
	if err := d.services.Resume(passed, d.fail); err != nil {
		return err
	}
	return d.front.ResumeUDP(passed, d.fail)
}

// Upgrade lets a new process take over. If it does, Run returns soon after. After an error this process
// serves as before. Any goroutine may call it; a second call at the same time is refused.
func (d *Daemon) Upgrade(u handover.Upgrade) error { return d.giver.Upgrade(u) }

// Abandon kills a process that may become the successor, if there is one: this one is about to exit.
func (d *Daemon) Abandon() { d.giver.Abandon() }

// openUsers finds the users in the store of sequences, if that is where they are.
func (d *Daemon) openUsers() error {
	if d.c.Users == "" {
		return nil
	}
	keys, err := d.names.Users()
	if err != nil {
		return err
	}
	d.front.UseUsers(users.NewShared(keys))
	return nil
}

// newFront makes what clients connect to.
func (d *Daemon) newFront() (err error) {
	g := front.Given{
		Version: d.c.Version, Log: d.c.Log, Noise: d.noise, Now: d.windows.Clock.Now,
		Cluster: sockets.Advertise(d.c.Advertise, d.c.Log).Node,
		Handler: func(loop int) protocol.Handler { return d.names.Catalog.Handler(loop, d.observer.Stats) },
		Await:   func() bool { return d.names.Catalog.AwaitWhile(d.windows.Issuer.Late) },
		Passed:  d.c.Inherited.Passed(), Certified: d.c.GRPCPort != 0,
	}
	if d.c.Counters.Elects() {
		g.Topology = d.names.Topology
	}
	d.front, err = front.New(d.c.Front, g)
	return err
}

// newServices makes what answers beside the engine.
func (d *Daemon) newServices() {
	d.services = services.New(d.c.Services, services.Given{
		Log: d.c.Log, Noise: d.noise, Bind: d.c.Bind, MaxConnections: d.c.MaxConnections,
		DrainTimeout: d.c.DrainTimeout, Passed: d.c.Inherited.Passed(), Encrypted: d.front.Encrypted(),
		Login: d.front.Login(), Events: d.events,
		HTTP: httpapi.Config{
			Batch: d.names.Catalog.Batch, Declared: d.names.Catalog.Declares, Stats: d.observer.GeneralStats,
			Ready: d.observer.Readiness, Notes: d.windows.Notes, Page: d.observer.Page(), Metrics: d.observer.Metrics(),
			Runbook: d.observer.Runbook(), Busy: d.busy,
		},
		GRPC: grpcapi.Config{
			Batch: d.names.Catalog.Batch, Stats: d.observer.NineStats, Ready: d.observer.Ready,
			Limits: d.front.Limits(), TLS: d.front.TLS, Busy: d.busy,
		},
		Admin: adminapi.Config{
			Sequences: d.names.Sequences, Counters: d.c.Counters, Create: d.names.Create, Served: d.names.Served,
			Elector: d.names.Elector,
			Users:   d.front.Users, Log: d.c.Log,
		},
	})
}

// busy is told by the services that they are.
func (d *Daemon) busy() {
	d.front.Busy()
	if d.c.Busy != nil {
		d.c.Busy()
	}
}

// Reload reads the certificate, the users and the names again; so does a successor that is starting. Open connections
// keep their certificate, lose what their user lost, and see new names. If a file is invalid, the old content stays in
// force.
func (d *Daemon) Reload() {
	d.giver.Reloads() // first: a successor that takes over meanwhile must not miss it
	if d.front.TLS == nil && !d.c.HasLogins() && d.c.DefinitionsFile == "" {
		d.c.Log.Info("nothing to reload: no certificate, no users and no file of names configured")
	}
	d.front.Reload(d.observer.Reloaded)
	if d.c.DefinitionsFile != "" {
		d.observer.Reloaded("names", d.names.Reload())
	}
}

// Run serves until ctx ends, then stops in order; or until another process has taken over, see
// Upgrade. The error is any other reason for stopping, such as a failed listener.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d.fail = fail
	taken, err := d.takeOver(ctx)
	if err != nil {
		d.end(true)
		return err
	}
	for _, p := range d.parts() {
		if err = p.start(ctx); err != nil {
			fail(err)
			break
		}
	}
	if err == nil {
		d.giver.Serves(ctx, fail)
		if taken != nil {
			taken.Serve()
		}
	}
	d.c.Inherited.Passed().Close() // what was needed was copied

	<-ctx.Done()
	d.stop(d.giver.End())
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, handover.ErrSucceeded) {
		return err
	}
	return nil
}

// takeOver waits until the process before this one has given it everything. It returns nil if there is none.
func (d *Daemon) takeOver(ctx context.Context) (*handover.Taker, error) {
	if !d.c.Inherited.Succeeds() {
		return nil, nil
	}
	d.windows.Start() // before all others: it keeps what it can have beside its predecessor
	taken, err := handover.Take(ctx, d.handover(), d.c.Inherited.From)
	if err != nil {
		return nil, err
	}
	if err := d.names.Reload(); err != nil { // its clients may know names that this process has not read
		d.observer.Reloaded("names", err)
	}
	return taken, d.bind()
}

// stop ends a daemon that has served. retired: another process serves, or may. Then its own clients and the store need
// not know, and it does not wait for load balancers.
func (d *Daemon) stop(retired bool) {
	d.observer.Leave() // not ready: load balancers send clients elsewhere
	if retired {
		d.names.HandOver() // at once: the new process waits for it
	} else {
		left := d.windows.Leave()     // clients that watch the store go elsewhere, too
		d.names.HandOver()            // others lead: until the end requests are forwarded to them
		time.Sleep(d.c.ShutdownDelay) // gives the load balancers time
		<-left
	}
	d.end(retired)
}

// end stops all parts, in the opposite order of their start, whether they have started or not.
func (d *Daemon) end(another bool) {
	for _, p := range slices.Backward(d.parts()) {
		p.stop(another)
	}
}

// Serving is closed once ids are served.
func (d *Daemon) Serving() <-chan struct{} { return d.giver.Serving() }

// Fleet returns what is known of all daemons of the fleet, as JSON; see package fleet. It waits for their answers, but
// not for longer than patience.
func (d *Daemon) Fleet(patience time.Duration) (string, error) { return d.observer.FleetText(patience) }

// Status says in a few words what the daemon does now: which worker ids it serves, or why it does not.
func (d *Daemon) Status() string { return d.observer.Status() }

// serve opens the engine's ports once the first lane may issue ids, and serves them. If ctx ends before that, it
// returns ctx's error.
func (d *Daemon) serve(ctx context.Context) error {
	select {
	case <-d.windows.Serving():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.front.Open(ctx); err != nil {
		return err
	}
	port := 0
	if tcp, ok := d.front.Addresses()[0].At.(*net.TCPAddr); ok && d.c.Advertise == "" {
		port = tcp.Port
	}
	d.windows.Opened(port)
	d.names.Reachable(d.ownNode())
	d.front.Serve(d.fail)
	return nil
}

// Addr returns where the memcached port listens. It may be called once Serving is closed.
func (d *Daemon) Addr() net.Addr { return d.front.Addresses()[0].At }
