package services

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/grpcapi"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// A world is Services that issue rising numbers.
type world struct {
	*Services
	log    *childprocess.Log
	next   atomic.Uint64
	busy   atomic.Int64
	failed chan error
}

// newServices makes Services with the settings that change has changed. They listen nowhere.
func newServices(t testing.TB, change func(*Config, *Given)) *world {
	t.Helper()
	w := &world{log: new(childprocess.Log), failed: make(chan error, 10)}
	batch := func(_ context.Context, _ []byte, n int) ([]id.Run, error) {
		return []id.Run{{First: w.next.Add(uint64(n)) - uint64(n) + 1, N: n, Stride: 1}}, nil
	}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	var connections server.Counters
	c, g := Config{}, Given{
		Log: log, Noise: log, Bind: "127.0.0.1", MaxConnections: 1600, DrainTimeout: patience, Events: new(events.Log),
		HTTP: httpapi.Config{
			Batch: batch, Declared: func([]byte) bool { return false }, Ready: func() error { return nil },
			Page: http.NotFoundHandler(), Metrics: http.NotFoundHandler(),
		},
		GRPC: grpcapi.Config{
			Batch: batch, Ready: func() error { return nil }, Busy: func() { w.busy.Add(1) },
			Limits: server.Config{
				Now: func() int64 { return 1 }, MaxConnections: 1600, Budget: server.NewBudget(0), DrainTimeout: patience,
				Counters: &connections, Log: log,
			},
			Stats: func() *katsubushipb.StatsResponse { return &katsubushipb.StatsResponse{Version: "3.4.5"} },
		},
		Admin: adminapi.Config{Log: log},
	}
	change(&c, &g)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	w.Services = New(c, g)
	return w
}

// start serves until the end of the test.
func (w *world) start(t testing.TB) {
	t.Helper()
	if err := w.Open(&sockets.Binder{Log: w.g.Log}); err != nil {
		t.Fatal(err)
	}
	w.Start(func(err error) { w.failed <- err })
	t.Cleanup(func() {
		w.Drain()
		w.Stop()
		if len(w.failed) > 0 {
			t.Error(<-w.failed)
		}
	})
}

// at returns the address of a port.
func (w *world) at(name string) string {
	for _, a := range w.Addresses() {
		if a.Title == name {
			return a.At.String()
		}
	}
	return ""
}

// fetch asks over HTTP, as a user if there is one.
func fetch(t testing.TB, url, user, password string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	http.DefaultClient.CloseIdleConnections()
	return answer.StatusCode, string(body)
}

// allPorts switches all ports on.
func allPorts(t testing.TB) func(c *Config, g *Given) {
	return func(c *Config, g *Given) {
		c.HTTPPort, c.GRPCPort, c.AdminPort = redistest.FreePort(t), redistest.FreePort(t), redistest.FreePort(t)
		c.EnableStats = true
		g.Login = login
	}
}

// login admits ann, who has all rights, and nobody else.
func login(_ context.Context, _ netip.Addr, c users.Credentials) (*users.Account, error) {
	if string(c.User) == "ann" && string(c.Password) == "secret" {
		return accounts().Account("ann"), nil
	}
	return nil, nil
}

var accounts = sync.OnceValue(func() *users.Directory {
	dir, err := os.MkdirTemp("", "users")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users")
	if err := os.WriteFile(path, []byte("ann:secret\n"), 0o600); err != nil {
		panic(err)
	}
	list, err := users.Load(path)
	if err != nil {
		panic(err)
	}
	d := new(users.Directory)
	d.Replace(list)
	return d
})

// TestSettings plays which settings are valid, and what comes of those that are.
func TestSettings(t *testing.T) {
	config := func(changes []string) (c Config) {
		for _, change := range changes {
			if strings.HasSuffix(change, "=FREE") {
				change = strings.TrimSuffix(change, "FREE") + strconv.Itoa(redistest.FreePort(t))
			}
			if err := script.Set(&c, change); err != nil {
				t.Fatal(change, err)
			}
		}
		return c
	}
	calls := script.Calls{
		"flags": func() string { return strings.Join(Flags(), " ") },
		"valid": func(changes ...string) string {
			c := config(changes)
			return fmt.Sprint(c.Validate())
		},
		"places": func(bind string, changes ...string) string {
			c, list := config(changes), []string(nil)
			for _, p := range c.Places(bind) {
				text := fmt.Sprintf("%s %s %s:%d", p.Flag, p.Title, p.Host, p.Port)
				if p.Local {
					text += ", local"
				}
				list = append(list, text)
			}
			return strings.Join(list, "\n")
		},
		"descriptors": func(beside int, changes ...string) string {
			c := config(changes)
			return fmt.Sprintf("%d, HTTP connections %d", c.Descriptors(beside), c.HTTPConnections(beside))
		},
		"warns": func(encrypted, logins bool, changes ...string) string {
			w := newServices(t, func(c *Config, g *Given) {
				*c, g.Encrypted = config(changes), encrypted
				if logins {
					g.Login = login
				}
			})
			defer w.Stop()
			if err := w.Open(&sockets.Binder{Log: w.g.Log}); err != nil {
				return err.Error()
			}
			return strings.Join(regexp.MustCompile(`WARN msg="[^"]*"`).FindAllString(w.log.String(), -1), "\n")
		},
	}
	script.Run(t, "testdata/settings.txt", func(t *testing.T, play func(script.Do)) {
		play(func(words []string) string { return calls.Do(t, words) })
	})
}

