// Package front is where clients ask: the ports of the engine, their sessions, who may log in and with which
// rights, the UDP port, the certificate, and how many connections and how much memory there may be.
//
// The life of a Front: New, Claim, Start, Open once ids can be issued, Serve. Close begins its end, Wait
// waits until every client has its last replies, End gives everything back. A process that succeeds another
// one calls OpenUDP instead of Claim, when the other one has let go. The other one calls Sockets, PauseUDP and
// Freeze, and Thaw and ResumeUDP if it goes on.
//
// It asks others for ids, and knows neither windows nor names.
package front

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

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Given is what a Front has from the other parts of a daemon.
type Given struct {
	Version  string                          // N.N.N, first number not 0: memcached's clients parse it
	Log      *slog.Logger                    // changes of state
	Noise    *slog.Logger                    // what connections and requests can cause
	Now      func() int64                    // the id clock, Unix ms
	Handler  func(loop int) protocol.Handler // answers the requests of a loop; the last one's are the UDP port's
	Topology func() protocol.Topology        // what Redis's cluster clients see; nil = no cluster
	// Cluster returns what config get cluster says on a port. memcached = it is the memcached port.
	Cluster func(listening net.Addr, memcached bool) string
	Await   func() bool // waits a moment for a late extension of a window; false = none is under way

	Passed sockets.Passed // what another process has opened
	// Certified: another port uses the certificate too.
	Certified bool
}

// A Front serves the ports of an engine. Claim, Start, Open, Serve, Close, Wait and End come one after
// another; any goroutine may call the other methods.
type Front struct {
	Connections server.Counters
	Budget      *server.Budget
	TLS         *server.TLS // nil = plain

	c       Config
	g       Given
	engine  server.Engine
	spared  bool    // the Go runtime has a P more than it would have by itself
	logins  *logins // nil = no login needed
	ports   []port  // the memcached port first
	clients atomic.Int64

	commands  []protocol.Counters // one per loop, and one for the UDP port
	latency   []latency.Histogram // one per loop
	asked     []*latency.Asked    // the same
	datagrams protocol.Config     // what the UDP port's requests share

	listening []server.Port
	addresses []sockets.Address // set before opened is closed
	kept      sockets.Passed    // copies of the engine's listeners, for a successor
	opened    chan struct{}     // closed once the engine's ports are open
	stop      context.CancelFunc
	served    chan struct{} // closed when the engine has ended; nil = it has not begun

	udp       *net.UDPConn // nil when the UDP port is off
	endUDP    context.CancelCauseFunc
	udpServed chan struct{} // closed when the UDP port has ended; nil = it has not begun

	unwatch  context.CancelFunc // ends watching; nil = that has not begun
	watching sync.WaitGroup     // whoever follows the users
}

// New makes a Front that serves nothing and listens nowhere. Config.Validate and Config.ReadSecrets must have
// found nothing wrong.
func New(c Config, g Given) (*Front, error) {
	f := &Front{
		c: c, g: g, TLS: c.secrets.tls, Budget: server.NewBudget(c.MaxBufferMemory), ports: c.ports(),
		commands: make([]protocol.Counters, c.Loops+1), latency: make([]latency.Histogram, c.Loops),
		opened: make(chan struct{}),
	}
	f.logins = newLogins(&f.c, g.Log, g.Noise, f.Wake)
	for loop := range f.commands {
		s := protocol.Config{Handler: g.Handler(loop), Counters: &f.commands[loop], Version: g.Version,
			Clients: &f.clients, Topology: g.Topology}
		if f.logins != nil {
			// each connection has its own: see newLoginSession
			s.Auth = func(user, password []byte) (*protocol.Config, error) { return nil, nil }
		}
		if err := s.Check(); err != nil {
			return nil, err
		}
		if loop == c.Loops {
			f.datagrams = s
			break
		}
		if h, ok := s.Handler.(*issuer.Handler); ok {
			f.asked = append(f.asked, h.Asked())
		}
		for i := range f.ports {
			f.ports[i].sessions = append(f.ports[i].sessions, s)
		}
	}
	if err := f.chooseEngine(); err != nil {
		return nil, err
	}
	switch {
	case f.Certified():
		f.checkCertificate()
	case f.TLS != nil:
		g.Log.Warn("the certificate is not used: a unix socket is not encrypted")
	}
	return f, nil
}

// chooseEngine makes the engine that the settings and this machine allow.
func (f *Front) chooseEngine() error {
	name, all := f.c.Engine, f.TLS != nil && f.c.Sock == ""
	if all {
		name = "net"
	}
	newEngine, why, err := engines.Choose(name, f.c.Loops)
	if err != nil {
		return err
	}
	if all {
		why = "it is the one that encrypts"
	}
	f.engine = newEngine(f.Limits())
	if f.engine.Name() != "net" {
		f.spared = spareProcessor(f.c.Loops)
	}
	f.g.Log.Info("engine", "name", f.engine.Name(), "why", why)
	return nil
}

// Limits returns what connections to the engine's ports, and to others that count with them, may do.
func (f *Front) Limits() server.Config {
	return server.Config{
		Now: f.g.Now, MaxConnections: int64(f.c.MaxConnections), Budget: f.Budget,
		IdleTimeout: f.c.IdleTimeout, DrainTimeout: f.c.DrainTimeout, Counters: &f.Connections, Latency: f.latency,
		Asked: f.asked, Log: f.g.Noise, Spin: spinWithin("/", f.c.Spin),
	}
}

