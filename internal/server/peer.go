package server

import (
	"net"
	"net/netip"
)

// A PeerSession is a Session that learns its client's address, once, before the first Feed, if
// Port.Peers is set.
type PeerSession interface {
	Session
	// Peer gets the client's address; IPv4 addresses are never in IPv6 form. It gets the zero Addr
	// for a client of a unix socket, and for one that io_uring finds in the backlog while the
	// engine drains.
	Peer(netip.Addr)
}

// PeerOf returns the address to give to a PeerSession. addr may be nil.
func PeerOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}
