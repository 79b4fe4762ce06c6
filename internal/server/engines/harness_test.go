package engines

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain leaves a processor free beside those of the event loops, as the daemon does.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 3))
	os.Exit(m.Run())
}

// makers returns the engines under test: all that run here.
func makers() (all []candidate) {
	for _, c := range candidates() {
		if c.probe(2) == nil {
			all = append(all, c)
		}
	}
	return append(all, strained()...)
}

// A place is where the engine under test listens.
type place struct {
	network string // tcp or unix
	loops   int
}

var places = []place{{"tcp", 1}, {"tcp", 2}, {"unix", 1}, {"unix", 2}}

// everywhere runs a test on every engine of this system, with both kinds of listener, with one loop and with two.
// The race detector makes a test ten times as slow: under it half of the tests have two loops on TCP and one on a unix
// socket, the others have one on TCP and two on a unix socket. Otherwise each has all four, on an engine with tiny
// queues two.
func everywhere(t *testing.T, test func(t *testing.T, m candidate, p place)) {
	for _, m := range makers() {
		for i, p := range places {
			crossed := i == 1 || i == 2
			if halved() && crossed != (len(t.Name())%2 == 1) || !halved() && m.name == "tinyuring" && crossed {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%d", m.name, p.network, p.loops), func(t *testing.T) { test(t, m, p) })
		}
	}
}

func halved() bool { return raceDetector && os.Getenv("KATSUBUSHI_SOAK") != "1" }

// A rig is a running engine.
type rig struct {
	t        testing.TB
	network  string // of the first port
	address  string
	ports    []net.Addr // of all
	counters *server.Counters
	budget   *server.Budget
	log      *bytes.Buffer // read it only after stop
	engine   server.Engine
	clock    atomic.Int64 // turns of its event loops
	well     *well
	end      context.CancelFunc
	done     chan error

	feeds   feeds
	opened  [2]atomic.Int64 // sessions, by loop
	threads sync.Map        // of [2]int: loop, and thread it was seen on
	held    chan struct{}   // a session that receives "hold" sends to it,
	freed   chan struct{}   // then to this one: then its loop goes on

	waited, stopped bool
}

const patience = time.Minute // for conditions that become true unless something is broken

func start(t testing.TB, m candidate, p place, change func(*server.Config)) *rig {
	t.Helper()
	return startPorts(t, m, change, func(r *rig) []server.Port { return []server.Port{r.port(p)} })
}

// port opens a port for lineSessions.
func (r *rig) port(p place) server.Port {
	port := r.portOn(listeners(r.t, p.network, p.loops))
	port.Shared = p.loops == 2 // it must make no other difference
	return port
}

func (r *rig) portOn(lns []net.Listener) server.Port {
	return server.Port{
		Name: "lines", Listeners: lns, Refusal: []byte("too many\r\n"), OutOfMemory: []byte("out of memory\r\n"),
		Open: func(loop int, _ *latency.Asked) server.Session {
			r.opened[loop].Add(1)
			return r.session()
		},
		Resume: func(loop int, _ *latency.Asked, state []byte) (server.Session, error) {
			s := r.session()
			_, err := fmt.Sscanf(string(state), "lines %d %d %d", &s.big, &s.skip, &s.pause)
			return s, err
		},
	}
}

// listeners opens listeners on a free address.
func listeners(t testing.TB, network string, loops int) []net.Listener {
	t.Helper()
	var lns []net.Listener
	var err error
	if network == "unix" {
		lns, err = server.ListenUnix(filepath.Join(shortTempDir(t), "s"), 0o700, loops)
	} else {
		lns, err = server.ListenTCP("127.0.0.1:0", loops)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lns
}

// startPorts starts an engine with the ports returned by ports. It ends with the test, behind its clients.
func startPorts(t testing.TB, m candidate, change func(*server.Config), ports func(*rig) []server.Port) *rig {
	t.Helper()
	checkLeaks(t)
	r := &rig{t: t, counters: new(server.Counters), log: new(bytes.Buffer), done: make(chan error, 1),
		held: make(chan struct{}), freed: make(chan struct{}), well: new(well)}
	c := server.Config{
		Now:            func() int64 { return r.clock.Add(1) },
		MaxConnections: 100_000,
		DrainTimeout:   patience,
		ParkPause:      5 * time.Millisecond,
		Counters:       r.counters,
		Budget:         server.NewBudget(1 << 40),
		// In half of the tests each answer is followed by a spin; in the others a loop learns.
		Spin: []time.Duration{server.SpinAuto, 200 * time.Microsecond}[len(t.Name())%2],
		Log:  slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&c)
	}
	r.budget = c.Budget
	list := ports(r)
	for _, p := range list {
		r.ports = append(r.ports, p.Listeners[0].Addr())
	}
	r.network, r.address = r.ports[0].Network(), r.ports[0].String()
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	r.engine = m.make(c)
	go func() { r.done <- r.engine.Serve(ctx, list) }()
	t.Cleanup(r.stop)
	return r
}

// stop ends the engine and checks that nothing is left behind. Clients must be closed or closing.
func (r *rig) stop() {
	r.t.Helper()
	if r.stopped {
		return
	}
	r.stopped = true
	r.end()
	if !r.waited {
		if err := r.wait(); err != nil {
			r.t.Errorf("Serve: %v", err)
		}
	}
	if n := r.counters.Current.Load(); n != 0 {
		r.t.Errorf("%d connections counted as open after Serve has returned", n)
	}
	if n := r.budget.Held(); n != 0 || r.budget.Shares() != 0 {
		r.t.Errorf("%d bytes counted as held, in %d shares, after Serve has returned", n, r.budget.Shares())
	}
}

// wait waits for Serve to return.
func (r *rig) wait() error {
	r.t.Helper()
	r.waited = true
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		r.t.Fatalf("Serve does not return\n%s", stacks())
		return nil
	}
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

var checked sync.Map // tests whose leaks are looked for

// checkLeaks waits, when the test has stopped its engines and closed its clients, until the numbers of goroutines and
// descriptors are as now.
func checkLeaks(t testing.TB) {
	t.Helper()
	if _, twice := checked.LoadOrStore(t, true); twice {
		return
	}
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		eventually(t, func() string {
			if n := runtime.NumGoroutine(); n > goroutines {
				return fmt.Sprintf("%d goroutines, %d before\n%s", n, goroutines, stacks())
			}
			if n := openFiles(t); n > descriptors {
				return fmt.Sprintf("%d open files, %d before", n, descriptors)
			}
			return ""
		})
	})
}

