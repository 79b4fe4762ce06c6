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
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/grpcapi"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A Daemon is everything that one katsubushi process consists of. Run may be called once.
type Daemon struct {
	c       Config
	started time.Time
	events  *events.Log  // the last changes of state; what Config.Log logs is kept there
	noise   *slog.Logger // the log without that: for what connections and requests can cause
	windows *windows.Holder
	clock   *clock.Clock   // its
	issuer  *issuer.Issuer // its
	catalog *issuer.Catalog
	shared  map[string]issuer.Kind // by the name of the kind; see servedKinds
	engine  server.Engine
	spared  bool        // the Go runtime has a P more than it would have by itself
	tls     *server.TLS // nil = plain
	logins  *logins     // nil = no login needed

	advertisedIP netip.Addr // IP address of the name in Config.Advertise; invalid = unknown

	connections  server.Counters
	budget       *server.Budget
	commands     []protocol.Counters // one per loop, and one for the UDP port
	latency      []latency.Histogram // one per loop
	sessions     []protocol.Config   // what the sessions of a loop share, on any port, and one for the UDP port
	clients      atomic.Int64        // connections that asked for a number of their own
	requests     httpapi.Counters    // the HTTP port's
	administered httpapi.Counters    // the admin port's
	called       grpcapi.Counters    // the gRPC port's

	history   page.History                // what the status page's charts show
	named     shownNames                  // what it shows of names
	addresses atomic.Pointer[[]page.Port] // of the engine's ports; nil = not open yet

	binder    sockets.Binder // used by New
	ports     []enginePort   // the memcached port first
	sequences sequences
	declaring sync.Mutex // taken by those who declare names while the daemon runs

	services []listedService // beside the engine
	udp      *net.UDPConn    // nil when the UDP port is off
	endUDP   context.CancelCauseFunc
	// udpServed is closed when the UDP port has ended.
	udpServed chan struct{}
	stopping  atomic.Bool
	opened    chan struct{} // closed once the engine's ports are open

	notReloaded notReloaded
	kept        sockets.Passed // copies of the engine's listeners, for a successor
	running     running        // set before opened is closed
	upgrading   sync.Mutex     // held during an upgrade, and from when Run stops
	child       atomic.Pointer[upgrade.Child]
	retired     atomic.Bool // another process serves now, or may: this one must not
}

// New checks the configuration, binds the services' ports and opens the store of the windows; it
// serves nothing before Run. An error means that the daemon cannot start: an invalid setting (see
// Config.Validate), an address still in use after sockets.Patience, or a state file that must not be
// used.
func New(c Config) (*Daemon, error) {
	if err := errors.Join(c.Validate(), c.ReadSecrets()); err != nil {
		return nil, err
	}
	if n := len(c.passed().Named(c.places()[0].Name())); n > 0 && c.origin() != nil {
		c.Loops = n // as many as listeners
	}
	noise, kept := c.Log, new(events.Log)
	c.Log = slog.New(kept.Handler(noise.Handler()))
	d := &Daemon{
		c: c, events: kept, noise: noise, started: time.Now(), tls: c.secrets.tls,
		binder:   sockets.Binder{Log: c.Log},
		budget:   server.NewBudget(c.MaxBufferMemory),
		commands: make([]protocol.Counters, c.Loops+1), latency: make([]latency.Histogram, c.Loops),
		shared: map[string]issuer.Kind{}, opened: make(chan struct{}),
	}
	d.logins = d.newLogins()
	w := c.windows()
	w.Ready, w.Wake, w.Succeeds, w.Peers.Ask = d.ready, d.wakeAll, c.origin() != nil, d.peerAsker()
	d.windows = windows.New(w)
	d.clock, d.issuer = d.windows.Clock, d.windows.Issuer
	d.catalog = issuer.NewCatalog(d.clock.Now, d.issuer, c.RefuseUnknown)
	for _, prepare := range []func() error{
		d.checkInherited, d.configureSessions, d.resolveAdvertised, d.addPorts, d.chooseEngine, d.addServices, d.listenUDP,
		d.checkAddress, d.windows.Open, d.openCounters, d.openUsers, d.declareGenerators,
	} {
		if err := prepare(); err != nil {
			d.dropServices()
			d.giveBackSequences()
			d.windows.Stop(true)
			if d.udp != nil {
				d.udp.Close()
			}
			return nil, err
		}
	}
	switch {
	case d.certified():
		d.checkCertificate()
	case d.tls != nil:
		d.c.Log.Warn("the certificate is not used: a unix socket is not encrypted")
	}
	if c.origin() == nil {
		d.checkPasswords()
	}
	return d, nil
}

