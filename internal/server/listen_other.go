//go:build !linux

package server

import (
	"io/fs"
	"net"
	"syscall"
)

// Other systems cannot spread connections over listeners that share an address. The portable engine
// needs only one.
const maxListeners = 1

func listenReuseport(addr *net.TCPAddr) (net.Listener, error) { return net.ListenTCP("tcp", addr) }

func beforeBind(fs.FileMode) func(network, address string, c syscall.RawConn) error { return nil }