// openFiles counts this process's descriptors, or returns 0 where the system cannot tell.
func openFiles(t testing.TB) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return len(entries)
}

// eventually waits until problem returns "".
func eventually(t testing.TB, problem func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		p := problem()
		if p == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(p)
		}
		time.Sleep(time.Millisecond)
	}
}

// steady waits until look has returned the same fifty times, or enough is true.
func steady(t testing.TB, look func() (a, b uint64), enough func() bool) (a, b uint64) {
	t.Helper()
	calm := 0
	eventually(t, func() string {
		if n, m := look(); n != a || m != b {
			a, b, calm = n, m, 0
		}
		if calm++; calm < 50 && !enough() {
			return "still moving"
		}
		return ""
	})
	return a, b
}

// never is for steady.
func never() bool { return false }

// moved returns how many bytes were read and written.
func (r *rig) moved() (read, written uint64) {
	return r.counters.BytesRead.Load(), r.counters.BytesWritten.Load()
}

// settled waits until nothing is read or written any more.
func (r *rig) settled() (read, written uint64) {
	r.t.Helper()
	return steady(r.t, r.moved, never)
}

// calm waits until the event loops take no turns.
func (r *rig) calm() {
	r.t.Helper()
	steady(r.t, func() (turn, _ uint64) { return uint64(r.clock.Load()), 0 }, never)
}

// parkedOrStuck waits until a session waits, or its client must read first.
func (r *rig) parkedOrStuck(asked int64) {
	r.t.Helper()
	waits := func() bool { return r.well.asked.Load() > asked }
	eventually(r.t, func() string {
		if waits() {
			return "" // what came before may be counted only in the next turn
		}
		return r.atLeast("bytes written", r.counters.BytesWritten.Load(), 1)
	})
	steady(r.t, r.moved, waits)
}