// configureSessions sets what the sessions of each loop share.
func (d *Daemon) configureSessions() error {
	d.sessions = make([]protocol.Config, d.c.Loops+1)
	for loop := range d.sessions {
		s := &d.sessions[loop]
		*s = protocol.Config{Handler: d.catalog.Handler(loop, d.stats), Counters: &d.commands[loop], Version: d.c.Version,
			Clients: &d.clients}
		if d.c.Counters.Elects() {
			s.Topology = d.topology
		}
		if d.logins != nil {
			// each connection has its own: see opener
			s.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, nil }
		}
		if err := s.Check(); err != nil {
			return err
		}
	}
	return nil
}

// chooseEngine makes the engine that the settings and this machine allow.
func (d *Daemon) chooseEngine() error {
	name := d.c.Engine
	if d.allEncrypted() {
		name = "net"
	}
	newEngine, why, err := engines.Choose(name)
	if err != nil {
		return err
	}
	if d.allEncrypted() {
		why = "it is the one that encrypts"
	}
	d.engine = newEngine(d.limits())
	if d.engine.Name() != "net" {
		d.spared = spareProcessor(d.c.Loops)
	}
	d.c.Log.Info("engine", "name", d.engine.Name(), "why", why)
	return nil
}

// limits returns what connections to the engine's ports, and to others that count with them, may do.
func (d *Daemon) limits() server.Config {
	return server.Config{
		Now: d.clock.Now, MaxConnections: int64(d.c.MaxConnections), Budget: d.budget,
		IdleTimeout: d.c.IdleTimeout, DrainTimeout: d.c.DrainTimeout, Counters: &d.connections, Latency: d.latency,
		Log: d.noise,
	}
}

// spareProcessor makes sure that the Go runtime can run something beside the event loops. A loop
// that waits in the kernel keeps its P in the runtime; if it would keep the last one, it has to
// wait in a much more expensive way. The portable engine must not get more Ps than there are CPUs,
// because its goroutines would interrupt each other. If GOMAXPROCS is large enough, it is left
// alone: the runtime follows the limits of the control group only as long as nobody sets it.
// It returns whether it has changed GOMAXPROCS.
func spareProcessor(loops int) bool {
	if runtime.GOMAXPROCS(0) > loops {
		return false
	}
	runtime.GOMAXPROCS(loops + 1)
	return true
}

// busy is called while goroutines beside the engine are busy. The P that was added is for the engine
// alone: see Engine.Hold.
func (d *Daemon) busy() {
	if d.spared {
		d.engine.Hold()
	}
}