// spinWithin returns for how long an event loop spins. A quota of less than one CPU is spent faster by a loop that
// learns to spin, and then stops the whole process. root is as in controlGroups.
func spinWithin(root string, wanted time.Duration) time.Duration {
	if wanted == SpinAuto && lessThanOneCPU(root) {
		return 0
	}
	return wanted
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

// Busy is called while goroutines beside the engine are busy. The P that was added is for the engine
// alone: see Engine.Hold.
func (f *Front) Busy() {
	if f.spared {
		f.engine.Hold()
	}
}

// Wake makes sessions ask again that wait for an id.
func (f *Front) Wake() { f.engine.Wake() }

// Claim opens the UDP port, and finds out now, not when the ports open, whether an address is in use.
func (f *Front) Claim(b *sockets.Binder) error {
	if err := f.openUDP(b); err != nil {
		return err
	}
	return b.Bind(context.Background(), f.probe)
}

// UseUsers says where the users are, if not in AuthFile. It reads them, or logs why not.
func (f *Front) UseUsers(s users.Store) {
	f.logins.store = s
	f.logins.refresh(context.Background(), false)
}

// Users returns where the users are; nil = nowhere yet.
func (f *Front) Users() users.Store { return f.logins.store }

// Login decides a login of a client who can wait, such as one over HTTP. It returns nil if anything is wrong. It
// itself is nil if nobody needs to log in.
func (f *Front) Login() func(context.Context, netip.Addr, users.Credentials) (*users.Account, error) {
	if f.logins == nil {
		return nil
	}
	return f.logins.http
}

// Start serves the UDP port and follows the users until End. It calls fail when the UDP port ends by itself.
func (f *Front) Start(fail func(error)) {
	f.startUDP(fail)
	if f.logins == nil {
		return
	}
	var ctx context.Context
	ctx, f.unwatch = context.WithCancel(context.Background())
	f.watching.Go(func() { f.logins.watch(ctx) })
}

// Open opens the engine's ports. Their connections wait until Serve is called.
func (f *Front) Open(ctx context.Context) error {
	b := sockets.Binder{Log: f.g.Log}
	err := b.Bind(ctx, func() (err error) {
		f.listening, err = f.listen()
		return err
	})
	if err == nil {
		f.announce()
		close(f.opened)
	}
	return err
}

// Opened is closed once the engine's ports are open.
func (f *Front) Opened() <-chan struct{} { return f.opened }

// Serve serves the engine's ports until Close. It calls fail when the engine ends by itself.
func (f *Front) Serve(fail func(error)) {
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	f.stop, f.served = stop, served
	go func() {
		defer close(served)
		if err := f.engine.Serve(ctx, f.listening); err != nil {
			fail(err)
		}
	}()
}

// Close accepts what has already arrived, then nothing more; what was sent is answered.
func (f *Front) Close() {
	f.kept.Close() // the engine's listeners are then the last ones
	if f.stop != nil {
		f.stop()
	}
	if f.endUDP != nil {
		f.endUDP(nil)
	}
}

// Wait returns when every connection has taken its replies, or has run out of time.
func (f *Front) Wait() {
	if f.served != nil {
		<-f.served
	}
	if f.udpServed != nil {
		<-f.udpServed
	}
}

// End gives back what is left, also after a start that failed.
func (f *Front) End() {
	if f.udp != nil {
		f.udp.Close()
	}
	if f.unwatch != nil {
		f.unwatch()
	}
	f.watching.Wait()
	if f.logins != nil {
		f.logins.verifier.Close()
	}
}

// Reload reads the certificate and the users again, and reports how that went. Open connections keep their
// certificate, and lose what their user lost. If a file is invalid, the old content stays in force.
func (f *Front) Reload(report func(what string, err error)) {
	if f.TLS != nil {
		err := f.TLS.Reload()
		if report("certificate", err); err == nil && f.Certified() {
			f.checkCertificate()
		}
	}
	if f.logins != nil {
		report("users", f.logins.refresh(context.Background(), true))
	}
}

// Unread returns why the users cannot be read, or nil. Those that were read before hold.
func (f *Front) Unread() error {
	if f.logins == nil {
		return nil
	}
	if why := f.logins.unread.Load(); why != nil {
		return *why
	}
	return nil
}

// Sockets returns copies of all sockets that the Front listens on, also those made before an error.
func (f *Front) Sockets() (sockets.Passed, error) {
	all, err := f.kept.Copies()
	if f.udp != nil {
		err = errors.Join(err, all.Add(UDPFlag, f.udp, f.g.Passed.Lent(UDPFlag)))
	}
	return all, err
}

// Mover gives connections away, and takes them.
func (f *Front) Mover() server.Mover { return f.engine }

// Encrypted reports whether a port of the engine uses TLS: a unix socket does not.
func (f *Front) Encrypted() bool {
	return f.TLS != nil && slices.ContainsFunc(f.ports, func(p port) bool { return p.at.Path == "" })
}

// Certified reports whether a port uses the certificate.
func (f *Front) Certified() bool { return f.Encrypted() || f.TLS != nil && f.g.Certified }

// checkCertificate warns if clients refuse the certificate, or will soon. The daemon uses it
// anyway, because clients may be configured not to check.
func (f *Front) checkCertificate() {
	from, until := f.TLS.Valid()
	switch now := time.Now(); {
	case now.After(until):
		f.g.Log.Warn("the certificate has expired", "at", until)
	case now.Before(from):
		f.g.Log.Warn("the certificate is not valid yet", "from", from)
	case until.Sub(now) < page.CertificateShort:
		f.g.Log.Warn("the certificate expires soon", "at", until)
	}
}