// writes waits until so many bytes were written.
func (r *rig) writes(n uint64) {
	r.t.Helper()
	eventually(r.t, func() string { return r.atLeast("bytes written", r.counters.BytesWritten.Load(), n) })
}

func (r *rig) atLeast(what string, got, want uint64) string {
	if got < want {
		return fmt.Sprintf("%s: %d, want at least %d", what, got, want)
	}
	return ""
}

// shortTempDir is t.TempDir with a path short enough for a socket address.
func shortTempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// A brake stops event loops: nothing is read meanwhile, so everything that arrives is there at once
// when they go on. It has one connection to each loop, until connections move.
type brake struct {
	*rig
	held []*client
}

// newBrake makes a brake for an engine with loops. No connection may be on its way to a loop.
func (r *rig) newBrake(loops int) *brake {
	r.t.Helper()
	b := &brake{r, make([]*client, loops)}
	for missing := loops; missing > 0; {
		before := [...]int64{r.opened[0].Load(), r.opened[1].Load()}
		c := r.greeted()
		for i := range b.held {
			if r.opened[i].Load() > before[i] && b.held[i] == nil {
				b.held[i], c = c, nil
				missing--
			}
		}
		if c != nil {
			c.Close()
		}
	}
	return b
}

func (b *brake) stop() {
	b.t.Helper()
	for _, c := range b.held {
		c.say("hold\r\n")
		<-b.rig.held
	}
}

func (b *brake) release() {
	for range b.held {
		<-b.freed
	}
}

func (b *brake) close() {
	for _, c := range b.held {
		c.Close()
	}
}

// A client is one connection to a rig.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (r *rig) dial() *client { return r.dialFrom("") }

// greeted dials and waits until the connection is served.
func (r *rig) greeted() *client {
	r.t.Helper()
	c := r.dial()
	c.echo(1)
	return c
}

// dialFrom connects from a TCP address; "" is any.
func (r *rig) dialFrom(source string) *client {
	r.t.Helper()
	return r.dialTo(r.network, r.address, source)
}

// dialPort connects to one of several ports.
func (r *rig) dialPort(i int) *client {
	r.t.Helper()
	return r.dialTo(r.ports[i].Network(), r.ports[i].String(), "")
}

func (r *rig) dialTo(network, address, source string) *client {
	r.t.Helper()
	d := net.Dialer{Timeout: patience}
	if source != "" {
		d.LocalAddr, _ = net.ResolveTCPAddr("tcp", source)
	}
	c, err := d.Dial(network, address)
	if err != nil {
		r.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(2 * patience))
	cl := &client{c, r.t, bufio.NewReader(c)}
	r.t.Cleanup(func() { c.Close() })
	return cl
}

func (c *client) say(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		c.t.Fatalf("got %.200q (%v), want %.200q", got[:n], err, want)
	}
}

// expectBig reads the reply to "big n".
func (c *client) expectBig(n int) {
	c.t.Helper()
	buf := make([]byte, 64<<10)
	for at := 0; at < n; {
		k, err := c.r.Read(buf[:min(len(buf), n-at)])
		if err != nil {
			c.t.Fatalf("after %d of %d bytes: %v", at, n, err)
		}
		if string(buf[:k]) != bigBytes(n - at)[:k] {
			c.t.Fatalf("wrong bytes after %d of %d", at, n)
		}
		at += k
	}
}

// echo asks for text and gets it.
func (c *client) echo(text any) {
	c.t.Helper()
	c.say("echo %v\r\n", text)
	c.expect(fmt.Sprint(text) + "\r\n")
}

func (c *client) closeWrite() {
	c.t.Helper()
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expectEOF() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if len(rest) > 0 || err != nil {
		c.t.Fatalf("got %.200q (%v), want end of file", rest, err)
	}
}

