package announce

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// listen serves each connection with a function, and returns the address.
func listen(t *testing.T, ln net.Listener, serve func(in *bufio.Reader, conn net.Conn)) string {
	t.Helper()
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(bufio.NewReader(conn), conn)
			}()
		}
	}()
	return ln.Addr().String()
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// answer serves one text for each line that comes.
func answer(texts ...string) func(*bufio.Reader, net.Conn) {
	return func(in *bufio.Reader, conn net.Conn) {
		for _, text := range texts {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			io.WriteString(conn, text)
		}
		io.Copy(io.Discard, in)
	}
}

const now = 1_795_331_810_700

// patiently asks a peer that answers, on a machine that may be busy.
func patiently(t *testing.T, a *Asker, address string, encrypted bool) (Reply, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return a.ask(ctx, address, encrypted)
}

func asker() *Asker { return &Asker{Now: func() int64 { return now }} }

func TestAnAnswerIsRead(t *testing.T) {
	addr := listen(t, loopback(t), answer(
		"STAT pid 7\r\nSTAT time 1795331817\r\nSTAT lane_0_worker_id 5\r\nSTAT lane_0_state serving\r\nSTAT lane_1_state "+
			"acquiring\r\n"+
			"STAT lane_2_worker_id 9\r\nSTAT lane_2_state draining\r\nSTAT lane_63_worker_id 1\r\nSTAT lane_x_worker_id "+
			"3\r\nSTAT lane_64_worker_id 4\r\nEND\r\n",
		"STAT lease_fingerprint a;b\r\nEND\r\n"))
	r, err := patiently(t, asker(), addr, false)
	if err != nil || r.Ahead != 6800*time.Millisecond || !slices.Equal(r.Workers, []uint64{5, 1}) ||
		r.Fingerprint != "a;b" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWhatAPeerSaysOfItself: each fact is read from its own statistic, and one that cannot be true, or be shown as it
// is, counts as not said.
func TestWhatAPeerSaysOfItself(t *testing.T) {
	ask := func(general, settings string) Reply {
		t.Helper()
		addr := listen(t, loopback(t), answer("STAT time 1795331810\r\n"+general+"END\r\n", settings+"END\r\n"))
		r, err := patiently(t, asker(), addr, false)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := ask("STAT version 3.4.5\r\nSTAT ready 1\r\nSTAT uptime 71\r\nSTAT lane_0_window_left_ms 9000\r\n"+
		"STAT lane_1_window_left_ms 8000\r\nSTAT leader_groups 3\r\n",
		"STAT http_port 8081\r\nSTAT http_bind NULL\r\n")
	if r.Version != "3.4.5" || r.Ready == nil || !*r.Ready || r.Up != 71*time.Second || r.Left == nil ||
		*r.Left != 8*time.Second || r.Groups == nil || *r.Groups != 3 || r.HTTPPort != 8081 ||
		r.HTTPBind != "NULL" {
		t.Errorf("%+v", r)
	}
	if r := ask("STAT ready 0\r\nSTAT lane_0_window_left_ms -500\r\nSTAT leader_groups 0\r\n", ""); r.Ready == nil ||
		*r.Ready || r.Left == nil || *r.Left != -500*time.Millisecond || r.Groups == nil || *r.Groups != 0 {
		t.Errorf("of one in trouble: %+v", r)
	}
	long, none := strings.Repeat("9", 65), Reply{Ahead: ask("", "").Ahead}
	for _, lie := range []string{"", "-1", long, "\x1b[31m", "3.4.5\u202e", "<b>", " ", "NaN"} {
		general := ""
		for _, name := range []string{"ready", "uptime", "lane_0_window_left_ms", "leader_groups"} {
			general += "STAT " + name + " " + lie + "\r\n"
		}
		settings := "STAT http_port " + lie + "\r\nSTAT http_bind " + lie + "\r\n"
		r := ask(general+"STAT version "+lie+"\r\n", settings)
		for _, s := range []string{r.Version, r.HTTPBind} {
			if s != "" && (s != lie || len(s) > maxWord || strings.ContainsAny(s, "\x1b\u202e ")) {
				t.Errorf("%q made %q", lie, s)
			}
		}
		if lie == "-1" {
			r.Left = nil // a window can be over
		}
		if r.Version, r.HTTPBind = "", ""; !reflect.DeepEqual(r, none) {
			t.Errorf("%q made %+v", lie, r)
		}
	}
}

// TestTheClockIsComparedWithTheMiddleOfTheCall: an answer that takes long is not an early clock.
func TestTheClockIsComparedWithTheMiddleOfTheCall(t *testing.T) {
	addr := listen(t, loopback(t), answer("STAT time 1000\r\nEND\r\n", "END\r\n"))
	var clock atomic.Int64
	clock.Store(998_000)
	a := &Asker{Now: func() int64 { return clock.Add(1000) }} // sent at 999 s, answered at 1000 s
	if r, err := patiently(t, a, addr, false); err != nil || r.Ahead != time.Second {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestHostilePeers: whatever a peer does, asking it ends within its time, and the answer is used as a
// whole or not at all.
func TestHostilePeers(t *testing.T) {
	const good = "STAT time 1795331817\r\nEND\r\n"
	repeat := func(text string, pause time.Duration) func(*bufio.Reader, net.Conn) {
		return func(_ *bufio.Reader, conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, text); err != nil {
					return
				}
				time.Sleep(pause) // a slow peer, not a wait of the test's
			}
		}
	}
	for _, c := range []struct {
		name  string
		serve func(*bufio.Reader, net.Conn)
		want  error // nil = any, at the end of its time at the latest
	}{
		{"a clock that is no number", answer("STAT time NaN\r\nEND\r\n", "END\r\n"), errNoTime},
		{"an infinite clock", answer("STAT time +Inf\r\nEND\r\n", "END\r\n"), errNoTime},
		{"a negative clock", answer("STAT time -1\r\nEND\r\n", "END\r\n"), errNoTime},
		{"a clock beyond all years", answer("STAT time 253402300800\r\nEND\r\n", "END\r\n"), errNoTime},
		{"a clock of twenty digits", answer("STAT time 99999999999999999999\r\nEND\r\n", "END\r\n"), errNoTime},
		{"no clock", answer("STAT pid 7\r\nEND\r\n", "END\r\n"), errNoTime},
		{"HTTP", answer("HTTP/1.1 400 Bad Request\r\n\r\n"), errNotStats},
		{"a full server", answer("ERROR Too many open connections\r\n"), errNotStats},
		{"Redis", answer("-ERR unknown command\r\n"), errNotStats},
		{"a line that is too long", answer("STAT x " + strings.Repeat("x", maxLine) + "\r\nEND\r\n"), errTooLong},
		{"a line without an end", repeat(strings.Repeat("x", 100_000), 0), errTooLong},
		{"lines without an end", repeat(strings.Repeat("STAT lane_0_x 7\r\n", 1000), 0), nil},
		{"slow bytes", repeat("S", 20*time.Millisecond), nil},
		{"slow lines", repeat("STAT x 7\r\n", 20*time.Millisecond), nil},
		{"silence", func(in *bufio.Reader, _ net.Conn) { io.Copy(io.Discard, in) }, nil},
		{"half an answer", answer(good), nil},
		{"a closed connection", func(*bufio.Reader, net.Conn) {}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, loopback(t), c.serve)
			var r Reply
			var err error
			if c.want == nil {
				r, err = asker().Ask(t.Context(), addr, false)
			} else {
				r, err = patiently(t, asker(), addr, false)
			}
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%+v, %v", r, err)
			}
			if r.Ahead != 0 || r.Workers != nil || r.Fingerprint != "" {
				t.Errorf("%+v was used", r)
			}
		})
	}
	far := listen(t, loopback(t), answer("STAT time 253402300799\r\nEND\r\n", "END\r\n"))
	if r, err := patiently(t, asker(), far, false); err != nil || r.Ahead != century*time.Millisecond {
		t.Errorf("of the year 9999: %+v, %v", r, err)
	}
}

