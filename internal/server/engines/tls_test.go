package engines

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/std"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// newTLS returns what encrypts a port, and who has signed its certificate.
func newTLS(t *testing.T) (roots *x509.CertPool, enc *server.TLS) {
	t.Helper()
	cert, key, roots := selfsigned.Files(t)
	enc, err := server.NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	return roots, enc
}

// renew writes another certificate, and returns who trusts it.
func renew(t *testing.T, cert, key string, serial int64) (roots *x509.CertPool) {
	t.Helper()
	roots, err := selfsigned.Write(cert, key, serial)
	if err != nil {
		t.Fatal(err)
	}
	return roots
}

// startTLS starts the portable engine with an encrypted port.
func startTLS(t *testing.T, enc *server.TLS, handshake time.Duration) *rig {
	m := candidate{"net", func(c server.Config) server.Engine {
		e := std.New(c)
		e.Handshake = handshake
		return e
	}, nil}
	return startPorts(t, m, nil, func(r *rig) []server.Port { return []server.Port{r.portTLS(enc, 2)} })
}

// portTLS opens an encrypted port for lineSessions.
func (r *rig) portTLS(enc *server.TLS, loops int) server.Port {
	p := r.port(place{"tcp", loops})
	p.TLS = enc
	return p
}

// dialTLSOr connects to a port, with TLS if it is the first.
func (r *rig) dialTLSOr(t *testing.T, roots *x509.CertPool, port int) *client {
	t.Helper()
	if port > 0 {
		return r.dialPort(port)
	}
	c, err := r.dialTLS(&tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) dialTLS(c *tls.Config) (*client, error) {
	r.t.Helper()
	c.ServerName = "localhost"
	conn, err := tls.Dial(r.network, r.address, c)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { conn.Close() })
	return &client{conn, r.t, bufio.NewReader(conn)}, nil
}

func TestTLS(t *testing.T) {
	roots, enc := newTLS(t)
	r := startTLS(t, enc, patience)
	c := r.dialTLSOr(t, roots, 0)
	c.say("echo 1\r\nbig 5000000\r\necho %s\r\n", strings.Repeat("x", 100_000))
	c.expect("1\r\n")
	c.expectBig(5_000_000)
	c.expect(strings.Repeat("x", 100_000) + "\r\n")
	c.say("close\r\n")
	c.expect("bye\r\n")
	c.expectEOF()
	c.Close()

	half := r.dialTLSOr(t, roots, 0)
	half.say("echo 2\r\n")
	half.Conn.(*tls.Conn).CloseWrite()
	half.expect("2\r\n")
	half.expectEOF()
}

// Clients that support nothing newer than TLS 1.1 are refused (RFC 8996), and 1.2 is accepted.
func TestTLSVersions(t *testing.T) {
	roots, enc := newTLS(t)
	r := startTLS(t, enc, patience)
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		c, err := r.dialTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if version < tls.VersionTLS12 {
			if err == nil || !strings.Contains(err.Error(), "protocol version") {
				t.Errorf("%s: error %v, want one of the protocol version", tls.VersionName(version), err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", tls.VersionName(version), err)
		}
		if got := c.Conn.(*tls.Conn).ConnectionState().Version; got != version {
			t.Errorf("%s is spoken, want %s", tls.VersionName(got), tls.VersionName(version))
		}
		c.echo(1)
		c.Close()
	}
}

func TestTLSClientCertificates(t *testing.T) {
	cert, key, roots := selfsigned.Files(t)
	own, ownKey, _ := selfsigned.Files(t)
	strange, strangeKey, _ := selfsigned.Files(t)
	enc, err := server.NewTLS(cert, key, own)
	if err != nil {
		t.Fatal(err)
	}
	r := startTLS(t, enc, patience)
	client := func(certFile, keyFile string) *tls.Config {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair},
			ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	}
	try := func(config *tls.Config) error {
		c, err := r.dialTLS(config)
		if err != nil {
			return err
		}
		fmt.Fprint(c, "echo 1\r\n")
		_, err = io.ReadFull(c, make([]byte, 3)) // with TLS 1.3 the client finds out here
		return err
	}
	good := client(own, ownKey)
	if err := try(good); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	if try(&tls.Config{RootCAs: roots}) == nil || try(client(strange, strangeKey)) == nil {
		t.Error("a client without a certificate, or with a stranger's, was let in")
	}

	// A session from before a reload lets nobody in after it.
	if err := os.Rename(strange, own); err != nil {
		t.Fatal(err)
	}
	if err := enc.Reload(); err != nil {
		t.Fatal(err)
	}
	if try(good) == nil {
		t.Error("a client of the authority that was replaced was let in by its old session")
	}
}

