//go:build !linux

package server

import (
	"io/fs"
	"net"
	"syscall"
)

// Elsewhere listeners cannot share an address in a way that spreads connections, and one is enough for the portable engine.
const maxListeners = 1

func listenReuseport(addr *net.TCPAddr) (net.Listener, error) { return net.ListenTCP("tcp", addr) }

func beforeBind(fs.FileMode) func(network, address string, c syscall.RawConn) error { return nil }
