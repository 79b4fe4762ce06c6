package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A daemon is a real one, that can be killed and started again at its port.
type daemon struct {
	*daemonrun.Daemon
	t    testing.TB
	args []string
}

// startDaemon starts a daemon on loopback and waits until it listens.
func startDaemon(t testing.TB, args ...string) *daemon {
	t.Helper()
	port := strconv.Itoa(childprocess.FreePort(t)) // which nobody else gets while the daemon is restarted
	d := &daemon{t: t, args: append([]string{"-port", port, "-log-level", "info", "-state-dir", t.TempDir()}, args...)}
	d.start()
	return d
}

func (d *daemon) start() {
	d.t.Helper()
	d.Daemon = daemonrun.Start(d.t, d.args...)
}

// figure is a number of the daemon's stats.
func (d *daemon) figure(name string) (n int) {
	d.t.Helper()
	network := "tcp"
	if filepath.IsAbs(d.Addr()) {
		network = "unix"
	}
	conn, err := net.Dial(network, d.Addr())
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "stats\r\nquit\r\n")
	all, _ := io.ReadAll(conn)
	_, rest, found := strings.Cut(string(all), "STAT "+name+" ")
	text, _, _ := strings.Cut(rest, "\r\n")
	if n, err = strconv.Atoi(text); !found || err != nil {
		d.t.Fatalf("stats have no %s: %s", name, all)
	}
	return n
}

func newReal(t testing.TB, config Config, addrs ...string) *Client {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout, config.DialTimeout = time.Minute, time.Minute // the machine may be busy
	}
	c, err := New(Static(addrs...), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestDaemon takes ids from a real daemon in every way that there is: each is new, and each goroutine's
// increase.
func TestDaemon(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "s")
	d := startDaemon(t, "-worker-id", "1", "-generator", "orders sequence start=1", "-generator", "sessions uuid7")
	other := startDaemon(t, "-worker-id", "2", "-sock", sock)
	for _, d := range []*daemon{d, other} { // until then each has the ids of one tick, and refuses some if it is late
		childprocess.Until(t, "the first window has begun", func() bool { return d.figure("lane_0_run_ahead_ms") < 500 })
	}
	var mu sync.Mutex
	var seen unique.Set
	asked := 0
	for _, config := range []Config{{}, {GetOnly: true}, {Prefetch: 500, MaxAge: time.Hour},
		{Prefetch: 500, MaxAge: time.Hour, GetOnly: true}, {Connections: 3}} {
		for _, addr := range []string{d.Addr(), sock} {
			c := newReal(t, config, addr)
			var all sync.WaitGroup
			for g := range 50 {
				all.Go(func() {
					var mine []uint64
					for i := range 100 {
						if (i+g)%25 == 0 {
							ids, err := c.IDs(t.Context(), 30)
							if err != nil {
								t.Errorf("%+v: %v", config, err)
								return
							}
							mine = append(mine, ids...)
							continue
						}
						mine = append(mine, must(t)(c.ID(t.Context())))
					}
					if !slices.IsSorted(mine) {
						t.Errorf("%+v: a goroutine's ids are out of order", config)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, id := range mine {
						seen.Add(id)
					}
				})
			}
			all.Wait()
			s := c.Stats()
			if addr == d.Addr() {
				asked += int(s.Requests)
			}
			if s.Failed > 0 || s.Received < 50*(96+4*30) || s.Servers[0].Err != nil {
				t.Errorf("%+v: %+v", config, s)
			}
		}
	}
	t.Log(seen.String())
	if seen.Duplicates() > 0 || seen.Plant() != nil || seen.Len() != 10*50*(96+4*30) {
		t.Errorf("%s", seen.String())
	}
	c := newReal(t, Config{}, d.Addr())
	orders, sessions := c.Generator("orders"), c.Generator("sessions")
	for want := uint64(1); want <= 5; want++ {
		if v := must(t)(orders.ID(t.Context())); v != want {
			t.Errorf("value %d, want %d", v, want)
		}
	}
	if ids, err := orders.IDs(t.Context(), 1500); err != nil || ids[0] != 6 || ids[1499] != 1505 {
		t.Errorf("values %v..., %v", ids[:min(3, len(ids))], err)
	}
	if text, err := sessions.Text(t.Context()); err != nil || len(text) != 36 {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := orders.Text(t.Context()); err != nil || text != "1506" {
		t.Errorf("%q, %v", text, err)
	}
	if id, err := sessions.ID(t.Context()); id != 0 || !errors.Is(err, ErrRefused) {
		t.Errorf("a number of a UUID: %d, %v", id, err)
	}
	if got := d.figure("get_requests"); got < asked {
		t.Errorf("the daemon counts %d requests, the clients %d", got, asked)
	}
	if d.figure("cmd_ids") == 0 {
		t.Error("ids was not used")
	}
}

// TestDaemonWithTLSAndUsers logs in over TLS; a wrong password, plain text and a wrong certificate are
// told.
func TestDaemonWithTLSAndUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, users := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "users")
	pool, err := selfsigned.Write(cert, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(users, []byte("app:two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, "-worker-id", "1-4", "-tls-cert", cert, "-tls-key", key, "-auth-file", users, "-unknown-keys",
		"refuse")
	good := Config{User: "app", Password: "two words", TLS: &tls.Config{RootCAs: pool}}
	c := newReal(t, good, d.Addr())
	ids, err := c.IDs(t.Context(), 20_000)
	if err != nil || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 20_000 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	if id, err := c.Generator("nonsense").ID(t.Context()); id != 0 || !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "no such generator: nonsense") {
		t.Errorf("id %d, %v", id, err)
	}
	wrong, unknown, other := good, good, good
	wrong.Password, unknown.TLS, other.TLS = "guess", &tls.Config{},
		&tls.Config{RootCAs: pool, ServerName: "elsewhere.example"}
	plain := Config{DialTimeout: time.Second, Timeout: time.Second}
	for what, config := range map[string]Config{"authentication failure": wrong, "unknown authority": unknown,
		"not elsewhere.example": other, d.Addr(): plain} {
		if id, err := newReal(t, config, d.Addr()).ID(t.Context()); id != 0 || err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: id %d, %v", what, id, err)
		}
	}
}

