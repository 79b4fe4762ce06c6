package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/internal/authfile"
)

// healthcheckTimeout bounds the whole check, so that a hung daemon is an unhealthy one.
const healthcheckTimeout = 3 * time.Second

// healthcheck asks the daemon that the same flags and environment would start whether it lives, and exits with 0 if it does.
func healthcheck(args []string, env variables, stdout, stderr io.Writer) int {
	var ready bool
	p, _, err := parse(settings(), args, env, func(fs *flag.FlagSet) {
		fs.BoolVar(&ready, "ready", false, "ask for an id, not only for the version")
	})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, "usage: katsubushi healthcheck [-ready], and the flags or environment that the daemon was started with")
		return exitOK
	}
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintln(stderr, err)
		p.warn(stderr)
		return exitUsage
	}
	if err := p.ask(ready); err != nil {
		fmt.Fprintln(stderr, "unhealthy:", err)
		return exitFailure
	}
	return exitOK
}

func (p *parsed) ask(ready bool) error {
	network, address := "tcp", net.JoinHostPort(loopbackOf(p.Bind), strconv.Itoa(p.Port))
	if p.Sock != "" {
		network, address = "unix", p.Sock
	}
	deadline := time.Now().Add(healthcheckTimeout)
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.Dial(network, address)
	if err != nil && !ready && p.livesByHTTP(deadline) {
		return nil // its port is closed until the first id can be issued
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(deadline)
	if p.TLSCert != "" && p.Sock == "" {
		if conn, err = p.encrypt(conn); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(conn, 512)
	exchange := func(request string, want ...string) error {
		if _, err := io.WriteString(conn, request); err != nil {
			return err
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(line, w) }) {
			return fmt.Errorf("%s answered %q", address, strings.TrimSpace(line))
		}
		return nil
	}
	if !ready {
		return exchange("version\r\n", "VERSION ", "CLIENT_ERROR unauthenticated")
	}
	if p.AuthFile != "" {
		user, password, err := authfile.First(p.AuthFile)
		if err != nil {
			return err
		}
		if err := exchange(fmt.Sprintf("set login 0 0 %d\r\n%s %s\r\n", len(user)+1+len(password), user, password), "STORED"); err != nil {
			return err
		}
	}
	return exchange("get healthcheck\r\n", "VALUE ")
}

// livesByHTTP asks /healthz, which answers from the start, if HTTP is on.
func (p *parsed) livesByHTTP(deadline time.Time) bool {
	if p.HTTPPort == 0 {
		return false
	}
	client := http.Client{Timeout: time.Until(deadline), Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	resp, err := client.Get("http://" + net.JoinHostPort(loopbackOf(p.Bind), strconv.Itoa(p.HTTPPort)) + "/healthz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// encrypt does not ask who answers: the question is whether somebody does, on this host. The daemon's own certificate is shown in case
// clients must have one.
func (p *parsed) encrypt(conn net.Conn) (net.Conn, error) {
	c := &tls.Config{InsecureSkipVerify: true}
	if p.TLSClientCA != "" {
		own, err := tls.LoadX509KeyPair(p.TLSCert, p.TLSKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{own}
	}
	encrypted := tls.Client(conn, c)
	return encrypted, encrypted.Handshake()
}

// loopbackOf is where a daemon bound to address can be reached from its own host.
func loopbackOf(address string) string {
	if ip := net.ParseIP(address); address == "" || ip != nil && ip.IsUnspecified() {
		return "localhost"
	}
	return address
}
