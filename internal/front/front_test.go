package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// patience is how long a test waits for something that must happen. No test asserts how long it
// takes.
const patience = time.Minute

// testConfig configures a Front on any free port of the loopback address, without files.
func testConfig() Config {
	return Config{Bind: "127.0.0.1", Engine: "net", Loops: 1, MaxConnections: 1000, DrainTimeout: patience}
}

// A world is a Front with a lane that issues ids of worker id 7, without end.
type world struct {
	*Front
	clock   *clock.Clock
	issuer  *issuer.Issuer
	catalog *issuer.Catalog
	log     *childprocess.Log
}

// newFront makes a Front with the settings that change has changed. It listens nowhere.
func newFront(t testing.TB, change func(*Config, *Given)) *world {
	t.Helper()
	w := &world{clock: clock.New(), log: new(childprocess.Log)}
	w.issuer = issuer.New(issuer.Config{
		Lanes: 1, RunAhead: time.Second, Layout: generator.Katsubushi(), Now: w.clock.Now, Sleep: time.Sleep,
		Wake: func() { w.catalog.Wake() },
	})
	w.catalog = issuer.NewCatalog(w.clock.Now, w.issuer, false)
	log := slog.New(slog.NewTextHandler(w.log, nil))
	c, g := testConfig(), Given{
		Version: "3.4.5", Log: log, Noise: log, Now: w.clock.Now,
		Handler: func(loop int) protocol.Handler { return w.catalog.Handler(loop, w.stats) },
		Await:   func() bool { return w.catalog.AwaitWhile(w.issuer.Late) },
		Cluster: func(at net.Addr, memcached bool) string { return fmt.Sprint("me|", at, "|", memcached) },
	}
	change(&c, &g)
	err := errors.Join(c.Validate(), c.ReadSecrets())
	if err == nil {
		w.Front, err = New(c, g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) stats([]byte, func(name, value string)) bool { return true }

// issue lets the lane issue ids.
func (w *world) issue(t testing.TB) {
	t.Helper()
	if err := w.issuer.Publish(0, 7, w.clock.Now(), math.MaxInt64); err != nil {
		t.Fatal(err)
	}
}

// serve opens the ports and serves, and returns the address of the memcached port.
func (w *world) serve(t testing.TB) string {
	t.Helper()
	w.issue(t)
	if err := w.Claim(&sockets.Binder{Log: w.g.Log}); err != nil {
		t.Fatal(err)
	}
	fail := func(err error) { t.Error(err) }
	w.Start(fail)
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Serve(fail)
	return w.Addresses()[0].At.String()
}

// stop ends it as a daemon does.
func (w *world) stop() {
	w.Close()
	w.Wait()
	w.End()
}

// serve serves until the end of the test, and returns the address of the memcached port.
func serve(t testing.TB, w *world) string {
	t.Helper()
	t.Cleanup(w.stop)
	return w.serve(t)
}

// closed expects that nothing listens at an address any more.
func closed(t *testing.T, address string) {
	t.Helper()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the memcached port is open")
	}
}

// dial connects to an address.
func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(4 * patience)) // for all of a test
	t.Cleanup(func() { c.Close() })
	return c
}

// says sends something and expects an answer that begins so.
func says(t *testing.T, c net.Conn, in, want string) {
	t.Helper()
	io.WriteString(c, in)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("%q is answered %q, %v; want %q", in, got, err, want)
	}
}