func TestTLSReload(t *testing.T) {
	cert, key, roots := selfsigned.Files(t)
	enc, err := server.NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	r := startTLS(t, enc, patience)
	serial := func() (*client, int64) {
		t.Helper()
		c := r.dialTLSOr(t, roots, 0)
		return c, c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	old, n := serial()
	if n != 1 {
		t.Fatalf("serial %d", n)
	}
	other, _, _ := selfsigned.Files(t)
	good, err1 := os.ReadFile(cert)
	strange, err2 := os.ReadFile(other)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string]string{"empty": "", "half": string(good[:len(good)/2]),
		"not for this key": string(strange)} {
		tempfile.Write(t, cert, bad)
		if err := enc.Reload(); err == nil || !strings.Contains(err.Error(), cert) {
			t.Errorf("%s certificate: error %v, want one that names the file", what, err)
		}
	}
	if c, n := serial(); n != 1 {
		t.Errorf("serial %d after failed reloads, want 1", n)
	} else {
		c.Close()
	}
	roots = renew(t, cert, key, 2)
	if err := enc.Reload(); err != nil {
		t.Fatal(err)
	}
	c, n := serial()
	if n != 2 {
		t.Errorf("serial %d after a reload, want 2", n)
	}
	if from, until := enc.Valid(); time.Since(from) < 0 || time.Until(until) <= 0 || time.Until(until) > 24*time.Hour {
		t.Errorf("the certificate is valid from %v until %v", from, until)
	}
	for _, c := range []*client{old, c} {
		c.echo(1)
		c.Close()
	}
}

func TestTLSRefusesBadFiles(t *testing.T) {
	cert, key, _ := selfsigned.Files(t)
	nothing := t.TempDir() + "/nothing"
	for _, files := range [][3]string{{"", key, ""}, {cert, cert, ""}, {cert, nothing, ""},
		{cert, key, nothing}, {cert, key, key}} {
		if _, err := server.NewTLS(files[0], files[1], files[2]); err == nil {
			t.Errorf("%q: no error", files)
		}
	}
}