// abort closes with a reset, which also leaves no TIME_WAIT behind.
func (c *client) abort() {
	conn := c.Conn
	if secret, ok := conn.(*tls.Conn); ok {
		conn = secret.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// A lineSession answers lines: "echo TEXT", "big N" (N bytes), "skip N" (discards the N bytes that
// follow), "close" (says bye), "quit" (says nothing, as memcached does), "hold" (see brake), "take
// TEXT" (waits for the well, then says TEXT), "split N" (N bytes, and waits for the well after half
// of them).
type lineSession struct {
	big, skip int
	pause     int  // the session waits when so much of big is left; 0 = never
	brake     *rig // a session that receives "hold" sends to its held and freed; nil = it may not
	well      *well
}

// A countedSession counts what it is asked. The sessions whose memory is measured do not.
type countedSession struct {
	lineSession
	feeds *feeds
}

func (r *rig) session() *countedSession {
	return &countedSession{lineSession{brake: r, well: r.well}, &r.feeds}
}

func (s *countedSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	s.feeds.begun.Add(1)
	defer s.feeds.ended.Add(1)
	return s.lineSession.Feed(now, in, out)
}

// feeds counts what sessions are asked.
type feeds struct{ begun, ended atomic.Int64 }

// Freeze implements server.Movable.
func (s *lineSession) Freeze() (state []byte, ok bool) {
	if s.big+s.skip+s.pause > 0 {
		state = fmt.Appendf(nil, "lines %d %d %d", s.big, s.skip, s.pause)
	}
	return state, true
}

// A well is what sessions wait for.
type well struct {
	tickets, asked atomic.Int64           // how many takes it can serve; how often it was asked in vain
	dry            atomic.Pointer[func()] // called when it was asked in vain, before the session waits
}

// take takes a ticket, or returns an error that means wait.
func (w *well) take() error {
	for {
		n := w.tickets.Load()
		if n == 0 {
			w.asked.Add(1)
			if dry := w.dry.Load(); dry != nil {
				(*dry)()
			}
			return errWait{}
		}
		if w.tickets.CompareAndSwap(n, n-1) {
			return nil
		}
	}
}

type errWait struct{}

func (errWait) Error() string { return "wait" }
func (errWait) Wait() bool    { return true }

var errEnd = errors.New("close the connection")

const longestLine = 1 << 20

// bigBytes returns the first of the last left bytes of a big reply. No two nearby pieces of the
// reply are equal.
func bigBytes(left int) string {
	from := len(period) - left%len(period)
	return pattern[from : from+min(left, 64<<10)]
}

const period = "It is the memory where katsubushi is shaved from, thin. "

var pattern = strings.Repeat(period, 64<<10/len(period)+2)

func (s *lineSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	for len(out) < server.ReplyFull {
		switch {
		case s.pause > 0 && s.big <= s.pause:
			if err := s.well.take(); err != nil {
				return n, out, err
			}
			s.pause = 0
		case s.big > 0:
			// It answers in pieces of its own size, even when no input is left.
			piece := bigBytes(s.big)[:min(s.big, 5000)]
			out = append(out, piece...)
			s.big -= len(piece)
		case s.skip > 0 && n < len(in):
			k := min(s.skip, len(in)-n)
			s.skip -= k
			n += k
		default:
			end := bytes.IndexByte(in[n:], '\n')
			if end < 0 {
				if len(in)-n > longestLine {
					return n, append(out, "too long\r\n"...), errEnd
				}
				return n, out, nil
			}
			out, err = s.command(bytes.TrimSuffix(in[n:n+end], []byte("\r")), out)
			if server.Waits(err) {
				return n, out, err
			}
			n += end + 1
			if err != nil {
				return n, out, err
			}
		}
	}
	return n, out, nil
}

func (s *lineSession) command(line, out []byte) ([]byte, error) {
	verb, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(verb) {
	case "echo":
		return append(append(out, rest...), "\r\n"...), nil
	case "big":
		s.big, _ = strconv.Atoi(string(rest))
		return out, nil
	case "split":
		s.big, _ = strconv.Atoi(string(rest))
		s.pause = s.big / 2
		return out, nil
	case "take":
		if err := s.well.take(); err != nil {
			return out, err
		}
		return append(append(out, rest...), "\r\n"...), nil
	case "skip":
		s.skip, _ = strconv.Atoi(string(rest))
		return out, nil
	case "close":
		return append(out, "bye\r\n"...), errEnd
	case "quit":
		return out, errEnd
	case "hold":
		s.brake.held <- struct{}{}
		s.brake.freed <- struct{}{}
		return out, nil
	}
	return append(out, "ERROR\r\n"...), nil
}