// enginesHere returns the engines that run here.
func enginesHere() (names []string) {
	for _, name := range []string{"net", "epoll", "uring"} {
		if _, _, err := engines.Choose(name, 2); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// TestIdleConnectionsAreClosed: the time-out reaches the engine, and the engine's count is shown.
func TestIdleConnectionsAreClosed(t *testing.T) {
	for _, engine := range enginesHere() {
		w := newFront(t, func(c *Config, _ *Given) { c.Engine, c.IdleTimeout = engine, 20*time.Millisecond })
		if n, err := dial(t, "tcp", serve(t, w)).Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%s: a silent connection: %d bytes, %v", engine, n, err)
		}
		if n := w.Connections.IdleClosed.Load(); n != 1 {
			t.Errorf("%s: %d connections counted as closed for being idle", engine, n)
		}
	}
}

// TestLimitsReachTheEngine: of connections, and of memory.
func TestLimitsReachTheEngine(t *testing.T) {
	w := newFront(t, func(c *Config, _ *Given) { c.MaxConnections, c.MaxBufferMemory = 1, 5<<20 })
	address := serve(t, w)
	says(t, dial(t, "tcp", address), "version\r\n", "VERSION 3.4.5\r\n")
	says(t, dial(t, "tcp", address), "", "ERROR Too many open connections\r\n")
	if w.Budget.Limit() != 5<<20 || w.Limits().Budget != w.Budget || w.Limits().MaxConnections != 1 {
		t.Errorf("a limit of %d bytes, %+v", w.Budget.Limit(), w.Limits())
	}
	if n := w.Connections.Refused.Load(); n != 1 {
		t.Errorf("%d connections are counted as refused", n)
	}
}

// TestPortsBesideASocket: with -sock, the other ports of the engine still listen on TCP, and speak
// TLS; the socket does not, and keeps the engine that was asked for. Each port's sessions advertise
// the port's own address.
func TestPortsBesideASocket(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := selfsigned.Files(t)
	w := newFront(t, func(c *Config, _ *Given) {
		c.Sock, c.SockMode, c.RedisPort = filepath.Join(dir, "s"), 0o700, redistest.FreePort(t)
		c.TLSCert, c.TLSKey, c.Engine = cert, key, "auto"
	})
	says(t, dial(t, "unix", serve(t, w)), "get id\r\n", "VALUE id 0 ")
	redis := fmt.Sprint("127.0.0.1:", w.c.RedisPort)
	encrypted, err := tls.Dial("tcp", redis, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	says(t, encrypted, "GET id\r\n", "$")
	if !w.Encrypted() || !w.Certified() {
		t.Error("it does not know that one of its two ports is encrypted")
	}
	if !strings.Contains(w.log.String(), "the certificate expires soon") {
		t.Errorf("a certificate of a day: %s", w.log)
	}
	for i, want := range []string{"me|" + w.c.Sock + "|true", "me|" + redis + "|false"} {
		if got := w.ports[i].sessions[0].Cluster; got != want {
			t.Errorf("port %d advertises %q, want %q", i, got, want)
		}
	}
	if got := fmt.Sprint(w.Addresses()); got != "[{memcached "+w.c.Sock+"} {Redis "+redis+"}]" {
		t.Errorf("addresses: %s", got)
	}
}

// TestAnAddressInUse: it is found out before ids can be issued, and nothing stays open after the failure. A
// successor does not look: its predecessor is there.
func TestAnAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	udp := redistest.FreePort(t)
	for _, passed := range []bool{false, true} {
		for _, redis := range []bool{false, true} {
			w := newFront(t, func(c *Config, g *Given) {
				at, name := &c.Port, PortFlag
				if redis {
					at, name = &c.RedisPort, RedisFlag
				}
				*at, c.UDPPort = ln.Addr().(*net.TCPAddr).Port, udp
				if passed { // another process listens, and rightly
					g.Passed = sockets.Passed{{Name: name, FD: -1}}
				}
			})
			synctest.Test(t, func(*testing.T) { err = w.Claim(&sockets.Binder{Log: slog.New(slog.DiscardHandler)}) })
			if errors.Is(err, syscall.EADDRINUSE) == passed {
				t.Errorf("passed %v: %v", passed, err)
			}
			w.End()
		}
	}
	conn, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", udp))
	if err != nil {
		t.Fatalf("the UDP port is still open: %v", err)
	}
	defer conn.Close()
	w := newFront(t, func(c *Config, _ *Given) { c.UDPPort = udp })
	synctest.Test(t, func(*testing.T) { err = w.Claim(&sockets.Binder{Log: slog.New(slog.DiscardHandler)}) })
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a UDP port in use: %v", err)
	}
	w.End()
}