// serialOf returns the serial number of the certificate that clients get.
func serialOf(t *testing.T, enc *server.TLS) int64 {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	go enc.Server(far).Handshake()
	c := tls.Client(near, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// A key file that others can read is refused. At a reload, the current key stays.
func TestTLSRefusesAKeyThatOthersCanRead(t *testing.T) {
	cert, key, _ := selfsigned.Files(t)
	enc, err := server.NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	in := func() int64 { return serialOf(t, enc) }
	renew(t, cert, key, 2)
	if err := os.Chmod(key, 0o644); err != nil { // a certificate is for everybody
		t.Fatal(err)
	}
	if err := enc.Reload(); err == nil || !strings.HasPrefix(err.Error(), key+": mode 0644") {
		t.Errorf("reload: %v", err)
	}
	if n := in(); n != 1 {
		t.Errorf("certificate %d after a refused reload", n)
	}
	if _, err := server.NewTLS(cert, key, ""); len(problem.Of(err)) != 1 || problem.Of(err)[0].Field != "Key" {
		t.Errorf("start: %v", err)
	}
	os.Chmod(key, 0o600)
	if err := enc.Reload(); err != nil || in() != 2 {
		t.Errorf("readable by its owner only: certificate %d, %v", in(), err)
	}
}

// A client that connects and says nothing, or something that is not TLS, is closed and delays
// nobody.
func TestTLSHandshakeTimeout(t *testing.T) {
	roots, enc := newTLS(t)
	patiently(t, 200*time.Millisecond, func(timeout time.Duration) error {
		r := startTLS(t, enc, timeout)
		var silent []*client
		for range 20 {
			silent = append(silent, r.dial())
		}
		plain := r.dial()
		plain.say("get id\r\n")
		io.Copy(io.Discard, plain)
		plain.Close()
		if r.counters.HandshakeErrors.Load() == 0 {
			t.Error("the handshake that failed is not counted")
		}
		c, err := r.dialTLS(&tls.Config{RootCAs: roots})
		if err == nil {
			err = c.echoes("1") // with TLS 1.3 the client finds out here
		}
		for _, s := range silent {
			s.expectEOF()
			s.Close()
		}
		if err != nil {
			return err // its own handshake may have taken too long
		}
		return c.echoes("2")
	})
}

// echoes asks for an echo.
func (c *client) echoes(text string) error {
	got := make([]byte, len(text+"\r\n"))
	fmt.Fprintf(c, "echo %s\r\n", text)
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != text+"\r\n" {
		return fmt.Errorf("got %q (%w)", got[:n], err)
	}
	return nil
}

// A tattler is an encrypted connection that counts failed writes.
type tattler struct {
	*tls.Conn
	failed *atomic.Int64
}

func (c tattler) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.failed.Add(1)
	}
	return n, err
}

// tattlers encrypts the connections of a listener.
type tattlers struct {
	net.Listener
	enc    *server.TLS
	failed *atomic.Int64
}

func (l tattlers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tattler{l.enc.Server(c), l.failed}, nil
}

func (l tattlers) SetDeadline(t time.Time) error { return l.Listener.(*net.TCPListener).SetDeadline(t) }

// A write that timed out is the last on an encrypted connection. Any later write would fail at
// once, and keep failing until the client counts as idle.
func TestTLSClientThatDoesNotRead(t *testing.T) {
	roots, enc := newTLS(t)
	patiently(t, 200*time.Millisecond, func(timeout time.Duration) error {
		var failed atomic.Int64
		r := startPorts(t, netCandidate(), func(c *server.Config) { c.IdleTimeout = timeout }, func(r *rig) []server.Port {
			p := r.port(place{"tcp", 1})
			p.Listeners[0] = tattlers{p.Listeners[0], enc, &failed}
			return []server.Port{p}
		})
		c, err := r.dialTLS(&tls.Config{RootCAs: roots})
		if err != nil {
			return err // the handshake took too long
		}
		if _, err := fmt.Fprintf(c, "big %d\r\n", 40<<20); err != nil {
			return err
		}
		eventually(t, func() string {
			if n := r.counters.IdleClosed.Load(); n != 1 {
				return fmt.Sprintf("%d idle connections closed", n)
			}
			return ""
		})
		c.Close()
		r.stop()
		if n := failed.Load(); n != 1 {
			return fmt.Errorf("%d writes failed", n)
		}
		return nil
	})
}

func TestTLSDrain(t *testing.T) {
	roots, enc := newTLS(t)
	r := startTLS(t, enc, patience)
	var clients []*client
	for range 10 {
		c := r.dialTLSOr(t, roots, 0)
		c.echo(1)
		clients = append(clients, c)
	}
	unfinished := r.dial() // its handshake
	for _, c := range clients {
		c.say("echo 2\r\n")
		c.say("echo 3\r\n") // its own TLS record
	}
	r.end()
	for _, c := range clients {
		c.expect("2\r\n3\r\n")
		c.expectEOF()
		c.Close()
	}
	io.Copy(io.Discard, unfinished)
}
