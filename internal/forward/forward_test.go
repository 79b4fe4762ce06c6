package forward_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

var bg = context.Background()

// start runs a daemon with the sequences orders (1, 2, 3), odd (1, 3, 5) and short (1 to 3), and
// returns its address.
func start(t *testing.T, change func(*daemon.Config)) string {
	t.Helper()
	dir := t.TempDir()
	c := daemon.Config{
		Version: "3.4.5", Log: slog.New(slog.DiscardHandler),
		Windows: daemon.Windows{WorkerIDs: []uint64{1}, Layout: generator.Katsubushi(), MaxRunAhead: time.Second,
			AnyDisk: true},
		Front: daemon.Front{Bind: "127.0.0.1", Engine: "net", Loops: 1, MaxConnections: 1000, DrainTimeout: patience},
		Names: daemon.Names{
			MaxWait: patience, Definitions: "orders sequence; odd sequence step=2; short sequence max=3",
			Counters: stores.Counters{URL: "file://" + dir, AnyDisk: true},
		},
	}
	if change != nil {
		change(&c)
	}
	d, err := daemon.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-d.Serving():
		return d.Addr().String()
	case err := <-ended:
		ended <- err
		t.Fatal("the daemon ended: ", err)
	case <-time.After(patience):
		t.Fatal("the daemon does not serve")
	}
	return ""
}

func client(t *testing.T, c forward.Config) *forward.Client {
	if c.Timeout == 0 {
		c.Timeout = patience
	}
	f := forward.New(c)
	t.Cleanup(f.Close)
	return f
}