// TestPortsThatCannotAllOpen: Open closes those that it had opened.
func TestPortsThatCannotAllOpen(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w := newFront(t, func(c *Config, _ *Given) {
		c.Port, c.RedisPort = redistest.FreePort(t), ln.Addr().(*net.TCPAddr).Port
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Start(nil)
	if err := w.Open(ctx); !errors.Is(err, syscall.EADDRINUSE) || w.Addresses() != nil {
		t.Errorf("%v, %v", err, w.Addresses())
	}
	closed(t, fmt.Sprint("127.0.0.1:", w.c.Port))
	w.stop()
}

// TestTheEndOfAFront: what has arrived is answered, then nothing is open any more.
func TestTheEndOfAFront(t *testing.T) {
	w := newFront(t, func(c *Config, _ *Given) { c.UDPPort = redistest.FreePort(t) })
	address := serve(t, w)
	select {
	case <-w.Opened():
	default:
		t.Error("it serves, and is not open")
	}
	c := dial(t, "tcp", address)
	says(t, c, "version\r\n", "VERSION 3.4.5\r\n")
	io.WriteString(c, "get id\r\n")
	w.Close()
	answer, err := io.ReadAll(bufio.NewReader(c))
	if !strings.HasPrefix(string(answer), "VALUE id 0 ") || err != nil {
		t.Errorf("what was asked before: %q, %v", answer, err)
	}
	w.Wait()
	w.End()
	if ln, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", w.c.UDPPort)); err != nil {
		t.Errorf("the UDP port is open: %v", err)
	} else {
		ln.Close()
	}
	closed(t, address)
}

// TestASuccessorTakesTheSockets: it gets copies of all, connections move, and if it fails the first one goes on.
func TestASuccessorTakesTheSockets(t *testing.T) {
	for _, engine := range enginesHere() {
		w := newFront(t, func(c *Config, _ *Given) {
			c.Engine, c.UDPPort, c.RedisPort = engine, redistest.FreePort(t), redistest.FreePort(t)
		})
		address := serve(t, w)
		c := dial(t, "tcp", address)
		says(t, c, "set x 0 0 3\r\nab", "") // in the middle of a value
		udp := dial(t, "udp", fmt.Sprint("127.0.0.1:", w.c.UDPPort))
		const datagram = "\x00\x01\x00\x00\x00\x01\x00\x00"
		says(t, dial(t, "tcp", address), "version\r\n", "VERSION 3.4.5\r\n") // the turn before has ended

		passed, err := w.Sockets()
		if err != nil {
			t.Fatal(err)
		}
		defer passed.Close()
		for _, name := range []string{PortFlag, RedisFlag, UDPFlag} {
			if len(passed.Named(name)) == 0 || passed.Lent(name) {
				t.Errorf("%s: passed %+v", name, passed)
			}
		}
		w.PauseUDP()
		moved, err := w.Mover().Freeze(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := newFront(t, func(c *Config, g *Given) {
			*c, g.Passed = w.c, passed
		})
		next.serve(t)
		<-next.Opened()
		for _, m := range moved {
			for err = server.ErrIdle; errors.Is(err, server.ErrIdle); {
				err = next.Mover().Adopt(m)
			}
			if err != nil {
				t.Error(err)
			}
		}
		says(t, c, "c\r\nversion\r\n", "SERVER_ERROR read-only: ids are not stored\r\nVERSION 3.4.5\r\n")
		says(t, dial(t, "tcp", address), "version\r\n", "VERSION 3.4.5\r\n")
		says(t, udp, datagram+"version\r\n", "")
		n, err := udp.Read(make([]byte, 100))
		if err != nil || n <= 8 {
			t.Errorf("%s: over UDP: %d bytes, %v", engine, n, err)
		}
		next.stop()

		if err := errors.Join(w.ResumeUDP(passed, func(err error) { t.Error(err) }), w.Mover().Thaw(nil)); err != nil {
			t.Fatal(err)
		}
		says(t, udp, datagram+"version\r\n", "")
		if n, err := udp.Read(make([]byte, 100)); err != nil || n <= 8 {
			t.Errorf("%s: over UDP again: %d bytes, %v", engine, n, err)
		}
		says(t, dial(t, "tcp", address), "version\r\n", "VERSION 3.4.5\r\n")
	}
}

// TestASupervisorsSocketIsLent: it stays where it is, whatever happens to the daemon.
func TestASupervisorsSocketIsLent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var passed sockets.Passed
	if err := passed.Add(sockets.Unix, ln, true); err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	w := newFront(t, func(c *Config, g *Given) { c.Sock, g.Passed = path, passed })
	serve(t, w)
	says(t, dial(t, "unix", path), "version\r\n", "VERSION 3.4.5\r\n")
	copies, err := w.Sockets()
	if err != nil || !copies.Lent(sockets.Unix) {
		t.Errorf("%+v, %v", copies, err)
	}
	copies.Close()
	w.Close()
	w.Wait()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// holding is an engine that counts how often it is told to hold, and to wake.
type holding struct {
	server.Engine
	held, woken atomic.Int64
}

func (h *holding) Hold() { h.held.Add(1) }
func (h *holding) Wake() { h.woken.Add(1) }

// TestBusyServicesHoldTheEngine: if the Go runtime was given one more P for the engine's sake.
func TestBusyServicesHoldTheEngine(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		engine       string
		procs, after int
	}{{"auto", 1, 2}, {"auto", 2, 2}, {"net", 1, 1}} {
		runtime.GOMAXPROCS(c.procs)
		w := newFront(t, func(config *Config, _ *Given) { config.Engine = c.engine })
		spared := c.procs == 1 && w.Engine() != "net"
		h := &holding{Engine: w.engine}
		w.engine = h
		w.Busy()
		w.Wake()
		if got := h.held.Load() == 1; got != spared || h.woken.Load() != 1 {
			t.Errorf("engine %s, %d Ps before: held %v, want %v", w.Engine(), c.procs, got, spared)
		}
		if got := runtime.GOMAXPROCS(0); got != c.after && len(enginesHere()) > 1 {
			t.Errorf("engine %s: %d Ps, want %d", c.engine, got, c.after)
		}
		w.End()
	}
}

// ending is an engine that has ended when it is told how.
type ending struct {
	server.Engine
	how     chan error
	stopped chan struct{}
}

func (e *ending) Serve(ctx context.Context, _ []server.Port) error {
	<-ctx.Done()
	close(e.stopped)
	return <-e.how
}

// TestTheEngineEndsBeforeWait: Close tells it to end, Wait waits until it has, and its error is told.
func TestTheEngineEndsBeforeWait(t *testing.T) {
	for _, how := range []error{nil, errors.New("a broken ring")} {
		synctest.Test(t, func(t *testing.T) {
			w := newFront(t, func(*Config, *Given) {})
			e := &ending{w.engine, make(chan error), make(chan struct{})}
			w.engine = e
			var failed error
			fail := func(err error) { failed = err }
			w.Start(fail)
			w.Serve(fail)
			w.Close()
			<-e.stopped
			waited := false
			go func() {
				w.Wait()
				waited = true
			}()
			synctest.Wait()
			if waited {
				t.Error("the engine has not ended")
			}
			e.how <- how
			synctest.Wait()
			if !waited || failed != how {
				t.Errorf("waited %v, failed with %v; want %v", waited, failed, how)
			}
			w.End()
		})
	}
}

// TestPorts: each is complete, and what must differ does.
func TestPorts(t *testing.T) {
	c := testConfig()
	c.Port, c.RedisPort, c.UDPPort = 1, 2, 3
	var flags []string
	for _, at := range c.Places() {
		flags = append(flags, at.Flag)
		if at.Host != c.Bind || at.UDP != (at.Flag == UDPFlag) || at.Local {
			t.Errorf("%+v", at)
		}
	}
	if !slices.Equal(flags, []string{PortFlag, RedisFlag, UDPFlag}) {
		t.Errorf("ports: %v", flags)
	}
	for _, p := range c.ports() {
		if p.session == nil || p.resume == nil || p.refusal == "" || p.outOfMemory == "" || p.at.Title == "" {
			t.Errorf("%s: an incomplete entry: %+v", p.at.Flag, p)
		}
	}
	c.RedisPort, c.UDPPort, c.Sock, c.SockMode = 0, 0, "/s", 0o700
	if got := c.Places(); len(got) != 1 || got[0].Name() != sockets.Unix || got[0].Mode != 0o700 {
		t.Errorf("a socket alone: %+v", got)
	}
}
