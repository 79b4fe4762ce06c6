package announce

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
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

// TestAnswersAreRead: each fact is read from its own statistic, and one that cannot be true, or be shown as it is,
// counts as not said. "general" and "settings" are what is answered to both questions, "raw" to the first.
func TestAnswersAreRead(t *testing.T) {
	stats := func(facts []string) (text string, err error) {
		for _, fact := range facts {
			fact, wrong := strconv.Unquote(`"` + fact + `"`)
			text, err = text+"STAT "+fact+"\r\n", errors.Join(err, wrong)
		}
		return text + "END\r\n", err
	}
	script.Run(t, "testdata/answers.txt", func(t *testing.T, play func(script.Do)) {
		general := ""
		read := func(texts ...string) (string, error) {
			r, err := patiently(t, asker(), listen(t, loopback(t), answer(texts...)), false)
			fields, wrong := json.Marshal(r)
			return string(fields), errors.Join(err, wrong)
		}
		calls := script.Calls{
			"general": func(facts ...string) (err error) {
				general, err = stats(facts)
				return err
			},
			"settings": func(facts ...string) (string, error) {
				settings, err := stats(facts)
				if err != nil {
					return "", err
				}
				return read(general, settings)
			},
			"raw": func(line string) (string, error) { return read(line + "\r\n") },
		}
		play(func(words []string) string { return calls.Do(t, words) })
	})
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
