// Package protocol is what all grammars share: what they need of the program behind them, what they
// count, and their limits. Each grammar is a package of its own below this one: memcache is the one
// that there is.
package protocol

import (
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A Handler is what a grammar needs of the program behind it. One serves all sessions of an event
// loop; with the portable engine its methods are called from several goroutines at once.
type Handler interface {
	// Source tells who issues the ids that a key asks for. A key that may not have any gets a
	// Source that refuses. Neighbouring keys of one source share a Mint. A grammar calls bulk what
	// asks for several keys in one command, and what exceeds SingleGets in one Feed. The text of a
	// Mint's error goes to the client, as the reason for the refusal. key is not kept.
	Source(key []byte) id.Source
	// Stats calls emit for every line of a statistics group ("" is the general one) and reports
	// whether the group exists. group is lower-case and valid during the call only. Groups that are
	// always empty (conns, sizes) are not asked for.
	Stats(group []byte, emit func(name, value string)) bool
}

// Config is what all sessions of an event loop share. Nothing in it may change while a session
// lives.
type Config struct {
	Handler  Handler
	Counters *Counters // what the sessions did; several loops may share one, at the price of cache misses
	Version  string    // the answer to version, N.N.N: clients parse it when they connect
	Cluster  string    // the answer to config get cluster: host|ip|port of this server; empty = the command is unknown

	// Auth logs a user in: the session goes on with the Config that it returns, whose Handler knows
	// what this user may have, and whose own Auth is asked when the client logs in anew. nil = user
	// or password is wrong. No Auth = anybody may have ids. It is called once per attempt, from the
	// goroutine that called Feed, and keeps neither slice. It should take equally long whatever is
	// wrong. A session bounds the attempts of its own connection only (MaxGuesses): those of a
	// client that connects again are Auth's to bound.
	Auth func(user, password []byte) *Config
}

// Check says what is wrong with the settings, or nil.
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

// ErrClose is Feed's way to say: send the reply, then close the connection.
var ErrClose = errors.New("protocol: close the connection")

// Limits of every grammar.
const (
	MaxKey     = 250      // bytes of a key, as in memcached
	MaxReason  = 256      // bytes of an error's reason that a client is sent
	SingleGets = 4        // gets of one key that a Feed asks for before it calls them bulk
	MaxGuesses = 3        // failed attempts to authenticate after which a connection is closed
	ReplyChunk = 64 << 10 // Feed stops once it has replied this many bytes; one Feed stays under 2*ReplyChunk, statistics apart
)
