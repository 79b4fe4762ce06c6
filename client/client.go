package client

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Client asks daemons for ids. It is ready for many goroutines; a program needs one.
type Client struct {
	config Config
	main   *Generator
	base   time.Time
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the client's goroutines
	yield  func()
	spent  sync.Pool // batches for newBatch

	expired atomic.Uint64 // Stats.Expired

	mu         sync.Mutex
	closed     bool
	attended   bool // a goroutine lets others join, and will pump
	share      int  // ids from which on a new batch is full; see conn.finish
	generators map[string]*Generator
	servers    []*server
	conns      map[*conn]bool // all that are open, of servers that are gone too
	queue      []*batch       // not sent, in the order in which they were begun
	wake       *time.Timer
	rewatch    context.CancelFunc // makes the resolver look again
	watched    time.Duration      // when it last began to
	stats      Stats
}

// Stats says what a Client has done since New.
type Stats struct {
	Requests  uint64 // sent to servers
	Failed    uint64 // of these, those that brought no ids
	Received  uint64 // ids
	Abandoned uint64 // calls whose context ended before their ids came
	Expired   uint64 // ids of the stock that became too old, or were dropped at a fail-over
	Queued    int    // requests that wait for a connection
	Servers   []ServerStats
}

// ServerStats says how a server is.
type ServerStats struct {
	Server
	Connections int   // that are ready for requests
	Flight      int   // requests on them that are not answered
	Err         error // the last failure; nil after an answer
}

// New returns a Client for the servers that r finds. It checks all settings and reports everything
// that is wrong as one error, but does not wait for a server.
func New(r Resolver, config Config) (*Client, error) {
	config, err := config.settle(r)
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, base: time.Now(), yield: runtime.Gosched, share: maxBatch}
	c.generators, c.conns = map[string]*Generator{}, map[*conn]bool{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wake = time.AfterFunc(time.Hour, c.pump)
	c.wake.Stop()
	c.main = newGenerator(c, config.Name)
	if config.Prefetch > 0 {
		c.main.stock = &stock{c: c, g: c.main}
	}
	if fixed, ok := r.(static); ok {
		c.setServers(fixed.servers())
	} else {
		c.work.Go(func() { c.watch(r) })
	}
	return c, nil
}

// ID returns an id: (0, err) or (not 0, nil). It waits until a server answered, every server has
// failed once, ctx ended, or Close. The error of the latter is ErrClosed; if ctx ended, errors.Is finds
// its cause. Other errors name each server and what it said; a retry may help unless errors.Is finds
// ErrRefused.
func (c *Client) ID(ctx context.Context) (uint64, error) { return c.main.ID(ctx) }

// IDs returns n different ids, 1 to MaxIDs, in increasing order, or an error and none. The errors are
// those of ID, and ErrCount.
func (c *Client) IDs(ctx context.Context, n int) ([]uint64, error) { return c.main.IDs(ctx, n) }

// Generator returns the Generator of a name, always the same one. It asks no server; whether the
// name exists is known at the first call.
func (c *Client) Generator(name string) *Generator {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.generators[name]
	if g == nil {
		g = newGenerator(c, name)
		c.generators[name] = g
	}
	return g
}

// Stats returns what the client has done so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Queued, s.Expired = len(c.queue), c.expired.Load()
	for _, v := range c.servers {
		one := ServerStats{Server: v.Server, Connections: len(v.conns), Err: v.err}
		for _, k := range v.conns {
			one.Flight += len(k.flight)
		}
		s.Servers = append(s.Servers, one)
	}
	return s
}

// Close ends all calls with ErrClosed, closes all connections, and returns when the client's
// goroutines have ended. It waits for no caller and no server. It always returns nil, a second time
// too.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.cancel()
	c.wake.Stop()
	for k := range c.conns {
		c.lose(k, ErrClosed)
	}
	for _, b := range c.queue {
		c.end(b, ErrClosed)
	}
	c.queue = nil
	if s := c.main.stock; s != nil {
		s.close()
	}
	c.mu.Unlock()
	c.work.Wait()
	return nil
}

// now is the client's clock for time-outs and back-off.
func (c *Client) now() time.Duration { return time.Since(c.base) }