// loginServer wants a login before it answers, and counts passwords that it was sent.
func loginServer(passwords *atomic.Int64) func(*bufio.Reader, net.Conn) {
	return func(in *bufio.Reader, conn net.Conn) {
		for known := false; ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			switch {
			case strings.HasPrefix(line, "set login 0 0 10\r\n"):
				passwords.Add(1)
				line, _ = in.ReadString('\n')
				if known = line == "ann secret\r\n"; known {
					io.WriteString(conn, "STORED\r\n")
				} else {
					io.WriteString(conn, "CLIENT_ERROR authentication failure\r\n")
				}
			case !known:
				io.WriteString(conn, "CLIENT_ERROR unauthenticated\r\n")
			default:
				fmt.Fprintf(conn, "STAT time %d\r\nEND\r\n", now/1000)
			}
		}
	}
}

func TestPeersThatWantALogin(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert")
	if _, err := selfsigned.Write(cert, cert+".key", 1); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, cert+".key")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(cert)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	var passwords atomic.Int64
	plain := listen(t, loopback(t), loginServer(&passwords))
	encrypted := listen(t, tls.NewListener(loopback(t), &tls.Config{Certificates: []tls.Certificate{pair}}),
		loginServer(&passwords))

	login := func(password string) func() (string, string, error) {
		return func() (string, string, error) { return "ann", password, nil }
	}
	trust := func() (*tls.Config, error) { return &tls.Config{RootCAs: roots}, nil }
	distrust := func() (*tls.Config, error) { return &tls.Config{RootCAs: x509.NewCertPool()}, nil }
	errFile := errors.New("no file")
	for _, c := range []struct {
		name   string
		a      Asker
		tls    bool
		says   string // in the error; empty = none
		logins int64
	}{
		{"without a login", Asker{}, false, errNoLogin.Error(), 0},
		{"with one", Asker{Login: login("secret")}, false, "", 1},
		{"with a wrong one", Asker{Login: login("wrong!")}, false, "user ann: \"CLIENT_ERROR authentication failure\"", 1},
		{"with a password that cannot be read", Asker{Login: func() (string, string, error) {
			return "", "", errFile
		}}, false, errFile.Error(), 0},
		{"encrypted", Asker{Login: login("secret"), Secret: true, TLS: trust}, true, "", 1},
		{"not encrypted, where this daemon is", Asker{Login: login("secret"), Secret: true, TLS: trust}, false,
			errPlain.Error(), 0},
		{"encrypted by a stranger", Asker{Login: login("secret"), TLS: distrust}, true, "certificate", 0},
		{"encrypted, and told that it is not", Asker{Login: login("secret")}, false, "", 1},
	} {
		addr := plain
		if c.tls {
			addr = encrypted
		}
		c.a.Now = func() int64 { return now }
		passwords.Store(0)
		r, err := patiently(t, &c.a, addr, c.tls)
		if err == nil && (c.says != "" || r.Ahead != -200*time.Millisecond) || err != nil &&
			(c.says == "" || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if trouble := Trouble(err); err != nil && (trouble == "no answer" || strings.Contains(trouble, "ann")) {
			t.Errorf("%s: %q", c.name, trouble)
		}
		if n := passwords.Load(); n != c.logins {
			t.Errorf("%s: %d passwords were sent", c.name, n)
		}
	}
}

