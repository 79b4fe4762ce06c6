package client

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// A server is what the client knows of one. Guarded by Client.mu.
type server struct {
	Server
	conns   []*conn // ready for requests
	dialing int
	until   time.Duration    // it is left alone until then
	fails   int              // in a row
	unready int              // SERVER_ERRORs in a row
	err     error            // the last failure; nil after an answer
	gone    bool             // the resolver does not name it any more
	marks   map[string]*mark // by name
}

// mark is where the last id is noted that the server has answered for a name.
func (s *server) mark(name string) *mark {
	m := s.marks[name]
	if m == nil {
		if s.marks == nil || len(s.marks) == maxMarks {
			s.marks = make(map[string]*mark)
		}
		m = new(mark)
		s.marks[name] = m
	}
	return m
}

// busy reports whether no connection has room.
func (s *server) busy() bool {
	return !slices.ContainsFunc(s.conns, func(k *conn) bool { return !k.busy() })
}

// The first SERVER_ERROR may be only that ids were asked for too fast; later ones last.
const (
	minUnready = 5 * time.Millisecond
	maxUnready = time.Second
)

// backoff is least, doubled for each failure after the first, at most most; up to half of it is random.
func backoff(failures int, least, most time.Duration) time.Duration {
	d := least
	for ; failures > 1 && d < most; failures-- {
		d *= 2
	}
	d = min(d, most)
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

// setBack leaves a server alone after a failure, and has the resolver look again. c.mu is held.
func (c *Client) setBack(s *server, err error) {
	s.fails++
	s.err = err
	d := backoff(s.fails, c.config.MinBackoff, c.config.MaxBackoff)
	s.until = c.now() + d
	c.config.Logger.Warn("id server failed", "server", s.Addr, "error", err, "failures", s.fails, "retry_in", d)
	c.lookAgain()
}

// answered notes how a batch on k ended. err is nil, or an answer that leaves the connection in step.
// It returns the batch if the caller must tell its callers. c.mu is held.
func (c *Client) answered(k *conn, err error) *batch {
	now := c.now()
	b, s := k.flight[0], k.server
	known := k.modeOf(b) == byIDs
	k.flight = k.flight[:copy(k.flight, k.flight[1:])]
	k.since = now
	k.old, k.known = true, k.known || known
	s.fails = 0
	switch {
	case err == nil:
		s.unready, s.until, s.err = 0, 0, nil
		c.stats.Received += uint64(b.n)
		b.server = s
		return b
	case errors.Is(err, errUnknown):
		k.noIDs = true
		c.queue = slices.Insert(c.queue, 0, b)
		return nil
	case errors.Is(err, ErrUnready):
		s.unready++
		s.err = err
		s.until = now + backoff(s.unready, minUnready, maxUnready)
		b.fail(s, err)
		c.queue = slices.Insert(c.queue, 0, b)
	default:
		c.end(b, problems{failure{s, err}})
	}
	c.stats.Failed++
	return nil
}

// lose gives a connection up. Its batches are asked for anew elsewhere. c.mu is held.
func (c *Client) lose(k *conn, err error) {
	if k.dead {
		return
	}
	k.dead = true
	k.timer.Stop()
	k.raw.Close()
	s := k.server
	delete(c.conns, k)
	s.conns = slices.DeleteFunc(s.conns, func(x *conn) bool { return x == k })
	flight := k.flight
	k.flight = nil
	if err == ErrClosed {
		for _, b := range flight {
			c.end(b, err)
		}
		return
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	if len(flight) == 0 && ended {
		c.config.Logger.Debug("id server closed an idle connection", slog.String("server", s.Addr))
		return
	}
	// A server may close a connection that was idle, or restart, at the moment of a request. That says
	// nothing about a new connection.
	stale := ended && k.old && !k.begun
	for _, b := range flight {
		c.stats.Failed++
		if !stale || b.again {
			b.fail(s, err)
		}
		b.again = b.again || stale
	}
	if !stale {
		c.setBack(s, err)
	}
	c.queue = slices.Insert(c.queue, 0, flight...)
}

// setServers makes servers the ones that are asked. Connections to others are closed when their last
// request is answered. An empty list changes nothing. Of a list that is too long, servers that are
// asked already stay.
func (c *Client) setServers(list []Server) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	known := make(map[Server]*server)
	for _, s := range c.servers {
		known[s.Server] = s
	}
	if len(list) > maxServers { // each gets a connection
		c.config.Logger.Warn("the resolver names too many servers: some are left out", "servers", len(list), "limit",
			maxServers)
		isNew := func(v Server) bool { return known[v] == nil }
		list = slices.Concat(slices.DeleteFunc(slices.Clone(list), isNew), list)[:maxServers]
	}
	var servers []*server
	named := make(map[*server]bool)
	for _, v := range list {
		s := known[v]
		if s == nil {
			if problem := checkAddr(v.Addr); problem != nil {
				c.config.Logger.Warn("the resolver names a server that has no valid address", "error", problem)
				continue
			}
			s = &server{Server: v}
			known[v] = s
		}
		if !named[s] {
			named[s] = true
			servers = append(servers, s)
		}
	}
	if len(servers) == 0 {
		c.mu.Unlock()
		return
	}
	for _, s := range c.servers {
		if named[s] {
			continue
		}
		s.gone = true
		for _, k := range slices.Clone(s.conns) {
			c.retire(k)
		}
	}
	c.servers = servers
	c.mu.Unlock()
	c.pump()
}

// retire closes a connection to a server that is gone, unless it waits for an answer. c.mu is held.
func (c *Client) retire(k *conn) {
	if k.server.gone && len(k.flight) == 0 {
		c.lose(k, io.EOF)
	}
}