// pump sends batches as long as there are some, and connections that have room for them. While another
// goroutine attends, that one will: batches are still growing.
func (c *Client) pump() {
	c.mu.Lock()
	for !c.closed && !c.attended {
		k := c.next()
		if k == nil {
			break
		}
		c.mu.Unlock()
		n, err := k.try(k.out)
		c.mu.Lock()
		switch {
		case err != nil:
			k.writing = false
			c.lose(k, err)
		case n == len(k.out) || c.closed:
			k.writing = false
		default:
			c.work.Go(func() { c.push(k, k.out[n:]) })
		}
	}
	c.mu.Unlock()
}

// push writes what could not be written at once.
func (c *Client) push(k *conn, rest []byte) {
	_, err := k.net.Write(rest)
	c.mu.Lock()
	k.writing = false
	if err != nil {
		c.lose(k, err)
	}
	c.mu.Unlock()
	c.pump()
}

// next gives the first batch for which a connection has room to that connection. It ends batches that
// no caller waits for, and those that every server has failed. c.mu is held.
func (c *Client) next() *conn {
	now := c.now()
	if len(c.queue) == 0 || c.busy(now) {
		return nil
	}
	soonest := time.Duration(-1)
	for i := 0; i < len(c.queue); {
		b := c.queue[i]
		if b.abandoned() {
			c.queue = slices.Delete(c.queue, i, i+1)
			c.end(b, context.Canceled)
			continue
		}
		k, until, hope := c.place(b, now)
		switch {
		case k != nil:
			c.queue = slices.Delete(c.queue, i, i+1)
			c.close(b)
			c.stats.Requests++
			k.accept(b, now)
			return k
		case !hope:
			c.queue = slices.Delete(c.queue, i, i+1)
			c.end(b, b.said())
			continue
		case until > now && (soonest < 0 || until < soonest):
			soonest = until
		}
		i++
	}
	if soonest >= 0 {
		c.wake.Reset(soonest - now)
	}
	return nil
}

// busy reports whether no batch at all can be sent before an answer or a new connection comes: so
// that who asks behind thousands of others does not look at each. c.mu is held.
func (c *Client) busy(now time.Duration) bool {
	for _, s := range c.servers {
		if s.until > now || len(s.conns)+s.dialing < c.config.Connections || !s.busy() {
			return false
		}
	}
	return len(c.servers) > 0
}

// place finds the connection for a batch: of the servers with the best priority that are not left
// alone, the one that has least to do. A stock stays with its server, so that its ids stay in order.
// Without a connection, until is when a server that is left alone may be asked again, and hope says
// that some server may still answer. c.mu is held.
func (c *Client) place(b *batch, now time.Duration) (best *conn, until time.Duration, hope bool) {
	hope = len(c.servers) == 0 // as long as the resolver looks for some
	tier := 0
	stay := b.stays(now)
	from := 0
	if len(c.servers) > 1 {
		from = rand.IntN(len(c.servers))
	}
	found := false
	for i := range c.servers {
		s := c.servers[(from+i)%len(c.servers)]
		if b.failedAt(s) {
			continue
		}
		hope = true
		if s.until > now {
			if until == 0 || s.until < until {
				until = s.until
			}
			continue
		}
		if stay && s != b.server {
			continue
		}
		if !found || s.Priority < tier {
			found, tier, best = true, s.Priority, nil
		}
		if s.Priority > tier {
			continue
		}
		best = c.lessBusy(s, b, best)
	}
	return best, until, hope
}

// lessBusy returns the connection of a server that has room for a batch and less to do than best, or best. It dials
// those that are missing. c.mu is held.
func (c *Client) lessBusy(s *server, b *batch, best *conn) *conn {
	for len(s.conns)+s.dialing < c.config.Connections {
		c.dial(s)
	}
	for _, k := range s.conns {
		if k.hasRoom(b) && (best == nil || len(k.flight) < len(best.flight)) {
			best = k
		}
	}
	return best
}

// stays reports whether a batch for a stock goes to the server that the last one went to.
func (b *batch) stays(now time.Duration) bool {
	s := b.server
	return b.stock != nil && s != nil && !s.gone && !b.failedAt(s) && s.until <= now && len(s.conns) > 0
}
