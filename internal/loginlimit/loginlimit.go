// Package loginlimit limits how fast passwords can be guessed, and logs failed logins.
//
// The guarantee: a peer's wrong passwords are compared with the right ones at most Burst times at
// once and then once per Pause, plus as many as are being compared at the same moment. Beyond that,
// every login of this peer fails without a comparison, even with the right password: otherwise the
// reply would answer a guess. Other peers are not affected, unless more than MaxPeers fail at the
// same time; peers beyond that share one allowance.
//
// Not promised: protection against an attacker with many addresses, who gets that many guesses for
// each of them.
package loginlimit

import (
	"hash/maphash"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

const (
	// Burst is how many failures a peer may have at once; each Pause gives it one back.
	Burst = 10
	Pause = time.Second // see Burst
	// MaxPeers is how many peers with failures are remembered. Each takes about 100 bytes, and 50 for each
	// user.
	MaxPeers = 4096

	// What is remembered of a peer, because repeating a wrong password is not a new guess. By user: behind a
	// NAT, many programs may go on with a password that was changed.
	maxUsers   = 32          // those that failed last
	remembered = 4           // wrong passwords of each
	telling    = time.Minute // time between two log lines
)

// A Limiter says which logins are not to be compared. Whoever compares passwords calls Refuses right before
// each one, and Charge right after each one that was wrong; whoever answers clients calls Failed. Many
// goroutines may use it at once.
type Limiter struct {
	log  *slog.Logger
	seed maphash.Seed

	mu     sync.Mutex
	peers  map[netip.Addr]*peer // by network, see peers.Network
	others peer                 // all peers for which peers has no room
	swept  time.Time            // when expired peers were last removed

	// Since the last log line.
	quiet              bool // a line was written within the last minute, so the next one waits
	failed, uncompared int
	worst              *peer // the peer with the most failures
	round              int   // counts the log lines: a peer with another round has no failures in this one
}

// A peer is a network whose logins have failed.
type peer struct {
	network netip.Addr
	free    time.Time // when the whole Burst is available again
	users   []user    // the one that failed last at the end
	failed  int       // failures in round
	round   int
}

// A user of a peer is one whose logins have failed.
type user struct {
	name  uint64             // digest
	wrong [remembered]uint64 // the last wrong passwords; 0 = none
	next  int                // index of the next one in wrong
}

// repeats reports whether a user's password was already wrong, and remembers it.
func (p *peer) repeats(name, password uint64) bool {
	u := user{name: name}
	if i := slices.IndexFunc(p.users, func(u user) bool { return u.name == name }); i >= 0 {
		u = p.users[i]
		p.users = slices.Delete(p.users, i, i+1)
	} else if len(p.users) == maxUsers {
		p.users = slices.Delete(p.users, 0, 1)
	}
	again := slices.Contains(u.wrong[:], password)
	if !again {
		u.wrong[u.next] = password
		u.next = (u.next + 1) % remembered
	}
	p.users = append(p.users, u)
	return again
}

// New makes a Limiter.
func New(log *slog.Logger) *Limiter {
	return &Limiter{log: log, seed: maphash.MakeSeed(), peers: make(map[netip.Addr]*peer)}
}

// Refuses reports whether a client at from has used up its failures. The zero Addr stands for all clients of
// this host's unix socket.
func (l *Limiter) Refuses(from netip.Addr) bool {
	network := peers.Network(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[network]
	if p == nil && len(l.peers) == MaxPeers {
		p = &l.others
	}
	return p != nil && time.Until(p.free) > (Burst-1)*Pause
}

// Charge takes a failure from the allowance of a client's peer, except for a repeated wrong password: a
// client that has not learned of a new password should not lock out its neighbours. It keeps neither
// slice.
func (l *Limiter) Charge(from netip.Addr, user, password []byte) {
	network, name, digest := peers.Network(from), l.digest(user), l.digest(password)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	p := l.peer(network, now)
	if !p.repeats(name, digest) {
		if p.free.Before(now) {
			p.free = now
		}
		p.free = p.free.Add(Pause)
	}
}

// Failed counts a failed login for the log, refused = without a comparison.
func (l *Limiter) Failed(from netip.Addr, refused bool) {
	network := peers.Network(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused {
		l.uncompared++
	}
	l.note(l.peer(network, time.Now()))
}

// peer finds or creates a peer. It makes room by forgetting peers whose allowance is full again.
// That search is expensive, so it runs at most once per Pause.
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

// note counts a failed login for the log. The first one is logged at once; later ones are logged
// together, once a minute, with the peer that failed most.
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

// tell writes the log line and schedules the next one.
func (l *Limiter) tell() {
	l.log.Warn("logins failed", "count", l.failed, "not_compared", l.uncompared, "peer", l.name(l.worst), "of_peer",
		l.worst.failed)
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

// name returns what the log calls a peer.
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

// digest returns what is remembered of a name or a wrong password, instead of it. It is never 0.
func (l *Limiter) digest(text []byte) uint64 { return max(maphash.Bytes(l.seed, text), 1) }