// checkAddress checks now, not when the ports open, whether an address is in use.
func (d *Daemon) checkAddress() error {
	if d.c.origin() != nil { // it is, and rightly
		return nil
	}
	return d.binder.Bind(context.Background(), func() error {
		for i := range d.ports {
			p := &d.ports[i]
			at := p.place(&d.c)
			if d.c.passed().Named(at.Name()) != nil { // a supervisor listens
				continue
			}
			if err := at.Probe(); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkCertificate warns if clients refuse the certificate, or will soon. The daemon uses it
// anyway, because clients may be configured not to check.
func (d *Daemon) checkCertificate() {
	from, until := d.tls.Valid()
	switch now := time.Now(); {
	case now.After(until):
		d.c.Log.Warn("the certificate has expired", "at", until)
	case now.Before(from):
		d.c.Log.Warn("the certificate is not valid yet", "from", from)
	case until.Sub(now) < page.CertificateShort:
		d.c.Log.Warn("the certificate expires soon", "at", until)
	}
}

// Reload reads the certificate, the users and the generators again. Open connections keep their
// certificate, lose what their user lost, and see new generators. If a file is invalid, the old content stays in force.
func (d *Daemon) Reload() {
	if d.tls == nil && d.logins == nil && d.c.GeneratorsFile == "" {
		d.c.Log.Info("nothing to reload: no certificate, no users and no file of generators configured")
	}
	report := func(what string, err error) {
		for _, p := range problem.Of(err) {
			d.c.Log.Error("not reloaded, the old one stays in force", "what", what, "error", p)
		}
		if d.notReloaded.note(what, err); err == nil {
			d.c.Log.Info("reloaded", "what", what)
		}
	}
	if d.tls != nil {
		err := d.tls.Reload()
		if report("certificate", err); err == nil && d.certified() {
			d.checkCertificate()
		}
	}
	if d.logins != nil {
		report("users", d.logins.refresh(context.Background(), true))
	}
	if d.c.GeneratorsFile != "" {
		report("generators", d.reloadGenerators())
	}
}

// certified reports whether a port uses the certificate.
func (d *Daemon) certified() bool { return d.encrypted() || d.tls != nil && d.c.GRPCPort != 0 }

// encrypted reports whether a port of the engine uses TLS.
func (d *Daemon) encrypted() bool {
	return d.tls != nil && slices.ContainsFunc(d.ports, func(p enginePort) bool { return p.onTCP(&d.c) })
}

// allEncrypted reports whether every port of the engine uses TLS: a unix socket does not.
func (d *Daemon) allEncrypted() bool { return d.tls != nil && d.c.Sock == "" }

// Run serves until ctx ends, then stops in order; or until another process has taken over, see
// Upgrade. The error is any other reason for stopping, such as a failed listener.
func (d *Daemon) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var background sync.WaitGroup
	defer background.Wait()
	keeping, stopKeeping := context.WithCancel(context.Background())
	defer stopKeeping()
	d.running = running{ctx, fail, &background}
	taken, err := d.start(ctx, keeping)
	if err != nil {
		stopKeeping()
		d.withdraw()
		return err
	}

	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	served := make(chan struct{})
	d.startUDP(fail)
	if ports, err := d.listenWhenServing(ctx); err != nil {
		fail(err)
		close(served)
	} else {
		go d.serve(serving, ports, served, fail)
		if taken != nil {
			taken.serving()
		}
	}
	if d.c.Inherited != nil { // what was needed was copied
		d.c.Inherited.Sockets.Close()
	}

	<-ctx.Done()
	d.upgrading.Lock() // one that is under way ends first
	if stopped := func() {
		<-served
		<-d.udpServed
	}; d.retired.Load() {
		d.retire(stopServing, stopped, stopKeeping)
	} else {
		d.stop(func() {
			stopServing()
			d.endUDP(nil)
		}, stopped, stopKeeping)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, errSucceeded) {
		return err
	}
	return nil
}

// start starts what runs beside the engine. A successor first waits until the process before it has
// given it everything.
func (d *Daemon) start(ctx, keeping context.Context) (taken *taking, err error) {
	background, fail := d.running.background, d.running.fail
	if d.c.origin() != nil {
		d.windows.Start()
		if taken, err = d.takeOver(ctx); err != nil {
			return nil, err
		}
		if err := errors.Join(d.openServices(), d.openUDP()); err != nil {
			return nil, err
		}
		d.checkPasswords()
	}
	d.startServices(background, fail)
	if taken == nil {
		d.windows.Start()
	}
	if d.c.HTTPPort != 0 {
		background.Go(func() { d.history.Run(keeping, d.sample) })
	}
	d.sequences.keep()
	if d.logins != nil {
		background.Go(func() { d.logins.watch(keeping) })
	}
	return taken, nil
}

// withdraw gives everything back when start has failed.
func (d *Daemon) withdraw() {
	d.dropServices()
	if d.udp != nil {
		d.udp.Close()
	}
	d.windows.Stop(true)
	d.giveBackSequences()
	d.closeGenerators()
}

// serve serves the ports until ctx ends.
func (d *Daemon) serve(ctx context.Context, ports []server.Port, served chan<- struct{}, fail func(error)) {
	defer close(served)
	d.announce(ports)
	d.found(ports)
	close(d.opened)
	if e := d.sequences.election; e != nil {
		e.opened(ports)
	}
	if err := d.engine.Serve(ctx, ports); err != nil {
		fail(err)
	}
}

// stop shows the order in which a daemon stops.
func (d *Daemon) stop(stopServing, served, stopKeeping func()) {
	d.stopping.Store(true)        // not ready: load balancers send clients elsewhere
	left := d.windows.Leave()     // the same for clients that watch the store
	d.sequences.handOver()        // others lead: until the end requests are forwarded to them
	time.Sleep(d.c.ShutdownDelay) // gives the load balancers time
	<-left
	d.kept.Close()       // the engine's listeners are then the last ones
	stopServing()        // accept what has already arrived, then nothing more; answer what was sent
	d.stopServices(true) // meanwhile
	served()             // every connection has taken its replies or run out of time
	stopKeeping()
	d.windows.Stop(false) // from here on no id is issued and the worker ids are free
	d.giveBackSequences()
	d.closeGenerators()
	d.stopServices(false) // last: until now they reported that the daemon is not ready
	if d.logins != nil {
		d.logins.verifier.Close()
	}
}

// retire is stop when another process serves, or may serve. The engine is frozen and the services have ended.
func (d *Daemon) retire(stopServing, served, stopKeeping func()) {
	d.stopping.Store(true)
	d.kept.Close()
	d.sequences.handOver() // at once: the new process waits for it
	stopServing()          // close what could not move
	served()
	stopKeeping()
	d.windows.Stop(true) // leased worker ids come free; others are the new process's already
	d.giveBackSequences()
	d.closeGenerators()
}
