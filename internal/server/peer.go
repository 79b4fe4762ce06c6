package server

import (
	"net"
	"net/netip"
)

// A PeerSession is a Session that is told who its client is, once, before the first Feed, if Port.Peers is set.
type PeerSession interface {
	Session
	// Peer is given the client's address, an IPv4 one never in its IPv6 form; the zero Addr for a client of a unix socket, and for one
	// that io_uring finds in the backlog when the engine drains.
	Peer(netip.Addr)
}

// PeerOf is what a PeerSession is given. addr may be nil.
func PeerOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