// Each caller gets values of its own, though all of them use one connection.
func TestValues(t *testing.T) {
	t.Parallel()
	proxy := relay(t, start(t, nil))
	f := client(t, forward.Config{})
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for i := range 8 {
		name, step := "orders", uint64(1)
		if i%2 == 1 {
			name, step = "odd", 2
		}
		wg.Go(func() {
			for n := 1; n <= 20; n++ {
				last, err := f.Last(bg, proxy.Addr().String(), name, n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for v := range uint64(n) {
					value := (last - v*step) * 10
					if step == 2 {
						value++
						if last%2 != 1 {
							t.Errorf("%d is no value of %s", last, name)
						}
					}
					if seen[value] {
						t.Errorf("%s: %d came twice", name, value/10)
					}
					seen[value] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if got, want := f.Figures(), (forward.Figures{Sent: 160, Values: 8 * 210}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := proxy.accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A refusal is told as it is, and leaves the connection and the requests beside it alone.
func TestRefusals(t *testing.T) {
	t.Parallel()
	proxy := relay(t, start(t, nil))
	f := client(t, forward.Config{})
	for _, c := range []struct {
		name, says string
	}{
		{"short", ""}, {"short", "FINAL sequence short ends at 3: fewer than 2 values are left"},
		{"nothing", "ERR no such generator"}, {"orders", ""},
	} {
		_, err := f.Last(bg, proxy.Addr().String(), c.name, 2)
		var refusal forward.Refusal
		if c.says == "" && err != nil || c.says != "" &&
			(!errors.As(err, &refusal) || refusal.Error() != c.says || refusal.Final() != (c.name == "short")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if n := proxy.accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if got, want := f.Figures(), (forward.Figures{Sent: 4, Failed: 2, Values: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// When one request runs out of time, all on its connection fail, and the answers that come afterwards
// reach nobody: the next request gets its own.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	address := start(t, nil)
	proxy := redistest.NewProxy(t, address)
	f := client(t, forward.Config{})
	first, err := f.Last(bg, proxy.Addr(), "orders", 1)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Answers(redistest.Hold)
	ctx, runOut := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := f.Last(bg, proxy.Addr(), "orders", 10); err == nil ||
				!strings.Contains(err.Error(), "ran out of time") {
				t.Errorf("beside it: %v", err)
			}
		})
	}
	wg.Go(func() {
		if _, err := f.Last(ctx, proxy.Addr(), "orders", 10); err == nil {
			t.Error("it got values without an answer")
		}
	})
	// The daemon has issued for all four, so that their answers are on the way.
	direct := client(t, forward.Config{})
	deadline := time.Now().Add(patience)
	for asked := uint64(1); ; asked++ {
		last, err := direct.Last(bg, address, "orders", 1)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(last, err)
		}
		if last >= first+40+asked {
			break
		}
		time.Sleep(time.Millisecond)
	}
	runOut()
	wg.Wait()
	proxy.Answers(redistest.Pass)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		last, err := f.Last(bg, proxy.Addr(), "orders", 5)
		if err != nil && time.Now().Before(deadline) {
			continue // not before the pause is over
		}
		if err != nil || last <= first+45 {
			t.Errorf("%d, %v: a value of an earlier request", last, err)
		}
		break
	}
	if got := f.Figures(); got.Failed < 4 || got.Values != 6 {
		t.Errorf("%+v", got)
	}
}

// A daemon that has gone and come back is asked again.
func TestReconnect(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, start(t, nil))
	f := client(t, forward.Config{})
	until := func(what string, is func(err error) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			_, err := f.Last(bg, proxy.Addr(), "orders", 1)
			if is(err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(what, err)
			}
		}
	}
	works := func(err error) bool { return err == nil }
	until("it does not answer: ", works)
	if err := f.Ping(bg, proxy.Addr()); err != nil {
		t.Error(err)
	}
	proxy.Refuse(true)
	proxy.Cut()
	until("it answers: ", func(err error) bool { return err != nil })
	if err := f.Ping(bg, proxy.Addr()); err == nil {
		t.Error("a ping was answered by nobody")
	}
	proxy.Refuse(false)
	until("it does not answer again: ", works)
}

// A ping that is given up leaves the connection to those who still wait for values. Without them it ends.
func TestAPingEndsNothing(t *testing.T) {
	t.Parallel()
	f := client(t, forward.Config{})
	asked, answers := make(chan string, 10), make(chan string, 1)
	ln := listen(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			switch word := strings.TrimSpace(line); word {
			case "PING":
				asked <- word
			case "INCRBY":
				asked <- word
				go func() { io.WriteString(c, <-answers) }()
			}
		}
	})
	got := make(chan error, 1)
	go func() {
		last, err := f.Last(bg, ln.Addr().String(), "orders", 1)
		if err == nil && last != 7 {
			err = fmt.Errorf("%d", last)
		}
		got <- err
	}()
	<-asked
	ping := func() {
		ctx, cancel := context.WithCancel(bg)
		go func() {
			<-asked
			cancel()
		}()
		if err := f.Ping(ctx, ln.Addr().String()); err == nil {
			t.Error("nobody has answered")
		}
	}
	ping()
	answers <- ":7\r\n+PONG\r\n"
	if err := <-got; err != nil {
		t.Error(err)
	}
	ping()
	go f.Ping(bg, ln.Addr().String())
	<-asked
	if n := ln.accepted(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// The pause keeps requests from making a connection each.
func TestPause(t *testing.T) {
	t.Parallel()
	ln := listen(t, func(net.Conn) {})
	f := client(t, forward.Config{})
	for tried := 0; tried < 20 || tried < 10*ln.accepted(); tried++ {
		if _, err := f.Last(bg, ln.Addr().String(), "orders", 1); err == nil {
			t.Fatal("a value of nobody")
		}
		if n := ln.accepted(); n > 100 { // pauses of 160 ms by then: no machine is so slow for so long
			t.Fatalf("%d connections for %d requests", n, tried+1)
		}
	}
}

// After Close nothing is outstanding, and nothing is begun.
func TestClose(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	ln := listen(t, func(c net.Conn) {
		bufio.NewReader(c).ReadString('\n')
		asked <- struct{}{}
		io.Copy(io.Discard, c)
	})
	f := forward.New(forward.Config{Timeout: patience})
	failed := make(chan error)
	go func() {
		_, err := f.Last(bg, ln.Addr().String(), "orders", 1)
		failed <- err
	}()
	<-asked
	f.Close()
	if err := <-failed; err == nil {
		t.Error("a value of nobody")
	}
	if _, err := f.Last(bg, ln.Addr().String(), "orders", 1); err == nil {
		t.Error("a value of nobody")
	}
	if n := ln.accepted(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// What no katsubushi answers ends the connection, and is no value.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		":0\r\n", ":-1\r\n", ":9223372036854775808\r\n", ":007\r\n", ": 7\r\n", ":7\n", ":\r\n", "+OK\r\n", "$1\r\n7\r\n",
		"*1\r\n:7\r\n", "\r\n", "7\r\n", "HTTP/1.1 400 Bad Request\r\n",
		":" + strings.Repeat("1", 2000), "-" + strings.Repeat("x", 2000) + "\r\n",
	} {
		f := client(t, forward.Config{})
		ended := make(chan struct{})
		ln := listen(t, func(c net.Conn) {
			says(answer)(c)
			close(ended)
		})
		last, err := f.Last(bg, ln.Addr().String(), "orders", 1)
		if err == nil || last != 0 || errors.As(err, new(forward.Refusal)) {
			t.Errorf("%.20q: %d, %v", answer, last, err)
		}
		<-ended
	}
	f := client(t, forward.Config{})
	ln := listen(t, says(":7\r\n", "PING"))
	if err := f.Ping(bg, ln.Addr().String()); err == nil {
		t.Error("a number is no answer to a ping")
	}
	ln = listen(t, says("-NOAUTH who are you?\r\n", "PING"))
	if err := f.Ping(bg, ln.Addr().String()); err != nil {
		t.Error(err)
	}
	ln = listen(t, says(":9223372036854775807\r\n:8\r\n", "orders"))
	// before anybody has asked for the other
	if last, err := f.Last(bg, ln.Addr().String(), "orders", 1); last != math.MaxInt64 {
		t.Error(last, err)
	}
}

// says answers the first line of a connection, whatever it is: nobody may be told anything before it has asked. Or it
// answers the first line with a word: before that comes the greeting, which may come alone.
func says(answer string, word ...string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		for err == nil && !strings.Contains(line, strings.Join(word, "")) {
			line, err = r.ReadString('\n')
		}
		io.WriteString(c, answer)
		io.Copy(io.Discard, r)
	}
}

// A listener serves each connection, and closes it.
type listener struct {
	net.Listener
	mu sync.Mutex
	n  int
}

func (l *listener) accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func listen(t *testing.T, serve func(net.Conn)) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Listener: ln}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.n++
			l.mu.Unlock()
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l
}

// relay counts the connections to a server.
func relay(t *testing.T, address string) *listener {
	return listen(t, func(c net.Conn) {
		to, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		defer to.Close()
		go func() {
			io.Copy(c, to)
			c.Close()
		}()
		io.Copy(to, c)
	})
}

// A login, and encryption with certificates on both sides.
func TestLoginAndTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := selfsigned.Files(t)
	users := tempfile.Write(t, "users", "fleet:secret\n")
	address := start(t, func(c *daemon.Config) {
		c.TLSCert, c.TLSKey, c.TLSClientCA, c.AuthFile = cert, key, cert, users
	})
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	says := func(password string) func() (string, error) {
		return func() (string, error) { return password, nil }
	}
	encrypted := func(roots *x509.CertPool, own ...tls.Certificate) func() (*tls.Config, error) {
		return func() (*tls.Config, error) { return &tls.Config{RootCAs: roots, Certificates: own}, nil }
	}
	for _, c := range []struct {
		what   string
		config forward.Config
		says   string // empty = it works
	}{
		{"right", forward.Config{User: "fleet", Password: says("secret"), TLS: encrypted(pool, pair)}, ""},
		{"wrong password", forward.Config{User: "fleet", Password: says("hush"), TLS: encrypted(pool, pair)},
			"user fleet: WRONGPASS"},
		{"no password", forward.Config{User: "fleet", Password: func() (string, error) {
			return "", os.ErrNotExist
		}, TLS: encrypted(pool, pair)}, os.ErrNotExist.Error()},
		{"no user", forward.Config{TLS: encrypted(pool, pair)}, "NOAUTH"},
		{"no certificate", forward.Config{User: "fleet", Password: says("secret"), TLS: encrypted(pool)},
			"certificate required"},
		{"another authority",
			forward.Config{User: "fleet", Password: says("secret"), TLS: encrypted(x509.NewCertPool(), pair)},
			"unknown authority"},
		{"not encrypted", forward.Config{User: "fleet", Password: says("secret")}, ""},
	} {
		last, err := client(t, c.config).Last(bg, address, "orders", 3)
		switch {
		case c.what == "not encrypted":
			if err == nil {
				t.Error("it was answered without TLS")
			}
		case (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the password is in %v", c.what, err)
		case err == nil && last != 3:
			t.Errorf("%s: %d", c.what, last)
		}
	}
	nobody := client(t, forward.Config{TLS: encrypted(pool, pair)})
	for range 3 { // the refused greeting ends nothing
		if _, err := nobody.Last(bg, address, "orders", 1); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
			t.Error(err)
		}
	}
}