// TestAPeerThatCannotBeReached: it is an error, and soon.
func TestAPeerThatCannotBeReached(t *testing.T) {
	ln := loopback(t)
	addr := ln.Addr().String()
	ln.Close()
	if r, err := asker().Ask(t.Context(), addr, false); err == nil {
		t.Errorf("%+v", r)
	}
}

// lines has no end.
type lines struct{ read int }

func (l *lines) Read(b []byte) (int, error) {
	n := 0
	for line := "STAT lane_0_x 7\n"; len(b)-n >= len(line); n += copy(b[n:], line) {
	}
	if l.read += n; l.read > 10*maxAnswer {
		panic("it reads on and on")
	}
	return n, nil
}

// TestAnAnswerHasALimit, apart from its time.
func TestAnAnswerHasALimit(t *testing.T) {
	if r, err := readStats(input(new(lines))); err == nil {
		t.Errorf("%v", r)
	}
}

// TestTheLongestLine: one of exactly maxLine bytes is read, and none that is longer.
func TestTheLongestLine(t *testing.T) {
	for length, want := range map[int]error{maxLine - 1: nil, maxLine: nil, maxLine + 1: errTooLong} {
		line, err := readLine(input(strings.NewReader(strings.Repeat("x", length-2) + "\r\nEND\r\n")))
		if err != want || err == nil && len(line) != length-2 {
			t.Errorf("%d bytes: %d read, %v", length, len(line), err)
		}
	}
}

// ends is a connection of which only the ends count.
type ends struct {
	net.Conn
	from, to string
}

func (e ends) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.ParseIP(e.from), Port: 40000} }
func (e ends) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(e.to), Port: 11212} }

// TestWhereThePasswordMayGo: an address that anybody may have written into the store does not get it in clear.
func TestWhereThePasswordMayGo(t *testing.T) {
	for _, c := range []struct {
		from, to                string
		secret, near, tls, want bool
	}{
		{"10.0.0.1", "10.0.0.2", false, true, false, false},
		{"10.0.0.1", "10.0.0.2", false, true, true, true},
		{"10.0.0.1", "10.0.0.1", false, true, false, true},
		{"127.0.0.1", "127.0.0.1", false, true, false, true},
		{"::1", "::1", false, true, false, true},
		{"2001:db8::1", "2001:db8::2", false, true, false, false},
		{"10.0.0.1", "10.0.0.2", false, false, false, true}, // the check of the peers
		{"10.0.0.1", "10.0.0.1", true, true, false, false},
		{"10.0.0.1", "10.0.0.2", true, false, true, true},
	} {
		a := Asker{Secret: c.secret, Near: c.near}
		if got := a.safe(ends{from: c.from, to: c.to}, c.tls); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestTroubleInWords(t *testing.T) {
	for err, want := range map[error]string{
		errNoLogin: "wants a login", errPlain: "wants a login", errNoPassword: "wants a login",
		errRefused: "login refused", errNoTime: "strange answer", io.EOF: "no answer",
	} {
		if got := Trouble(fmt.Errorf("of a peer: %w", err)); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
