// Package clients says which addresses have the most connections to some ports of this host, and how much they send
// and get. It asks the kernel while an operator looks, so a request costs nothing, whichever engine serves it.
//
// The guarantee: however many connections there are, a look at them ends after maxSockets or patience, and the kernel
// is asked once in Every at most; no length in its answers is trusted.
//
// Not promised: what came over connections that have ended between two looks, and unix sockets, which have no address.
package clients

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

const (
	// Every is how often the kernel is asked at most.
	Every = 5 * time.Second
	// Most is how many addresses a Top has.
	Most = 10

	maxSockets = 100_000                // that one look goes through
	patience   = 250 * time.Millisecond // how long one look takes at most
	// A look that is older says nothing of the present rates.
	memory = time.Minute
)

// A Client is an address, with what its open connections do.
type Client struct {
	// Address is an IP address or, of several in one IPv6 network, that network: see peers.Network.
	Address     string
	Connections int
	In, Out     float64 // bytes a second that it sends, and gets, since the look before; -1 = not known yet
	bytes       uint64
}

// A Top is what a look has found.
type Top struct {
	Known   bool // false = this system does not tell
	Clients []Client
	More    int  // addresses that are left out
	Partial bool // there were more connections, or less time, than a look may have
}

// A Watch looks. The zero value is ready; any goroutine may use it.
type Watch struct {
	mu     sync.Mutex
	asked  time.Time
	top    Top
	before map[uint64]counts // by socket; of maxSockets it takes some 6 MB
	read   func(at []netip.AddrPort, each func(socket) bool) error
}

// A socket is a connection, as the kernel describes it. Its cookie is no other one's as long as the host runs.
type socket struct {
	cookie        uint64
	local, remote netip.AddrPort
	counts
}

// counts are the bytes that a connection has got, and sent that have arrived.
type counts struct{ in, out uint64 }

// Look returns the largest clients of TCP ports of this host. Other callers wait as long as it takes. The caller must
// not change what it returns.
func (w *Watch) Look(at []netip.AddrPort) Top {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	passed := now.Sub(w.asked)
	if !w.asked.IsZero() && passed < Every {
		return w.top
	}
	if passed > memory {
		w.before = nil
	}
	read := w.read
	if read == nil {
		read = readSockets
	}
	t, n, partial := newTally(w.before, passed), 0, false
	err := read(at, func(s socket) bool {
		if partial = n == maxSockets; partial {
			return false
		}
		if n++; serves(at, s.local) {
			t.add(s)
		}
		return true
	})
	w.asked = now
	if err != nil && err != errLate {
		w.top, w.before = Top{}, nil
		return w.top
	}
	w.top, w.before = t.top(), t.now
	w.top.Partial = partial || err == errLate
	return w.top
}

// serves reports whether a connection's own end belongs to a listener.
func serves(at []netip.AddrPort, local netip.AddrPort) bool {
	return slices.ContainsFunc(at, func(l netip.AddrPort) bool {
		return l.Port() == local.Port() && (l.Addr().IsUnspecified() || l.Addr().Unmap().WithZone("") == local.Addr())
	})
}

// A tally adds up connections by their peers.
type tally struct {
	of          map[netip.Addr]*sum
	before, now map[uint64]counts // by socket; before is nil if nothing is known of it
	passed      time.Duration     // since before
}

type sum struct {
	Client
	one     netip.Addr
	several bool
	counts  // since before
}

func newTally(before map[uint64]counts, passed time.Duration) *tally {
	return &tally{of: map[netip.Addr]*sum{}, before: before, now: make(map[uint64]counts, len(before)), passed: passed}
}

func (t *tally) add(s socket) {
	network := peers.Network(s.remote.Addr())
	p := t.of[network]
	if p == nil {
		p = &sum{one: s.remote.Addr()}
		t.of[network] = p
	}
	p.several = p.several || p.one != s.remote.Addr()
	p.Connections++
	p.bytes += s.in + s.out
	old := t.before[s.cookie] // nothing, if it began later
	p.in += s.in - min(s.in, old.in)
	p.out += s.out - min(s.out, old.out)
	t.now[s.cookie] = s.counts
}

// top returns the peers with the most connections; of those with equally many, those that have moved the most bytes.
func (t *tally) top() Top {
	list := make([]Client, 0, len(t.of))
	for network, p := range t.of {
		p.Address = p.one.String()
		if p.several {
			p.Address = netip.PrefixFrom(network, 64).String()
		}
		p.In, p.Out = -1, -1
		if t.before != nil && t.passed > 0 {
			p.In, p.Out = float64(p.in)/t.passed.Seconds(), float64(p.out)/t.passed.Seconds()
		}
		list = append(list, p.Client)
	}
	slices.SortFunc(list, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Connections, a.Connections), cmp.Compare(b.bytes, a.bytes),
			cmp.Compare(a.Address, b.Address))
	})
	shown := min(len(list), Most)
	return Top{Known: true, Clients: slices.Clone(list[:shown]), More: len(list) - shown}
}