// TestAllAreServed: each on its port, with its counters, its limit and its logins.
func TestAllAreServed(t *testing.T) {
	w := newServices(t, allPorts(t))
	w.start(t)
	url := "http://" + w.at("HTTP")
	for _, c := range []struct {
		url, user, password string
		status              int
		text                string
	}{
		{url + "/ids?n=3", "ann", "secret", 200, "1\n2\n3"},
		{url + "/id", "ann", "wrong", 401, ""}, {url + "/id", "", "", 401, ""},
		{"http://" + w.at("admin") + "/nothing", "ann", "secret", 404, ""},
		{"http://" + w.at("admin") + "/nothing", "ann", "wrong", 401, ""},
		{"http://" + w.at("debug") + "/debug/stats", "", "", 200, "gc"},
		{"http://" + w.at("debug") + "/debug/pprof/cmdline", "", "", 404, ""},
	} {
		if got, text := fetch(t, c.url, c.user, c.password); got != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s as %s: %d %s", c.url, c.user, got, text)
		}
	}
	for what, n := range map[string][2]uint64{
		"ids over HTTP": {w.Requests.IDs.Load(), 3}, "logins": {w.Requests.Logins.Load(), 2},
		"wrong logins":            {w.Requests.LoginErrors.Load(), 1},
		"logins for admins":       {w.Administered.Logins.Load(), 2},
		"wrong logins for admins": {w.Administered.LoginErrors.Load(), 1},
		"the limit over HTTP":     {uint64(w.g.HTTP.MaxConnections), 200},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d, want %d", what, n[0], n[1])
		}
	}
	for _, want := range []string{"http", "grpc", "admin", "debug"} {
		if !strings.Contains(w.log.String(), want+" listening") {
			t.Errorf("the log does not say where %s is: %s", want, w.log)
		}
	}
	off := newServices(t, func(c *Config, g *Given) { c.HTTPPort = redistest.FreePort(t) })
	off.start(t)
	if got, text := fetch(t, "http://"+off.at("HTTP")+"/id", "", ""); got != 200 || text != "1" {
		t.Errorf("without users: %d %s", got, text)
	}
}

// TestGRPC: with the certificate and the users of the daemon; the engine is told of busy calls.
func TestGRPC(t *testing.T) {
	cert, key, pool := selfsigned.Files(t)
	w := newServices(t, func(c *Config, g *Given) {
		c.GRPCPort, g.Login = redistest.FreePort(t), login
		var err error
		if g.GRPC.TLS, err = server.NewTLS(cert, key, ""); err != nil {
			t.Fatal(err)
		}
	})
	w.start(t)
	client := func(creds credentials.TransportCredentials) katsubushipb.GeneratorClient {
		conn, err := grpc.NewClient(w.at("gRPC"), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return katsubushipb.NewGeneratorClient(conn)
	}
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
	}
	ids := client(credentials.NewClientTLSFromCert(pool, ""))
	if one, err := ids.Fetch(as("ann:secret"), nil); err != nil || one.Id != 1 {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := ids.Fetch(as("ann:wrong"), nil); status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	if _, err := client(insecure.NewCredentials()).Fetch(as("ann:secret"), nil); status.Code(err) != codes.Unavailable {
		t.Error("plain text:", err)
	}
	if n := &w.Called; n.Requests.Load() != 1 || n.IDs.Load() != 1 || n.Logins.Load() != 2 || n.LoginErrors.Load() != 1 {
		t.Errorf("%d requests, %d ids, %d logins, %d wrong ones", n.Requests.Load(), n.IDs.Load(), n.Logins.Load(),
			n.LoginErrors.Load())
	}
	w.Called.Requests.Add(1000) // the next sweep sees them
	for began := time.Now(); w.busy.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the engine is not told that the gRPC port is busy")
		}
	}
}

