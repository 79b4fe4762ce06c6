package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
)

// firstPassed is the first descriptor that a supervisor passes: see sd_listen_fds(3).
const firstPassed = 3

// maxPassed is more sockets than a daemon has ports, each with a listener for each event loop.
const maxPassed = 4096

// activate takes the sockets that systemd has opened for this process, by the names that
// FileDescriptorName= gives them: flags of ports. The ports' numbers are then those of the sockets.
// What says so is taken out of the environment, so that no child believes it.
func (p *parsed) activate() error {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"} {
		os.Unsetenv(name)
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxPassed {
		return fmt.Errorf("LISTEN_FDS=%.40q: 0 to %d sockets allowed", count, maxPassed)
	}
	if n == 0 {
		return nil
	}
	list := strings.Split(names, ":")
	if len(list) != n {
		return fmt.Errorf("%d sockets were passed with %d names (LISTEN_FDNAMES=%.200q): each needs FileDescriptorName= "+
			"in its .socket unit, "+
			"one of %s", n, len(list), names, strings.Join(daemon.SocketNames(), ", "))
	}
	in := &handover.Inherited{}
	var wrong []error
	for i, name := range list {
		fd := firstPassed + i
		addr, err := server.PassedAddr(fd)
		if err == nil {
			err = p.adjust(name, addr)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("passed socket %d, %.40q: %w", i+1, name, err))
			continue
		}
		in.Sockets = append(in.Sockets, sockets.Socket{Name: name, FD: fd, Lent: true})
	}
	p.Inherited = in
	return errors.Join(wrong...)
}

// follow makes settings fit the sockets of a supervisor that a daemon passes on to its successor.
func (p *parsed) follow(passed sockets.Passed) error {
	var wrong []error
	for _, s := range passed {
		if !s.Lent {
			continue
		}
		addr, err := server.PassedAddr(s.FD)
		if err == nil {
			err = p.adjust(s.Name, addr)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("passed socket %.40q: %w", s.Name, err))
		}
	}
	return errors.Join(wrong...)
}

// adjust makes a setting fit the socket that was passed for it.
func (p *parsed) adjust(name string, addr net.Addr) error {
	switch a := addr.(type) {
	case *net.UnixAddr:
		if name != "sock" {
			return fmt.Errorf("it is a unix socket, whose name must be sock")
		}
		p.Sock, p.passed = a.Name, addr
		return nil
	case *net.UDPAddr:
		if name != "udp-port" {
			return fmt.Errorf("it is a UDP socket, whose name must be udp-port")
		}
		p.UDPPort = a.Port
		return nil
	case *net.TCPAddr:
		for _, s := range portSettings(&p.options) {
			if s.name == name {
				switch name {
				case "port":
					p.passed = addr
				case "http-port":
					p.HTTPByDefault = false
				}
				return s.set.set(strconv.Itoa(a.Port))
			}
		}
		return fmt.Errorf("it is a TCP socket, and there is no such port: FileDescriptorName= must be one of %s",
			strings.Join(daemon.SocketNames(), ", "))
	}
	return fmt.Errorf("it is a socket of %s", addr.Network())
}
