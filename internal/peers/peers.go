// Package peers weighs clients by where they come from.
//
// The guarantee: where clients share something that is limited, such as memory or a queue, the peer that
// takes the most of it has to give back first, into however many connections it has divided what it takes.
//
// Not promised: anything against a client with many addresses, which is as many peers.
package peers

import (
	"hash/maphash"
	"net/netip"
)

// Network returns what an address counts under: the address itself or, for IPv6, its /64 network, because
// one client can use very many IPv6 addresses. It returns the zero Addr for the zero Addr, which stands for
// all clients of this host's unix socket.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64) // drops the zone
	return p.Addr()
}

// A Peer stands for a network, in less memory. 0 = not known.
type Peer uint64

var seed = maphash.MakeSeed()

// Of returns the peer that an address belongs to. It is never 0.
func Of(a netip.Addr) Peer {
	return Peer(max(maphash.Comparable(seed, Network(a)), 1))
}

// At returns the peer of a connection's RemoteAddr, which is a TCP address or that of a unix socket.
func At(remote any) Peer {
	if tcp, ok := remote.(interface{ AddrPort() netip.AddrPort }); ok {
		return Of(tcp.AddrPort().Addr())
	}
	return Of(netip.Addr{})
}

// Weights says which peer weighs most. It remembers those that weigh something. The zero value is ready;
// one goroutine at a time may use it.
type Weights struct {
	of    map[Peer]*weight
	order Heap[*weight]
	spare []*weight // so that a peer that comes and goes costs no allocation
}

type weight struct {
	peer Peer
	size int64
	Place
}

// Weight implements Weighted.
func (w *weight) Weight() int64 { return w.size }

const spareWeights = 64

// Add changes what a peer weighs, which must not become negative.
func (w *Weights) Add(p Peer, n int64) {
	one := w.of[p]
	switch {
	case n == 0:
	case one == nil:
		if last := len(w.spare) - 1; last >= 0 {
			one, w.spare = w.spare[last], w.spare[:last]
		} else {
			one = new(weight)
		}
		if w.of == nil {
			w.of = make(map[Peer]*weight)
		}
		*one = weight{peer: p, size: n}
		w.of[p] = one
		w.order.Add(one)
	case one.size+n == 0:
		delete(w.of, p)
		w.order.Remove(one)
		if len(w.spare) < spareWeights {
			w.spare = append(w.spare, one)
		}
	default:
		one.size += n
		w.order.Fix(one)
	}
}

// Of returns what a peer weighs.
func (w *Weights) Of(p Peer) int64 {
	if one := w.of[p]; one != nil {
		return one.size
	}
	return 0
}

// Heaviest returns the peer that weighs most, and what; 0, 0 if none weighs anything.
func (w *Weights) Heaviest() (Peer, int64) {
	if len(w.order) == 0 {
		return 0, 0
	}
	return w.order[0].peer, w.order[0].size
}
