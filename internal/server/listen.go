package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// ListenTCP opens up to n listeners on one address, one for each event loop of an engine; the
// kernel spreads connections over them. Only Linux can do that; elsewhere ListenTCP opens one. An
// empty host means every address, IPv6 and IPv4 alike. With port 0 all listeners get the same free
// port. The error wraps syscall.EADDRINUSE when another program, or a second daemon, uses the
// address.
func ListenTCP(addr string, n int) ([]net.Listener, error) {
	network, err := networkOf(addr)
	if err != nil {
		return nil, err
	}
	// SO_REUSEPORT lets any such listener of the same user share the address, so a second daemon
	// started by mistake would silently take half of the connections. So the first listener comes without
	// the option: it is alone or fails. It never closes, because clients may have connected to it.
	plain := net.ListenConfig{}
	plain.SetMultipathTCP(false) // event loops use the kernel's sockets themselves
	first, err := plain.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	lns := []net.Listener{first}
	if n = min(n, maxListeners); n <= 1 {
		return lns, nil
	}
	if err := share(first.(*net.TCPListener)); err != nil {
		closeAll(lns)
		return nil, err
	}
	for len(lns) < n {
		ln, err := listenShared(first.Addr().(*net.TCPAddr))
		if err != nil {
			closeAll(lns)
			return nil, err
		}
		lns = append(lns, ln)
	}
	return lns, nil
}

// networkOf returns what package net calls the network of a TCP address.
func networkOf(addr string) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		return "tcp4", err // otherwise net treats 0.0.0.0 as [::]
	}
	return "tcp", err
}

// ProbeTCP returns the error that ListenTCP would return now, without listening: a client that connects in
// this moment is refused, not reset.
func ProbeTCP(addr string) error {
	network, err := networkOf(addr)
	if err != nil {
		return err
	}
	return probe(network, addr)
}

// ProbeUnix does the same for ListenUnix. It removes a socket left behind by a killed daemon.
func ProbeUnix(path string) error {
	if err := removeStale(path); err != nil {
		return err
	}
	return probe("unix", path)
}

// ListenUnix opens a unix socket with the permissions mode, and n listeners that share it (one on
// systems where this package has no event loops). It replaces a socket left behind by a killed
// daemon. It does not replace a socket that a process listens on, nor a file of any other kind.
func ListenUnix(path string, mode fs.FileMode, n int) ([]net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: beforeBind(mode)}
	first, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	lns := []net.Listener{first}
	if !strings.HasPrefix(path, "@") {
		err = os.Chmod(path, mode)
	}
	for len(lns) < min(n, maxListeners) && err == nil {
		var ln net.Listener
		if ln, err = duplicate(first.(*net.UnixListener)); err == nil {
			lns = append(lns, ln)
		}
	}
	if err != nil {
		closeAll(lns)
		return nil, err
	}
	return lns, nil
}

func duplicate(ln *net.UnixListener) (net.Listener, error) {
	f, err := ln.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileListener(f)
}

// CheckUnix returns an error if path can never be a socket: it is something else.
func CheckUnix(path string) error {
	if at, err := os.Lstat(path); err == nil && at.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	return nil
}

// removeStale removes the socket at path if connecting to it is refused, which shows that no
// process listens on it.
func removeStale(path string) error {
	before, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := cmp.Or(err, CheckUnix(path)); err != nil {
		return err
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"},
			Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("socket %s exists, and it is unclear whether it is in use: %w", path, err)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
		return err // another daemon was faster; binding will report it
	}
	return os.Remove(path)
}

func closeAll(lns []net.Listener) {
	for _, ln := range lns {
		ln.Close()
	}
}

// TakeSocketFiles takes over from the listeners the duty to remove their socket files. Call remove
// before closing the listeners: then every client that found a file is in the backlog and gets an
// answer. If a successor already listens on the path, the file is a different one and stays. (While
// a socket is open, the system does not reuse its inode number.)
func TakeSocketFiles(ports []Port) (remove func()) {
	files := make(map[string]fs.FileInfo)
	for _, p := range ports {
		for _, ln := range p.Listeners {
			u, ok := ln.(*net.UnixListener)
			if !ok {
				continue
			}
			u.SetUnlinkOnClose(false)
			if info, err := os.Lstat(u.Addr().String()); err == nil && !p.Lent {
				files[u.Addr().String()] = info
			}
		}
	}
	return func() {
		for path, info := range files {
			if now, err := os.Lstat(path); err == nil && os.SameFile(info, now) {
				os.Remove(path)
			}
		}
	}
}
