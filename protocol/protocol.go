// Package protocol is the part that all grammars share: the interface to the program behind them,
// what they count, and their limits. Each grammar is a package below this one: memcache and resp.
//
// Not promised: that programs which import these packages compile with the next release. They follow the daemon.
package protocol

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/id"
)

// DaemonName is the name that a daemon gives its connections to other daemons, with CLIENT SETNAME. Refusals on them
// have a code of their own if they stay.
const DaemonName = "katsubushi-daemon"

// A Handler is the interface between a grammar and the program behind it. One Handler serves all
// sessions of an event loop. With the portable engine, several goroutines call its methods at once.
type Handler interface {
	// Source returns the source of ids for a key. A key that may not have any ids gets a Source
	// that refuses. Neighbouring keys with the same source share a Mint. A grammar marks a request
	// as bulk if one command asks for several keys, and from the request that exceeds SingleGets in
	// one Feed. It calls Mint and Reserve through a Turn only, for the sake of an id.Punctual. Any
	// error of a Mint but id.ErrWait and id.ErrMoment is a refusal; its text goes to the client as the
	// reason. Source does not keep key.
	Source(key []byte) id.Source
	// Named returns the source that was declared under this very key, or nil. Commands that make
	// sense for one kind of id only ask this: incr needs an id.Reserver. Named does not keep key.
	Named(key []byte) id.Source
	// Stats calls emit for every line of a statistics group ("" is the general one) and reports
	// whether the group exists. group is lower-case and valid only during the call. Stats is not
	// called for groups that are always empty (conns, sizes).
	Stats(group []byte, emit func(name, value string)) bool
}

// A Sifter is a Handler that tells in advance which keys it need not be asked about, so that a line of
// many keys costs one call, not one for each key.
type Sifter interface {
	// Sieve returns the source of all keys that do not pass the sieve. A key passes if bit len(key)%64
	// of the number at its first byte is set; nil lets none pass. The answer holds until the end of
	// a Feed.
	Sieve() (rest id.Source, sieve *[256]uint64)
}

// A Guard is a Handler that refuses some keys. A grammar asks it about every key of a command that has
// several before it asks for the first id, so that a command that is refused consumes nothing. It need
// not ask about the key of a command that has one: the source of a refused key refuses.
type Guard interface {
	// Permit returns an id.NotPermitted if no ids may be had for the key, or nil. It does not keep key.
	Permit(key []byte) error
}

// Config is what all sessions of an event loop share. It must not change during a Feed.
type Config struct {
	Handler  Handler
	Counters *Counters // what the sessions did; several loops may share one, which costs cache misses
	Version  string    // the reply to version, N.N.N: clients parse it when they connect
	// Cluster is the reply to config get cluster: host|ip|port of this server. Empty = the command
	// is unknown.
	Cluster string
	// Topology returns the cluster that Redis's clients are told of; it is called for each command that
	// asks, by any goroutine. nil = this server owns all slots, and is no member of a cluster.
	Topology func() Topology
	// Clients counts the connections that asked for a number of their own, over all loops. nil = each
	// of them gets 1.
	Clients *atomic.Int64

	// Auth logs a user in. It returns the Config that the session uses from then on: that Config's
	// Handler knows what this user may have, and its own Auth handles the client's next login. Auth
	// returns nil and no error if the user or the password is wrong. id.ErrWait means that it is not
	// decided yet: the session waits as for an id, and calls Auth with the same bytes again. Any other
	// error means that it cannot be decided now; its text is for the client, and the attempt does not
	// count. If the field is nil, all clients may have ids. The goroutine that called Feed calls Auth;
	// Auth keeps neither slice. It should take the same time whatever is wrong. A session limits only
	// the attempts of its own connection (MaxGuesses): Auth must limit a client that connects again.
	Auth func(user, password []byte) (*Config, error)
}

// A Topology is a Redis cluster.
type Topology struct {
	Self  string // the ID of this server
	Nodes []Node // all that are known, this one among them
	Epoch uint64 // grows whenever slots move
}

// A Node is a server of a Topology.
type Node struct {
	ID    string // 40 lower-case hexadecimal digits
	Host  string // where clients reach it: a name or an address, without brackets
	Port  int
	Slots []Slots // that it owns: in rising order, never two next to each other
}

// Slots are the slots First to Last, both inclusive, 0 to 16383.
type Slots struct{ First, Last int }

// Check returns what is wrong with the settings, or nil.
func (c *Config) Check() error {
	switch {
	case c.Handler == nil:
		return errors.New("protocol: no Handler")
	case c.Counters == nil:
		return errors.New("protocol: no Counters")
	case !isVersion(c.Version):
		return fmt.Errorf("protocol: version %q: three numbers with dots between are needed, clients parse it", c.Version)
	}
	return nil
}

func isVersion(s string) bool {
	dots, digits := 0, 0
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && digits > 0:
			dots, digits = dots+1, 0
		default:
			return false
		}
	}
	return dots == 2 && digits > 0
}

// ErrClose is returned by Feed and means: send the reply, then close the connection.
var ErrClose = errors.New("protocol: close the connection")

// ErrEnough is returned by Feed and means: send the reply, let other connections have their turn, then
// call Feed again, even without more input. Its method Enough tells packages that do not import this
// one.
var ErrEnough error = enoughError{}

type enoughError struct{}

func (enoughError) Error() string { return "protocol: enough for one turn" }
func (enoughError) Enough() bool  { return true }

// Limits of every grammar.
const (
	MaxKey     = 250 // bytes of a key, as in memcached
	MaxReason  = 256 // bytes of an error's reason that are sent to a client
	SingleGets = 4   // single-key gets that one Feed requests before it marks them as bulk
	MaxGuesses = 3   // a connection is closed after this many failed attempts to authenticate
	// ReplyChunk: Feed stops once its reply has this many bytes. One Feed stays under 2*ReplyChunk,
	// except for statistics.
	ReplyChunk = 64 << 10
)
