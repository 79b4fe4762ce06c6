package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// A stock has ids ready before they are asked for. It hands them out in the order in which a server
// issued them: only one request for it is in flight at a time, and when another server answers, what
// is left of the former's is dropped.
//
// Callers who find it empty have parts of the answer that is awaited, as callers of a batch have: so
// each of a thousand is woken once, and the first one does not take all.
//
// Where many more wait than a stock may have, it is of no use: one request after the other serves them more slowly
// than two at a time do. They form a crowd, which asks without the stock, until none of it waits any more. Meanwhile
// the stock is empty and asks for nothing, so that what it has later is later than what the crowd got.
type stock struct {
	c *Client
	g *Generator

	crowd atomic.Int64 // callers in it; it begins with mu held

	mu      sync.Mutex
	runs    []aged // the next id is the first one's
	have    int
	size    int     // to have, at most Config.Prefetch; some more if fewer are taken than before
	server  *server // who issued the ids
	refill  *batch  // the request that is under way
	wanted  int     // ids of refill that callers wait for, from the first one on; more than it has, at times
	waited  int     // the same of the last answer
	callers int     // who wait for refill
	many    bool    // so many waited for the last answer that they are better served without the stock
	taken   int     // ids since the last refill was asked for
	during  int     // ids taken from the stock while the last answer was under way
	since   int64   // when that was
	closed  bool    // it stays empty
}

// An aged run was asked for at a moment.
type aged struct {
	run
	sent int64
}

// errCrowd says that the caller is one of the crowd now. It must leave the crowd when it has its ids.
var errCrowd = errors.New("katsubushi client: many wait")

// crowding is how many callers must wait for each id that a stock may have before they are better served without it,
// and leastCrowd how many at least. With 1,000 goroutines the times are the same at 5; at 2 the stock is twice as fast,
// at 10 it takes 1.4 times as long.
const (
	crowding   = 5
	leastCrowd = 2 * minShare
)

// take fills ids, or returns errCrowd and those that are not filled. It asks for more when half of the stock is gone.
func (s *stock) take(ctx context.Context, ids []uint64) (rest []uint64, err error) {
	for late := 0; ; {
		s.mu.Lock()
		if s.gather() {
			s.mu.Unlock()
			return ids, errCrowd
		}
		var order *batch
		if s.have > 0 || s.refill == nil { // else there is no need to know the time
			now := s.c.config.now()
			s.drop(now)
			ids = ids[s.pop(ids):]
			if s.refill == nil && s.have <= s.size/2 {
				order = s.order(now, len(ids))
			}
		}
		b, i, part := s.refill, s.wanted, ids[:min(len(ids), maxPart)]
		if s.wanted += len(part); len(part) > 0 {
			s.callers++
		}
		s.taken += len(part)
		if len(part) > 0 && order == nil && ctx.Done() == nil {
			b.woken.Wait() // unlocks s.mu
		} else {
			s.mu.Unlock()
			if order != nil {
				s.c.begin(order)
			}
			if len(part) == 0 {
				return nil, nil
			}
			if err := s.c.wait(ctx, b); err != nil {
				return nil, err
			}
		}
		if b.err != nil {
			return nil, b.err
		}
		n := b.copyTo(part, i)
		if s.tooOld(b.sent, s.c.config.now()) {
			s.c.expired.Add(uint64(n))
			if late++; late > 1 { // once may be a pause of this process
				return nil, problems{fmt.Errorf("%w: answers take longer than MaxAge, %v", ErrTimeout, s.c.config.MaxAge)}
			}
		} else if ids = ids[n:]; len(ids) == 0 {
			return nil, nil
		}
	}
}

// gather reports whether the caller is one of the crowd, and begins one if s.many. s.mu is held.
func (s *stock) gather() bool {
	if s.enter() {
		return true
	}
	if s.have > 0 || s.refill != nil || !s.many {
		return false
	}
	s.many = false // the next crowd needs another proof
	s.crowd.Store(1)
	return true
}

// enter reports whether there is a crowd, and makes the caller one of it.
func (s *stock) enter() bool {
	for {
		n := s.crowd.Load()
		if n == 0 {
			return false
		}
		if s.crowd.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *stock) leave() { s.crowd.Add(-1) }

// begin sends a batch that no caller joins.
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
// that two calls in a row are not taken for a rate. As many are likely to be taken before the answer as
// before the last one. s.mu is held.
func (s *stock) order(now int64, need int) *batch {
	config := &s.c.config
	s.size = min(2*s.size+1, config.Prefetch)
	if passed := now - s.since; passed > 0 {
		s.size = int(min(float64(s.size), float64(s.taken)/float64(passed)*float64(config.MaxAge/2)))
	}
	s.taken, s.since = 0, now
	n := max(s.size-s.have+min(s.during, s.have)+s.waited, need, 1)
	s.wanted, s.callers = 0, 0
	s.refill = &batch{gen: s.g, stock: s, server: s.server, n: min(n, maxRange), done: make(chan struct{})}
	s.refill.woken.L = (*stockWaiter)(s.refill)
	return s.refill
}

// add puts the ids of an answer that no caller waits for into the stock.
func (s *stock) add(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill = nil
	if b.server != s.server {
		s.lost(s.have)
		s.runs, s.server = nil, b.server
	}
	s.during, s.waited = s.taken-s.wanted, s.wanted
	s.many = s.callers >= max(crowding*s.c.config.Prefetch, leastCrowd)
	skip := s.wanted
	for _, r := range b.runs {
		if skip < r.n && !s.closed {
			s.runs = append(s.runs, aged{run{r.at(skip), r.stride, r.n - skip}, b.sent})
			s.have += r.n - skip
		}
		skip = max(0, skip-r.n)
	}
}

// close empties the stock for good. Client.mu is held.
func (s *stock) close() {
	s.mu.Lock()
	s.runs, s.have, s.closed = nil, 0, true
	s.mu.Unlock()
}

// failed notes that an answer brought nothing. Client.mu is held.
func (s *stock) failed() {
	s.mu.Lock()
	s.refill = nil
	s.mu.Unlock()
}

// A stockWaiter is to callers of a stock what a waiter is to those of a batch.
type stockWaiter batch

func (w *stockWaiter) Lock()   { (*waiter)(w).Lock() }
func (w *stockWaiter) Unlock() { w.stock.mu.Unlock() }
