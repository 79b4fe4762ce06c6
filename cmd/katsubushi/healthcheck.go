package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// healthcheckTimeout limits the whole check, so that a hung daemon counts as unhealthy.
const healthcheckTimeout = 3 * time.Second

// healthcheck exits with 0 if the daemon that the same flags and environment would start is alive.
func healthcheck(c *call) int {
	if c.refused() {
		return exitUsage
	}
	if err := c.ask(c.ready); err != nil {
		return c.fail(fmt.Errorf("unhealthy: %w", err))
	}
	return exitOK
}

// ask asks for an id, or whether the daemon is alive. A daemon that refuses because it has too many
// connections is alive: a restart would cut off all clients, and the refused ones would come back.
// It is not ready, because a client would be refused too.
func (p *parsed) ask(ready bool) error {
	deadline := time.Now().Add(healthcheckTimeout)
	conn, err := p.connect(deadline)
	if err != nil && !ready && p.livesByHTTP(deadline) {
		return nil // its port is closed until the first id can be issued
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(deadline)
	if p.TLSCert != "" && p.Sock == "" {
		if conn, err = p.encrypt(conn); isAlert(err) && !ready {
			return nil
		} else if err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(conn, 512)
	exchange := func(request string, want ...string) error {
		_, unsent := io.WriteString(conn, request) // refused before it was asked, it has an answer all the same
		line, err := r.ReadString('\n')
		if err != nil {
			return errors.Join(unsent, err)
		}
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(line, w) }) {
			return fmt.Errorf("%s answered %q", conn.RemoteAddr(), strings.TrimSpace(line))
		}
		return nil
	}
	if !ready {
		return exchange("version\r\n", "VERSION ", "CLIENT_ERROR unauthenticated", "ERROR Too many open connections")
	}
	if p.AuthFile != "" || p.Users != "" {
		user, password, err := p.ownLogin()
		if err != nil {
			return err
		}
		if err := exchange(fmt.Sprintf("set login 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user, password),
			"STORED"); err != nil {
			return err
		}
	}
	return exchange("get id\r\n", "VALUE ")
}

// ownLogin returns a user and the password that the daemon's own file shows.
func (p *parsed) ownLogin() (user, password string, err error) {
	ok := false
	if p.AuthFile != "" {
		user, password, ok, err = users.First(p.AuthFile)
	}
	if !ok && err == nil {
		err = errors.New("-ready has to log in, and the users are kept as hashes: ask /readyz of the HTTP port " +
			"instead, or omit -ready")
	}
	return user, password, err
}

// connect connects to the memcached port, or to the unix socket.
func (p *parsed) connect(deadline time.Time) (net.Conn, error) {
	if tcp, ok := p.passed.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		return dialAny(deadline, "tcp", tcp.String())
	}
	if p.Sock != "" {
		return dialAny(deadline, "unix", p.Sock)
	}
	return dialAny(deadline, "tcp", reachable(p.Bind, p.Port)...)
}

// dialAny connects to the first of several addresses that accepts.
func dialAny(deadline time.Time, network string, addresses ...string) (net.Conn, error) {
	dialer := net.Dialer{Deadline: deadline}
	var errs []error
	for _, address := range addresses {
		conn, err := dialer.Dial(network, address)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// livesByHTTP asks /healthz if somebody has switched HTTP on. /healthz answers from the start.
func (p *parsed) livesByHTTP(deadline time.Time) bool {
	if p.HTTPPort == 0 || p.HTTPByDefault { // another daemon may have that port
		return false
	}
	bind := p.HTTPBind
	if bind == "" {
		bind = p.Bind
	}
	// and no proxy
	client := http.Client{Timeout: time.Until(deadline), Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dialAny(deadline, "tcp", reachable(bind, p.HTTPPort)...)
		}}}
	resp, err := client.Get("http://localhost/healthz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// encrypt does not check the server's certificate: it matters only whether something answers on this
// host. It shows the daemon's own certificate in case clients need one.
func (p *parsed) encrypt(conn net.Conn) (net.Conn, error) {
	c := &tls.Config{InsecureSkipVerify: true}
	if p.TLSClientCA != "" {
		own, err := endpoint.Files{Cert: p.TLSCert, Key: p.TLSKey}.Certificate()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{own}
	}
	encrypted := tls.Client(conn, c)
	return encrypted, encrypted.Handshake()
}

// isAlert reports whether the TLS server ended the handshake with an alert, as it does when it has too
// many connections.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// reachable returns where a daemon bound to address can be reached from its own host. It gives the
// loopback addresses as numbers, because a name may resolve to another address or to only one of them.
func reachable(address string, port int) (list []string) {
	hosts := []string{address}
	switch ip := net.ParseIP(address); {
	case address == "" || address == "localhost" || ip.Equal(net.IPv6unspecified):
		hosts = []string{"127.0.0.1", "::1"}
	case ip.Equal(net.IPv4zero):
		hosts = []string{"127.0.0.1"}
	}
	for _, host := range hosts {
		list = append(list, net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return list
}