// TestConnectionsOfTheAdminPort: however many connect and say nothing, few are open.
func TestConnectionsOfTheAdminPort(t *testing.T) {
	w := newServices(t, func(c *Config, g *Given) { c.AdminPort, g.Login = redistest.FreePort(t), login })
	w.start(t)
	n, began := &w.Administered, time.Now()
	for n.ConnectionsRefused.Load()+n.ConnectionsEvicted.Load() == 0 {
		c, err := net.Dial("tcp", w.at("admin"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if open := n.Connections.Load(); open > adminConnections+httpapi.Reserve {
			t.Fatalf("%d are open", open)
		}
		if time.Since(began) > patience {
			t.Fatal("all are admitted")
		}
	}
}

// TestAPortThatNobodyAskedFor: the page does without its address if another process has it, and the log says which.
func TestAPortThatNobodyAskedFor(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, taken := range []bool{false, true} {
		w := newServices(t, func(c *Config, _ *Given) {
			c.HTTPPort, c.HTTPBind, c.HTTPByDefault, c.EnableStats = redistest.FreePort(t), "127.0.0.1", true, true
			if taken {
				c.HTTPPort = ln.Addr().(*net.TCPAddr).Port
			}
		})
		w.start(t)
		if status, text := fetch(t, "http://"+w.at("debug")+"/debug/events", "", ""); status != http.StatusOK {
			t.Errorf("the debug port: %d %s", status, text)
		}
		w.Stop() // it waits for the log
		says := fmt.Sprintf(`address=%v taken_by="process %d (services.test)"`, ln.Addr(), os.Getpid())
		if got := w.log.String(); w.Serves("http-port") == taken || strings.Contains(got, says) != taken {
			t.Errorf("taken=%v: served: %v; %s", taken, w.Serves("http-port"), got)
		}
		if n := w.c.HTTPConnections(1600); n != 32 {
			t.Errorf("%d connections", n)
		}
	}
}

// TestHostsOnLoopback: a page of another site, whose name leads to loopback once it is loaded, reads nothing. A port
// that others reach answers by any name.
func TestHostsOnLoopback(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, bind := range []string{"127.0.0.1", "127.0.0.9", "0.0.0.0"} {
		w := newServices(t, func(c *Config, g *Given) {
			allPorts(t)(c, g)
			c.HTTPBind, c.AdminBind, c.HTTPHost = bind, bind, "ids.example, other.example"
		})
		w.start(t)
		for _, port := range []string{"HTTP", "admin", "debug"} {
			for host, known := range map[string]bool{
				"127.0.0.1": true, "10.0.0.9:80": true, "[::1]:8081": true, "[::1]": true, "localhost": true,
				"LocalHost.:8081": true, own: true, strings.ToUpper(own) + ":1": true, "ids.example:80": true,
				"other.example": true, "": true,
				"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false,
				"127.0.0.1.evil.example": false, "ids.example.evil.example": false,
			} {
				known = known || bind == "0.0.0.0" && port != "debug"
				conn, err := net.Dial("tcp", strings.Replace(w.at(port), "0.0.0.0", "127.0.0.1", 1))
				if err != nil {
					t.Fatal(err)
				}
				const request = "GET / HTTP/1.1\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\nHost: "
				fmt.Fprint(conn, request+"localhost\r\n\r\n", request+host+"\r\n\r\n",
					request+host+"\r\nConnection: close\r\n\r\n")
				all, err := io.ReadAll(conn)
				conn.Close()
				answers := strings.Split(string(all), "HTTP/1.1 ")[1:]
				if err != nil || len(answers) != 3 {
					t.Fatalf("%d answers, %v", len(answers), err)
				}
				for i, known := range []bool{true, known, known} {
					refused := strings.HasPrefix(answers[i], "403 ") && strings.Contains(answers[i], "-http-host")
					if refused == known {
						t.Errorf("-bind %s: %s asked for %q (%d): %s", bind, port, host, i, answers[i])
					}
				}
			}
		}
	}
}

// TestAPortInUse: nothing stays open after a start that failed.
func TestAPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w := newServices(t, func(c *Config, g *Given) {
		c.HTTPPort, c.AdminPort, c.AdminBind = redistest.FreePort(t), ln.Addr().(*net.TCPAddr).Port, "127.0.0.1"
	})
	synctest.Test(t, func(*testing.T) { err = w.Open(&sockets.Binder{Log: slog.New(slog.DiscardHandler)}) })
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
	w.Drain()
	w.Stop()
	if again, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", w.c.HTTPPort)); err != nil {
		t.Errorf("the HTTP port is still open: %v", err)
	} else {
		again.Close()
	}
}

