package client

import (
	"context"
	"fmt"
	"sync"
)

// A stock has ids ready before they are asked for. It hands them out in the order in which a server
// issued them: only one request for it is in flight at a time, and when another server answers, what
// is left of the former's is dropped.
type stock struct {
	c *Client
	g *Generator

	mu      sync.Mutex
	runs    []aged // the next id is the first one's
	have    int
	size    int     // to have, at most Config.Prefetch
	server  *server // who issued the ids
	refill  *batch  // the request that is under way
	waiting int     // ids that callers wait for
	taken   int     // ids since the last refill was asked for
	since   int64   // when that was
}

// An aged run was asked for at a moment.
type aged struct {
	run
	sent int64
}

// take fills ids. It asks for more when half of the stock is gone.
func (s *stock) take(ctx context.Context, ids []uint64) error {
	late := 0
	s.mu.Lock()
	for {
		now := s.c.config.now()
		s.drop(now)
		ids = ids[s.pop(ids):]
		var fresh *batch
		if s.refill == nil && s.have <= s.size/2 {
			fresh = s.order(now, len(ids))
		}
		wait := s.refill
		if len(ids) == 0 {
			wait = nil
		} else {
			s.waiting += len(ids)
		}
		s.mu.Unlock()
		if fresh != nil {
			s.c.begin(fresh)
		}
		if wait == nil {
			return nil
		}
		err := s.await(ctx, wait)
		if err == nil && s.tooOld(wait.sent, s.c.config.now()) {
			if late++; late > 1 { // once may be a pause of this process
				err = problems{fmt.Errorf("%w: answers take longer than MaxAge, %v", ErrTimeout, s.c.config.MaxAge)}
			}
		}
		s.mu.Lock()
		s.waiting -= len(ids)
		if err != nil {
			s.mu.Unlock()
			return err
		}
	}
}

func (s *stock) await(ctx context.Context, b *batch) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return s.c.leave(ctx, b)
	}
}

// begin sends a batch that nobody joins.
func (c *Client) begin(b *batch) {
	c.mu.Lock()
	if c.closed {
		c.end(b, ErrClosed)
	} else {
		c.queue = append(c.queue, b)
	}
	c.mu.Unlock()
	c.pump()
}

// tooOld reports whether ids that were asked for at sent must not be handed out any more.
func (s *stock) tooOld(sent, now int64) bool {
	age := now - sent
	return age < 0 || age > int64(s.c.config.MaxAge)
}

// drop drops ids that are too old. s.mu is held.
func (s *stock) drop(now int64) {
	n := 0
	for len(s.runs) > 0 && s.tooOld(s.runs[0].sent, now) {
		n += s.runs[0].n
		s.runs = s.runs[1:]
	}
	s.lost(n)
}

// lost counts ids that were dropped. s.mu is held.
func (s *stock) lost(n int) {
	if n > 0 {
		s.have -= n
		s.c.expired.Add(uint64(n))
	}
}

// pop moves ids out of the stock. s.mu is held.
func (s *stock) pop(ids []uint64) (n int) {
	for n < len(ids) && s.have > 0 {
		r := &s.runs[0]
		ids[n] = r.first
		r.first += r.stride
		n++
		s.have--
		if r.n--; r.n == 0 {
			s.runs = s.runs[1:]
		}
	}
	s.taken += n
	return n
}

// order makes the request that fills the stock up, for at least need ids. The stock is to be used up
// within half of MaxAge at the rate at which ids were taken since the last one; it at most doubles, so
// that two calls in a row are not taken for a rate. s.mu is held.
func (s *stock) order(now int64, need int) *batch {
	config := &s.c.config
	s.size = min(2*s.size+1, config.Prefetch)
	if passed := now - s.since; passed > 0 {
		s.size = int(min(float64(s.size), float64(s.taken)/float64(passed)*float64(config.MaxAge/2)))
	}
	s.taken, s.since = 0, now
	n := max(s.size-s.have, s.waiting+need, 1)
	s.refill = &batch{gen: s.g, stock: s, server: s.server, n: min(n, maxRange), done: make(chan struct{})}
	return s.refill
}

// add puts the ids of an answer into the stock.
func (s *stock) add(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill = nil
	if b.server != s.server {
		s.lost(s.have)
		s.runs, s.server = nil, b.server
	}
	for _, r := range b.runs {
		s.runs = append(s.runs, aged{r, b.sent})
	}
	s.have += b.n
}

// failed notes that an answer brought nothing. Client.mu is held.
func (s *stock) failed() {
	s.mu.Lock()
	s.refill = nil
	s.mu.Unlock()
}
