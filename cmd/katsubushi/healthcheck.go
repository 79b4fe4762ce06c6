package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// healthcheckTimeout bounds the whole check, so that a hung daemon is an unhealthy one.
const healthcheckTimeout = 3 * time.Second

// healthcheck asks the daemon that the same flags and environment would start whether it lives. It exits with 0 or 1.
func healthcheck(args []string, getenv func(string) string, stderr io.Writer) int {
	var ready bool
	p, _, err := parse(args, getenv, func(fs *flag.FlagSet) {
		fs.BoolVar(&ready, "ready", false, "ask for an id, not only for the version")
	})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, "usage: katsubushi healthcheck [-ready], and the flags or environment that the daemon was started with")
		return exitOK
	}
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintln(stderr, err)
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
	conn, err := net.DialTimeout(network, address, healthcheckTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(healthcheckTimeout))
	request, want := "version\r\n", "VERSION "
	if ready {
		request, want = "get healthcheck\r\n", "VALUE "
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	line, err := bufio.NewReaderSize(conn, 512).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(line, want) {
		return fmt.Errorf("%s answered %q", address, strings.TrimSpace(line))
	}
	return nil
}

// loopbackOf is where a daemon bound to address can be reached from its own host.
func loopbackOf(address string) string {
	if ip := net.ParseIP(address); address == "" || ip != nil && ip.IsUnspecified() {
		return "localhost"
	}
	return address
}
