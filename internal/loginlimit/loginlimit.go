// Package loginlimit bounds how fast passwords can be guessed, and tells of it.
//
// The guarantee: of one peer's wrong passwords at most Burst at once and then one each Pause are compared with the right ones, and
// as many more as are being compared at the same moment. Beyond that every login of this peer fails without a comparison, the right
// password included: an answer that did not would be an answer to a guess. Other peers notice nothing, unless more than MaxPeers fail
// at the same time; those that find no room share one allowance.
//
// What is not promised: that somebody with many addresses is slowed down, other than in proportion.
package loginlimit

import (
	"hash/maphash"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// Burst is how many failures a peer has at once, and Pause the time in which it gets one back.
	Burst = 10
	Pause = time.Second
	// MaxPeers is how many peers with failures are remembered. Each takes about 100 bytes.
	MaxPeers = 4096

	remembered = 4           // wrong passwords of a peer: to repeat one is no new guess
	telling    = time.Minute // between two lines in the log
)

// A Limiter decides logins. It may be used by many goroutines at once.
type Limiter struct {
	allows func(user, password []byte) bool
	log    *slog.Logger
	seed   maphash.Seed

	mu     sync.Mutex
	peers  map[netip.Addr]*peer // by network, see networkOf
	others peer                 // those that found no room in peers
	swept  time.Time            // when room was last looked for

	// Since the last line in the log.
	quiet              bool // a line was written within the last minute: the next one waits
	failed, uncompared int
	worst              *peer // whose failures are most
	round              int   // counts the lines: peers that have another one have no failures yet
}

// A peer is a network whose logins have failed.
type peer struct {
	network netip.Addr
	free    time.Time          // when the whole Burst is available again
	wrong   [remembered]uint64 // the last wrong passwords, with their users; 0 = none
	next    int                // place of the next one
	failed  int                // in round
	round   int
}

// New makes a Limiter. allows compares a user and a password with those that are right; it is called from many goroutines at once.
func New(allows func(user, password []byte) bool, log *slog.Logger) *Limiter {
	return &Limiter{allows: allows, log: log, seed: maphash.MakeSeed(), peers: make(map[netip.Addr]*peer)}
}

// Allow says whether from may log in as user. The zero Addr stands for everybody on this host's unix socket. It keeps no slice.
func (l *Limiter) Allow(from netip.Addr, user, password []byte) bool {
	network := networkOf(from)
	if l.refuses(network) {
		return false
	}
	if l.allows(user, password) {
		return true
	}
	l.charge(network, l.digest(user, password))
	return false
}

// refuses says whether a peer has no failure left, and then counts one.
func (l *Limiter) refuses(network netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.peers[network]
	if p == nil && len(l.peers) == MaxPeers {
		p = &l.others
	}
	if p == nil || p.free.Sub(now) <= (Burst-1)*Pause {
		return false
	}
	l.uncompared++
	l.note(p)
	return true
}

// charge takes a failure from a peer's allowance, unless it is an old one repeated: a client that nobody told of a new password
// should not lock out its neighbours.
func (l *Limiter) charge(network netip.Addr, digest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.peer(network, now)
	if !slices.Contains(p.wrong[:], digest) {
		p.wrong[p.next] = digest
		p.next = (p.next + 1) % remembered
		if p.free.Before(now) {
			p.free = now
		}
		p.free = p.free.Add(Pause)
	}
	l.note(p)
}

// peer finds a peer, or makes it. Room is made by forgetting those whose allowance is whole; to look for them costs so much that
// it is done once each Pause.
func (l *Limiter) peer(network netip.Addr, now time.Time) *peer {
	p := l.peers[network]
	if p != nil {
		return p
	}
	if len(l.peers) == MaxPeers && now.Sub(l.swept) >= Pause {
		l.swept = now
		for n, p := range l.peers {
			if !p.free.After(now) {
				delete(l.peers, n)
			}
		}
	}
	if len(l.peers) == MaxPeers {
		return &l.others
	}
	p = &peer{network: network}
	l.peers[network] = p
	return p
}

// note counts a failed login for the log. The first is told at once, the others together, once a minute, with the peer that has
// most of them.
func (l *Limiter) note(p *peer) {
	if p.round != l.round {
		p.round, p.failed = l.round, 0
	}
	p.failed++
	l.failed++
	if l.worst == nil || p.failed > l.worst.failed {
		l.worst = p
	}
	if !l.quiet {
		l.quiet = true
		l.tell()
	}
}

// tell writes the line, and sees to the next one.
func (l *Limiter) tell() {
	l.log.Warn("logins failed", "count", l.failed, "not_compared", l.uncompared, "peer", l.name(l.worst), "of_peer", l.worst.failed)
	l.failed, l.uncompared, l.worst = 0, 0, nil
	l.round++
	time.AfterFunc(telling, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.quiet = l.failed > 0; l.quiet {
			l.tell()
		}
	})
}

// name is what the log calls a peer.
func (l *Limiter) name(p *peer) string {
	switch {
	case p == &l.others:
		return "one of too many to remember"
	case !p.network.IsValid():
		return "unix socket"
	case p.network.Is6():
		return p.network.String() + "/64"
	}
	return p.network.String()
}

// networkOf is what an address is counted with: itself, or, of IPv6, of which everybody has very many, the first of its /64 network.
func networkOf(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64) // drops the zone
	return p.Addr()
}

// digest is what is remembered of a wrong password: never the password. It is not 0.
func (l *Limiter) digest(user, password []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	h.Write(user)
	h.WriteByte(0)
	h.Write(password)
	return max(h.Sum64(), 1)
}
