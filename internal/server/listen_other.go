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

func share(*net.TCPListener) error { return nil }

func listenShared(addr *net.TCPAddr) (net.Listener, error) { return net.ListenTCP("tcp", addr) }

func probe(network, addr string) error {
	ln, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	return ln.Close()
}

func beforeBind(fs.FileMode) func(network, address string, c syscall.RawConn) error { return nil }
