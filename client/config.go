package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"
)

// Limits.
const (
	MaxIDs      = 1_000_000 // of one call of IDs
	MaxPrefetch = 100_000   // ids in stock

	maxBatch       = 1000     // ids of one request of callers
	minShare       = 250      // ids of one of two requests in flight; fewer are better in one
	maxRange       = 10_000   // ids of one request for the stock, with ids
	maxPart        = 5000     // of these, ids that one caller may wait for: others get some as well
	maxRequest     = 64 << 10 // bytes of one request
	maxLine        = 64 << 10 // bytes of a line of an answer
	maxName        = 250      // bytes of a key, as in memcached
	maxMarks       = 1000     // names whose last id is remembered, of each server; then it begins anew
	maxFlight      = 2        // requests on one connection that are not answered
	maxConnections = 1000     // to one server
	maxServers     = 1024     // that a resolver may name: as many as the default layout has worker ids
)

// A Config has the settings of a Client. The zero Config is ready for daemons without TLS and users.
type Config struct {
	// Name is the key that ID and IDs ask for. Default "id": every daemon answers it with an id of its
	// default kind.
	Name string

	User, Password string      // for memcached's text login; both or neither
	TLS            *tls.Config // nil: plain. ServerName is the server's host unless it is set here

	// Dial opens connections. Default: a net.Dialer. It must return when ctx ends.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout limits a new connection until it is ready for requests: TCP, TLS, login, and an
	// answer to "version". Default 1 s.
	DialTimeout time.Duration

	// Timeout is how long a server may take to answer one request before its connection is closed and
	// the next server is asked. Default 1 s. A caller's own deadline is its context's.
	Timeout time.Duration

	// A server that failed is left alone for MinBackoff (default 50 ms), twice as long after each
	// further failure, at most for MaxBackoff (default 5 s). Up to half of that is random.
	MinBackoff, MaxBackoff time.Duration

	// Connections to each server. Default 1, which is best: more connections mean smaller batches.
	Connections int

	// Prefetch is how many ids ID and IDs of the Client keep in stock at most, but for what callers who
	// become fewer leave of an answer; 0, the default, means none. Generators keep no stock. The stock
	// follows the rate at which ids are taken, so that they are used within half of MaxAge. Waste:
	// whatever is in stock when it expires, at fail-over and at Close. Order: see the package
	// documentation.
	Prefetch int

	// MaxAge is how old an id from the stock may be, counted from before it was asked for, on a clock
	// that also runs while the machine sleeps. Default 1 s with Prefetch. After a sleep, old ids may
	// be issued for 0.1 ms more. Where answers take longer, calls fail with ErrTimeout.
	MaxAge time.Duration

	// GetOnly keeps the client from using the command "ids". Set it for proxies that close a
	// connection over an unknown command. Servers that answer it with ERROR need no setting.
	GetOnly bool

	Logger *slog.Logger // what happens to connections and servers; nil: nothing is logged

	now func() int64 // for tests: the clock of MaxAge, in nanoseconds
}

// settle checks c and returns it with the defaults filled in, or everything that is wrong.
func (c Config) settle(r Resolver) (Config, error) {
	var wrong problems
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	switch r := r.(type) {
	case nil:
		say("no Resolver")
	case interface{ check() []error }:
		wrong = append(wrong, r.check()...)
	}
	c.settleTimes(say)
	if c.Connections < 0 || c.Connections > maxConnections {
		say("Connections must be 1 to %d: %d", maxConnections, c.Connections)
	}
	if c.Prefetch < 0 || c.Prefetch > MaxPrefetch {
		say("Prefetch must be 0 to %d: %d", MaxPrefetch, c.Prefetch)
	}
	c.checkLogin(say)
	if c.Name == "" {
		c.Name = "id"
	}
	if err := checkName(c.Name); err != nil {
		say("Name: %w", err)
	}
	c.Connections = max(c.Connections, 1)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if c.now == nil {
		c.now = newAgeClock(time.Now(), bootNanos).now
	}
	return c, wrong.or()
}

// settleTimes checks the durations and fills in their defaults.
func (c *Config) settleTimes(say func(format string, args ...any)) {
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"DialTimeout", &c.DialTimeout, time.Second},
		{"Timeout", &c.Timeout, time.Second},
		{"MinBackoff", &c.MinBackoff, 50 * time.Millisecond},
		{"MaxBackoff", &c.MaxBackoff, max(5*time.Second, c.MinBackoff)},
		{"MaxAge", &c.MaxAge, time.Second},
	} {
		switch {
		case *d.value < 0:
			say("%s is negative: %v", d.name, *d.value)
		case *d.value > 0 && d.name == "MaxAge" && c.Prefetch == 0:
			say("MaxAge without Prefetch")
		case *d.value == 0:
			*d.value = d.def
		}
	}
	if c.MinBackoff > c.MaxBackoff && c.MaxBackoff > 0 {
		say("MinBackoff %v is longer than MaxBackoff %v", c.MinBackoff, c.MaxBackoff)
	}
}

func (c *Config) checkLogin(say func(format string, args ...any)) {
	if (c.User == "") != (c.Password == "") {
		say("User and Password: one without the other")
	}
	if strings.ContainsAny(c.User, " \r\n") || strings.ContainsAny(c.Password, "\r\n") {
		say("User has a space or line break, or Password a line break")
	}
}

// checkName says why name cannot be a key of memcached's text protocol, if so.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d bytes: %.20q... has %d", maxName, name, len(name))
	}
	for _, b := range []byte(name) {
		if b <= ' ' || b == 0x7f {
			return fmt.Errorf("%q has a space or a control character", name)
		}
	}
	if strings.HasPrefix(name, "HTTP/") {
		return fmt.Errorf("%q: servers mistake a line with this end for a browser's, and close the connection", name)
	}
	return nil
}
