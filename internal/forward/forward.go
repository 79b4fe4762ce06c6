// Package forward asks other daemons for values of sequences that they lead, over the Redis protocol.
//
// There is one connection to each daemon that is asked, made when it is needed. Requests are pipelined,
// and answers come in their order. When a request runs out of time its connection is closed, and with
// it everything outstanding fails: an answer that comes late reaches nobody.
package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config holds the settings of a Client.
type Config struct {
	// User and the password that Password returns log in to the other daemons; User "" = no login. The
	// Client asks for the password at each connection, from any goroutine.
	User     string
	Password func() (string, error)
	// TLS returns the settings of encrypted connections, also asked at each; nil = they are not
	// encrypted. The Client adds the name of the host.
	TLS     func() (*tls.Config, error)
	Timeout time.Duration // of a connection with its login, and of a Ping; more than 0
}

// A Client asks other daemons. Any goroutine may call its methods.
type Client struct {
	c                    Config
	sent, failed, values atomic.Uint64

	mu     sync.Mutex
	links  map[string]*link // by address
	closed bool
	ending sync.WaitGroup // the goroutines of connections
}

// A link is a connection to one address, or the reason why there is none at the moment.
type link struct {
	conn  *conn // nil = none
	why   error // the last connection ended, or failed, because of this
	pause time.Duration
	until time.Time // no connection is tried before
}

// How long after a connection that brought no answer the next one is tried: twice as long each time.
const (
	minPause = 10 * time.Millisecond
	maxPause = 160 * time.Millisecond
	maxLinks = 64 // addresses that are remembered; a fleet whose daemons change ports has ever new ones
)

// New makes a Client. It connects to nobody yet.
func New(c Config) *Client { return &Client{c: c, links: map[string]*link{}} }

// A Refusal is the answer of a daemon that has no values: its words. The connection stays.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Final reports whether the reason will stay, so that nobody need ask again. Daemons of earlier releases
// answer ERR, and whoever knows the name must look at the sentence.
func (r Refusal) Final() bool { return strings.HasPrefix(string(r), "FINAL ") }

var errClosed = errors.New("the daemon stops")

// Last asks the daemon at address to issue n values of a sequence, INCRBY name n, and returns the last
// of them: a number that is positive as an int64, and nothing else is known about it. n is 1 to
// id.MaxReserve. The error is a Refusal, or else nobody knows whether the values were issued: they are
// lost, and must not be asked for again as if they were the same. When ctx ends, so does the
// connection, and all requests on it fail.
func (c *Client) Last(ctx context.Context, address, name string, n int) (last uint64, err error) {
	c.sent.Add(1)
	if last, err = c.ask(ctx, address, integer, "INCRBY", name, strconv.Itoa(n)); err != nil {
		c.failed.Add(1)
		return 0, err
	}
	c.values.Add(uint64(n))
	return last, nil
}

// Ping returns nil if the daemon at address answers, whatever it says. It leaves a connection open on which others
// wait: they say for how long.
func (c *Client) Ping(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, c.c.Timeout)
	defer cancel()
	_, err := c.ask(ctx, address, status, "PING")
	if _, refused := err.(Refusal); refused {
		return nil
	}
	return err
}

// ask sends a command and waits for its answer, which is a failure or of the kind that is wanted.
func (c *Client) ask(ctx context.Context, address string, want kind, words ...string) (uint64, error) {
	to, err := c.connected(address)
	if err != nil {
		return 0, err
	}
	r, err := to.add(want, words...)
	if err != nil {
		return 0, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if want == status && to.serves() {
			return 0, ctx.Err()
		}
		to.end(fmt.Errorf("%s does not answer: a request ran out of time", address))
		<-r.done
	}
	return r.last, r.err
}

// connected returns the connection to address, which may still be made.
func (c *Client) connected(address string) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	l := c.links[address]
	switch {
	case l == nil:
		c.forget()
		l = &link{}
		c.links[address] = l
	case l.conn != nil:
		return l.conn, nil
	case time.Now().Before(l.until):
		return nil, l.why
	}
	l.conn = newConn(&c.c, address, func(answered bool, why error) { c.lost(l, answered, why) })
	c.ending.Go(l.conn.run)
	return l.conn, nil
}

// forget makes room for one more link. The caller holds mu.
func (c *Client) forget() {
	for address, l := range c.links {
		if len(c.links) < maxLinks {
			return
		}
		if l.conn == nil {
			delete(c.links, address)
		}
	}
}

// lost takes a link's connection away, which has ended.
func (c *Client) lost(l *link, answered bool, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.conn, l.why = nil, why
	if l.pause = min(max(2*l.pause, minPause), maxPause); answered {
		l.pause = 0
	}
	l.until = time.Now().Add(l.pause)
}

// Close ends all connections. What is outstanding fails, and so does everything after.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	var all []*conn
	for _, l := range c.links {
		if l.conn != nil {
			all = append(all, l.conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range all {
		conn.end(errClosed)
	}
	c.ending.Wait()
}

// Figures are counts since the start.
type Figures struct {
	Sent   uint64 // requests
	Failed uint64 // of those: they got no values
	Values uint64 // that were received
}

// Figures returns the counts.
func (c *Client) Figures() Figures {
	return Figures{Sent: c.sent.Load(), Failed: c.failed.Load(), Values: c.values.Load()}
}

// dial connects and, if need be, encrypts.
func (c *Config) dial(ctx context.Context, address string) (net.Conn, error) {
	plain, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil || c.TLS == nil {
		return plain, err
	}
	settings, err := c.TLS()
	if err != nil {
		plain.Close()
		return nil, err
	}
	settings = settings.Clone()
	settings.ServerName, _, _ = net.SplitHostPort(address)
	encrypted := tls.Client(plain, settings)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, err
	}
	return encrypted, nil
}
