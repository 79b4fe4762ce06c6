// Package daemon assembles the parts: it knows all of them, and none of them knows it.
//
// The life of a Daemon: New binds addresses and opens the store. Run serves until its context ends,
// then stops in the order that stop shows. The memcached port opens once the first lane may issue
// ids, and then stays open until the end, whatever happens to the lanes.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
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
// Config.Validate), an address still in use after sockets.Patience, or a state file that must not be
// used.
func New(c Config) (*Daemon, error) {
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
	w.Ready, w.Wake, w.Succeeds, w.Peers.Ask = d.observer.Ready, d.wake, c.Inherited.Succeeds(), d.peerAsker()
	d.windows = windows.New(w)
	d.names = names.New(c.names(), names.Given{
		Log: c.Log, Issuer: d.windows.Issuer, Now: d.windows.Clock.Now, AnyDisk: c.AnyDisk, Forwarder: d.newForwarder,
		Wake: func() { d.front.Wake() }, Hidden: c.HasLogins(), Unreachable: c.nowhere(),
	})
	for _, prepare := range []func() error{
		d.checkInherited, d.newFront, d.newServices, d.bindUnlessSucceeding,
		d.windows.Open, d.names.Open, d.openUsers,
	} {
		if err := prepare(); err != nil {
			if d.services != nil {
				d.services.Stop()
			}
			d.names.Stop()
			d.windows.Stop(true)
			if d.front != nil {
				d.front.End()
			}
			return nil, err
		}
	}
	d.giver = handover.NewGiver(d.handover())
	return d, nil
}

// checkInherited returns everything that is wrong with the passed sockets.
func (d *Daemon) checkInherited() error { return d.c.Inherited.Check(d.c.places(), SocketNames()) }

// bindUnlessSucceeding binds the ports now, so that an address in use is an error of New. A successor waits for
// its predecessor first.
func (d *Daemon) bindUnlessSucceeding() error {
	if d.c.Inherited.Succeeds() {
		return nil
	}
	return d.bind()
}

// bind opens the ports of the services and the UDP port, and finds out whether those of the engine are in use.
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

// wake makes everybody ask again who waits for an id.
func (d *Daemon) wake() { d.names.Wake() }

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
func (d *Daemon) newServices() error {
	d.services = services.New(d.c.Services, services.Given{
		Log: d.c.Log, Noise: d.noise, Bind: d.c.Bind, MaxConnections: d.c.MaxConnections,
		DrainTimeout: d.c.DrainTimeout, Passed: d.c.Inherited.Passed(), Encrypted: d.front.Encrypted(),
		Login: d.front.Login(), Events: d.events,
		HTTP: httpapi.Config{
			Batch: d.names.Catalog.Batch, Declared: d.names.Catalog.Declares, Stats: d.observer.GeneralStats,
			Ready: d.observer.Readiness, Notes: d.windows.Notes, Page: d.observer.Page(), Metrics: d.observer.Metrics(),
		},
		GRPC: grpcapi.Config{
			Batch: d.names.Catalog.Batch, Stats: d.observer.NineStats, Ready: d.observer.Ready,
			Limits: d.front.Limits(), TLS: d.front.TLS, Busy: d.front.Busy,
		},
		Admin: adminapi.Config{
			Sequences: d.names.Sequences, Counters: d.c.Counters, Create: d.names.Create, Served: d.names.Served,
			Elector: d.names.Elector,
			Users:   d.front.Users, Log: d.c.Log,
		},
	})
	d.observer.Watch(observe.Rooms{Windows: d.windows, Names: d.names, Front: d.front, Services: d.services})
	return nil
}

// Reload reads the certificate, the users and the generators again. Open connections keep their
// certificate, lose what their user lost, and see new generators. If a file is invalid, the old content stays in force.
func (d *Daemon) Reload() {
	if d.front.TLS == nil && !d.c.HasLogins() && d.c.DefinitionsFile == "" {
		d.c.Log.Info("nothing to reload: no certificate, no users and no file of generators configured")
	}
	d.front.Reload(d.observer.Reloaded)
	if d.c.DefinitionsFile != "" {
		d.observer.Reloaded("generators", d.names.Reload())
	}
}

// Run serves until ctx ends, then stops in order; or until another process has taken over, see
// Upgrade. The error is any other reason for stopping, such as a failed listener.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d.fail = fail
	taken, err := d.start(ctx)
	if err != nil {
		d.withdraw()
		return err
	}

	d.front.Start(fail)
	if err := d.listenWhenServing(ctx); err != nil {
		fail(err)
	} else {
		d.front.Serve(fail)
		d.giver.Serves(ctx, fail)
		if taken != nil {
			taken.Serve()
		}
	}
	d.c.Inherited.Passed().Close() // what was needed was copied

	<-ctx.Done()
	if d.giver.End() {
		d.retire()
	} else {
		d.stop()
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, handover.ErrSucceeded) {
		return err
	}
	return nil
}

// start starts what runs beside the engine. A successor first waits until the process before it has
// given it everything.
func (d *Daemon) start(ctx context.Context) (taken *handover.Taker, err error) {
	if d.c.Inherited.Succeeds() {
		d.windows.Start()
		if taken, err = handover.Take(ctx, d.handover(), d.c.Inherited.From); err != nil {
			return nil, err
		}
		if err := d.bind(); err != nil {
			return nil, err
		}
	}
	d.services.Start(d.fail)
	if taken == nil {
		d.windows.Start()
	}
	d.observer.Start()
	d.names.Start()
	return taken, nil
}

// withdraw gives everything back when start has failed.
func (d *Daemon) withdraw() {
	d.services.Stop()
	d.front.End()
	d.windows.Stop(true)
	d.names.Stop()
}

// stop shows the order in which a daemon stops.
func (d *Daemon) stop() {
	d.observer.Leave()            // not ready: load balancers send clients elsewhere
	left := d.windows.Leave()     // the same for clients that watch the store
	d.names.HandOver()            // others lead: until the end requests are forwarded to them
	time.Sleep(d.c.ShutdownDelay) // gives the load balancers time
	<-left
	d.front.Close()    // accept what has already arrived, then nothing more; answer what was sent
	d.services.Drain() // meanwhile
	d.front.Wait()     // every connection has taken its replies or run out of time
	d.observer.Stop()
	d.windows.Stop(false) // from here on no id is issued and the worker ids are free
	d.names.Stop()
	d.services.Stop() // last: until now they reported that the daemon is not ready
	d.front.End()
}

// retire is stop when another process serves, or may serve. The engine is frozen and the services have ended.
func (d *Daemon) retire() {
	d.observer.Leave()
	d.names.HandOver() // at once: the new process waits for it
	d.front.Close()    // close what could not move
	d.front.Wait()
	d.observer.Stop()
	d.windows.Stop(true) // leased worker ids come free; others are the new process's already
	d.names.Stop()
	d.front.End()
}

// Serving is closed once ids are served.
func (d *Daemon) Serving() <-chan struct{} { return d.giver.Serving() }

// Fleet returns what is known of all daemons of the fleet, as JSON; see package fleet. It waits for their answers, but
// not for longer than patience.
func (d *Daemon) Fleet(patience time.Duration) (string, error) { return d.observer.FleetText(patience) }

// Status says in a few words what the daemon does now: which worker ids it serves, or why it does not.
func (d *Daemon) Status() string { return d.observer.Status() }

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
