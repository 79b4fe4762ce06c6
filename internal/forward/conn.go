package forward

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A conn is a connection, from before it is made until it has ended. It is never used again.
type conn struct {
	c       *Config
	address string
	lost    func(answered bool, why error)
	stop    context.CancelFunc // of dialing
	dialing context.Context

	mu       sync.Mutex
	net      net.Conn   // nil until it is made
	out      []byte     // requests that are not yet written
	spare    []byte     // its memory before
	writing  bool       // a goroutine writes, and goes on until out is empty
	waiting  []*request // whose answers are to come, in their order
	answered bool       // there was an answer
	why      error      // not nil: it has ended
}

// A request is one whose answer is a number, or of another kind. last and err may be read after done was
// closed.
type request struct {
	want kind
	done chan struct{}
	last uint64
	err  error
}

func newConn(c *Config, address string, lost func(bool, error)) *conn {
	conn := &conn{c: c, address: address, lost: lost, out: slices.Clone(greeting)}
	conn.dialing, conn.stop = context.WithTimeout(context.Background(), c.Timeout)
	return conn
}

// greeting says that a daemon asks, which then gets FINAL instead of ERR. It has no answer.
var greeting = appendCommand(appendCommand(nil, "CLIENT", "REPLY", "SKIP"), "CLIENT", "SETNAME", protocol.DaemonName)

// add sends a request, as soon as there is a connection. The error says why that has ended.
func (c *conn) add(want kind, words ...string) (*request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return nil, c.why
	}
	r := &request{want: want, done: make(chan struct{})}
	c.waiting = append(c.waiting, r)
	c.out = appendCommand(c.out, words...)
	c.write()
	return r, nil
}

// serves reports whether a number is waited for.
func (c *conn) serves() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.waiting, func(r *request) bool { return r.want == integer })
}

// end closes the connection and fails what is outstanding. Only the first reason counts.
func (c *conn) end(why error) {
	c.mu.Lock()
	if c.why != nil {
		c.mu.Unlock()
		return
	}
	c.why = why
	if c.net != nil {
		c.net.Close()
	}
	for _, r := range c.waiting {
		r.err = why
		close(r.done)
	}
	c.waiting, c.out = nil, nil
	answered := c.answered
	c.mu.Unlock()
	c.stop()
	c.lost(answered, why)
}

// run makes the connection, and hands out answers until it ends.
func (c *conn) run() {
	defer c.stop()
	to, err := c.c.dial(c.dialing, c.address)
	if err != nil {
		c.end(err) // it names the address
		return
	}
	defer to.Close()
	var in input
	if err := c.logIn(to, &in); err != nil {
		c.end(fmt.Errorf("%s: %w", c.address, err))
		return
	}
	c.mu.Lock()
	c.net = to
	c.write()
	over := c.why != nil
	c.mu.Unlock()
	for !over {
		a, err := in.next(to)
		if err == nil {
			err = c.hand(a)
		}
		if over = err != nil; over {
			c.end(fmt.Errorf("%s: %w", c.address, err))
		}
	}
}

// logIn sends the user and the password, if there is a user.
func (c *conn) logIn(to net.Conn, in *input) error {
	if c.c.User == "" {
		return nil
	}
	password, err := c.c.Password()
	if err != nil {
		return err
	}
	defer context.AfterFunc(c.dialing, func() { to.SetDeadline(time.Unix(1, 0)) })()
	if _, err := to.Write(appendCommand(nil, "AUTH", c.c.User, password)); err != nil {
		return err
	}
	a, err := in.next(to)
	switch {
	case err != nil:
		return err
	case a.kind == failure:
		return fmt.Errorf("user %s: %s", c.c.User, a.text)
	case a.kind != status || a.text != "OK":
		return fmt.Errorf("user %s: %w", c.c.User, errAnswer)
	}
	return nil
}

// write writes the requests in out, unless another goroutine does or there is no connection. The caller
// holds mu, which is free meanwhile.
func (c *conn) write() {
	for c.net != nil && c.why == nil && len(c.out) > 0 && !c.writing {
		out := c.out
		c.out, c.writing = c.spare[:0], true
		c.mu.Unlock()
		c.net.SetWriteDeadline(time.Now().Add(c.c.Timeout))
		_, err := c.net.Write(out)
		if err != nil {
			c.end(fmt.Errorf("%s: %w", c.address, err))
		}
		c.mu.Lock()
		c.spare, c.writing = out, false
	}
}

// hand gives an answer to the oldest request. After end there is none that could get it.
func (c *conn) hand(a answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 && a.kind == failure && strings.HasPrefix(a.text, "NOAUTH ") {
		return nil // to the greeting; each request is told so too
	}
	if len(c.waiting) == 0 || a.kind != c.waiting[0].want && a.kind != failure {
		return errAnswer
	}
	r := c.waiting[0]
	c.waiting = c.waiting[1:]
	c.answered = true
	if r.last = a.number; a.kind == failure {
		r.err = Refusal(a.text)
	}
	close(r.done)
	return nil
}