// TestNothingOutlivesCloseOverTCP counts goroutines and the daemon's connections.
func TestNothingOutlivesCloseOverTCP(t *testing.T) {
	d := startDaemon(t, "-worker-id", "1")
	goroutines, connections := runtime.NumGoroutine(), d.figure("curr_connections")
	for i := range 20 {
		c := newReal(t, Config{Prefetch: 100 * (i % 2), Connections: 1 + i%3}, d.Addr(), "127.0.0.1:1")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for {
					if _, err := c.ID(t.Context()); errors.Is(err, ErrClosed) {
						return
					}
				}
			})
		}
		childprocess.Until(t, "ids come", func() bool { return c.Stats().Received > 1000 })
		c.Close()
		all.Wait()
	}
	childprocess.Until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	childprocess.Until(t, "connections end", func() bool { return d.figure("curr_connections") <= connections })
}

// TestServerThatDoesNotRead: over TCP too, nobody waits for a server that does not read; when it does,
// the requests that were written in part are whole.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := issuer{noIDs: true}
	read := make(chan bool)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(1 << 10)
		line := make([]byte, len("version\r\n"))
		io.ReadFull(c, line)
		io.WriteString(c, "VERSION 1.6.18\r\n")
		<-read
		talk(server.answer)(c)
	}()
	small := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetWriteBuffer(1 << 10)
		}
		return c, err
	}
	c := newReal(t, Config{Dial: small, GetOnly: true, Timeout: time.Hour, DialTimeout: time.Minute}, l.Addr().String())
	g := c.Generator(strings.Repeat("n", 250))
	childprocess.Until(t, "a request is stuck", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if ids, err := g.IDs(ctx, 200); ids != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d ids, error %v", len(ids), err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for k := range c.conns {
			if k.writing {
				return true
			}
		}
		return false
	})
	close(read)
	if ids, err := g.IDs(t.Context(), 500); err != nil || len(ids) != 500 {
		t.Errorf("%d ids, error %v", len(ids), err)
	}
	if s := c.Stats(); s.Failed > 0 {
		t.Errorf("%+v", s)
	}
}

// TestMemcached: a server without ids, whose one value is an id for one caller and a wrong answer for
// two.
func TestMemcached(t *testing.T) {
	t.Parallel()
	path := childprocess.Need(t, "memcached")
	sock := filepath.Join(t.TempDir(), "m")
	daemonrun.Run(t, exec.Command(path, "-u", "root", "-s", sock, "-m", "8", "-t", "1"))
	childprocess.Until(t, "memcached stores", func() bool {
		conn, err := net.Dial("unix", sock)
		if err != nil {
			return false
		}
		defer conn.Close()
		fmt.Fprint(conn, "set id 0 0 3\r\n123\r\nset uuid 0 0 4\r\na-bc\r\n")
		answer := make([]byte, len("STORED\r\nSTORED\r\n"))
		_, err = io.ReadFull(conn, answer)
		return err == nil
	})
	c := newReal(t, Config{}, sock)
	if id := must(t)(c.ID(t.Context())); id != 123 {
		t.Errorf("id %d", id)
	}
	if id, err := c.ID(t.Context()); id != 0 || err == nil || !strings.Contains(err.Error(), "memcached?") {
		t.Errorf("the same number again: %d, %v", id, err)
	}
	for i, want := range []string{"a-bc", ""} {
		if text, err := c.Generator("uuid").Text(t.Context()); (err == nil) != (want != "") || text != want {
			t.Errorf("text %d: %q, %v", i, text, err)
		}
	}
	if ids, err := c.IDs(t.Context(), 2); ids != nil || !errors.Is(err, ErrAnswer) ||
		!strings.Contains(err.Error(), "twice") {
		t.Errorf("%v, %v", ids, err)
	}
	if id, err := c.Generator("nothing").ID(t.Context()); id != 0 || !errors.Is(err, ErrAnswer) {
		t.Errorf("%d, %v", id, err)
	}
	if s := c.Stats(); s.Received != 2 { // 123, a-bc
		t.Errorf("%+v", s)
	}
}

// TestKayac: kayac/go-katsubushi v2 has no ids, and is asked with get.
func TestKayac(t *testing.T) {
	t.Parallel()
	path := os.Getenv("KATSUBUSHI_KAYAC")
	if path == "" {
		t.Skip("KATSUBUSHI_KAYAC names kayac's daemon; make test-migration builds it")
	}
	port := strconv.Itoa(childprocess.FreePort(t))
	addr := net.JoinHostPort("127.0.0.1", port)
	daemonrun.Run(t, exec.Command(path, "-worker-id", "1", "-port", port))
	childprocess.Until(t, "kayac's daemon listens", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	c := newReal(t, Config{}, addr)
	ids, err := c.IDs(t.Context(), 50_000)
	if err != nil || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 50_000 {
		t.Errorf("%d ids, %v", len(ids), err)
	}
	t.Logf("%d ids in %d requests", len(ids), c.Stats().Requests)
}