// TestTheOrderOfTheEnd: gRPC's clients get what they have asked for, while health checks still find the HTTP port,
// which ends last.
func TestTheOrderOfTheEnd(t *testing.T) {
	w := newServices(t, allPorts(t))
	w.start(t)
	grpcAt, httpAt := w.at("gRPC"), w.at("HTTP")
	open := func(address string) bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	c, err := net.Dial("tcp", grpcAt)
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // it serves: until then the end finds a port that only listens
		c.Close()
	}
	if err != nil || !open(httpAt) {
		t.Error("not open:", err)
	}
	w.Drain()
	if open(grpcAt) || !open(httpAt) {
		t.Errorf("after Drain: gRPC %v, HTTP %v", open(grpcAt), open(httpAt))
	}
	if got, _ := fetch(t, "http://"+httpAt+"/readyz", "", ""); got != 200 {
		t.Errorf("after Drain: %d", got)
	}
	w.Stop()
	w.Stop()
	if open(httpAt) {
		t.Error("after Stop: the HTTP port is open")
	}
}

// TestAServiceThatFails: the daemon is told which one.
func TestAServiceThatFails(t *testing.T) {
	w := newServices(t, func(c *Config, _ *Given) { c.HTTPPort = redistest.FreePort(t) })
	w.start(t)
	w.list[0].ln.Close()
	if err := <-w.failed; !strings.HasPrefix(err.Error(), "http server: ") {
		t.Error(err)
	}
}

// TestASuccessorTakesTheSockets: while the services are paused, connections wait, and if the successor fails the
// services go on. A request that does not end holds nobody up.
func TestASuccessorTakesTheSockets(t *testing.T) {
	slow, over := make(chan bool, 1), make(chan bool)
	w := newServices(t, allPorts(t))
	w.g.HTTP.Ready = func() error {
		select {
		case slow <- true:
			<-over
		default:
		}
		return nil
	}
	w.start(t)
	url := "http://" + w.at("HTTP")
	var passed sockets.Passed
	if err := w.Sockets(&passed); err != nil || len(passed) != 4 {
		t.Fatal(passed, err)
	}
	defer passed.Close()
	first := make(chan int)
	go func() {
		got, _ := fetch(t, url+"/readyz", "", "")
		first <- got
	}()
	for len(slow) == 0 {
		time.Sleep(time.Millisecond)
	}
	w.Pause()
	waiting := make(chan string)
	go func() {
		_, text := fetch(t, url+"/id", "ann", "secret")
		waiting <- text
	}()

	next := newServices(t, func(c *Config, g *Given) { *c, g.Passed, g.Login = w.c, passed, login })
	next.next.Store(100)
	next.start(t)
	if text := <-waiting; text != "101" {
		t.Errorf("who came meanwhile: %s", text)
	}
	next.Drain()
	next.Stop()

	if err := w.Resume(passed, func(err error) { w.failed <- err }); err != nil {
		t.Fatal(err)
	}
	if _, text := fetch(t, url+"/id", "ann", "secret"); text != "1" {
		t.Errorf("after the successor has failed: %s", text)
	}
	close(over)
	if got := <-first; got != 200 {
		t.Errorf("who asked before: %d", got)
	}
	if err := w.Resume(sockets.Passed{{Name: "http-port", FD: -1}}, nil); err == nil {
		t.Error("a socket of nothing is served")
	}
}

// TestFigures: each counter has its own.
func TestFigures(t *testing.T) {
	w := newServices(t, func(*Config, *Given) {})
	w.Requests.Connections.Store(1)
	w.Requests.ConnectionsRefused.Store(2)
	w.Requests.ConnectionsEvicted.Store(3)
	w.Called.Connections.Store(4)
	w.Called.Stalled.Store(5)
	var got []string
	w.Figures(func(f figure.Figure) {
		if f.Stat != "" || f.Help == "" || f.Count != strings.HasSuffix(f.Metric, "_total") {
			t.Errorf("%+v", f)
		}
		got = append(got, fmt.Sprint(f.Metric, " ", f.Value))
	})
	want := []string{"http_connections 1", "http_connections_limit 200", "http_connections_refused_total 2",
		"http_connections_evicted_total 3", "grpc_connections 4", "grpc_connections_stalled_total 5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
