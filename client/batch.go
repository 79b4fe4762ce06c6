package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A batch is one request for many callers. Each caller has a part of its indexes, from the moment it
// joins; no other caller ever gets the ids of that part, whether the caller still waits or not.
//
// Guarded by Client.mu until done is closed; from then on it never changes.
type batch struct {
	gen      *Generator
	text     bool
	stock    *stock // whom the ids are for, if not for callers
	limit    int    // ids from which on it is full
	n        int    // ids asked for
	joined   int    // callers
	left     int    // of these, those that have gone
	server   *server
	sent     int64 // Config.now before the request was written; of a stock's only
	again    bool  // it was asked for anew because an old connection had ended
	failed   []failure
	failedBy map[*server]bool // the servers of failed

	done  chan struct{} // closed when err, runs and texts are final; or, if one caller waits, it gets a value
	over  atomic.Bool   // done is closed
	woken sync.Cond     // done, for those who wait for nothing else; see waiter
	err   error
	runs  []run
	few   [3]run // room for runs
	texts string
	ends  []int // of each text
}

// A failure is what a server had to say to a batch.
type failure struct {
	server *server
	err    error
}

func (f failure) Error() string { return f.server.Addr + ": " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

// abandoned reports whether no caller waits for the batch any more.
func (b *batch) abandoned() bool { return b.stock == nil && b.left == b.joined }

func (b *batch) failedAt(s *server) bool { return b.failedBy[s] }

// said is what all servers had to say.
func (b *batch) said() problems {
	var p problems
	for _, f := range b.failed {
		p = append(p, f)
	}
	return p
}

// at is the id of index i.
func (b *batch) at(i int) uint64 {
	for _, r := range b.runs {
		if i < r.n {
			return r.at(i)
		}
		i -= r.n
	}
	panic("katsubushi client: a reply that is shorter than its batch")
}

// copyTo copies the ids from index i on, and returns how many there were.
func (b *batch) copyTo(ids []uint64, i int) (n int) {
	for _, r := range b.runs {
		for ; i < r.n && n < len(ids); i++ {
			ids[n] = r.at(i)
			n++
		}
		i = max(0, i-r.n)
	}
	return n
}

// join adds a caller who wants n ids, at most g.most, to the batch that is being filled, or to a new
// one. i is the caller's first index.
//
// The caller that begins a batch sends it, unless another goroutine attends already.
func (c *Client) join(g *Generator, text bool, n int) (b *batch, i int, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, 0, ErrClosed
	}
	open := &g.open
	if text {
		open = &g.openText
	}
	lead := false
	if *open == nil || (*open).n+n > (*open).limit {
		*open = c.newBatch(g, text)
		c.queue = append(c.queue, *open)
		lead, c.attended = !c.attended, true
	}
	b = *open
	i = b.n
	b.n += n
	b.joined++
	c.mu.Unlock()
	if lead {
		c.attend()
	}
	return b, i, nil
}

// newBatch returns an empty batch, a spent one if there is one. c.mu is held.
func (c *Client) newBatch(g *Generator, text bool) *batch {
	b, _ := c.spent.Get().(*batch)
	if b == nil {
		b = &batch{done: make(chan struct{}, 1)}
		b.woken.L = (*waiter)(b)
	}
	b.gen, b.text, b.limit = g, text, min(g.most, c.share)
	return b
}

// release makes a batch that had one caller, who has read all of it, ready for another: so a program with
// one goroutine, or with few, allocates nothing for a call. No other goroutine knows the batch any more: finish
// was the last to touch it, and the caller has waited for that.
func (b *batch) release() {
	if b.joined != 1 || b.err != nil || b.failed != nil {
		return
	}
	c := b.gen.c
	b.gen, b.server, b.runs, b.texts, b.ends = nil, nil, nil, "", nil
	b.n, b.joined, b.sent, b.again = 0, 0, 0, false
	b.over.Store(false)
	c.spent.Put(b)
}

// A waiter is a batch as a sync.Locker for those who have joined it: Unlock ends the joining, and Lock
// does nothing, because a caller that was woken only reads what is final. So a call locks Client.mu once. A
// Cond wakes a thousand goroutines for 10 % less than a channel does.
type waiter batch

func (w *waiter) Lock()   { w.over.Load() } // for the race detector, which does not know that Broadcast synchronizes
func (w *waiter) Unlock() { w.gen.c.mu.Unlock() }

// finish tells all callers that err, runs and texts are final. A caller who is alone may give the batch
// back at once, so waking it comes last.
func (b *batch) finish() {
	b.over.Store(true)
	b.woken.Broadcast()
	if b.joined == 1 {
		b.done <- struct{}{} // there is room, also if the caller has gone
		return
	}
	close(b.done)
}

// attend lets all runnable goroutines join batches, and sends these. It yields as long as more come. Go's
// scheduler returns to a goroutine that yielded after at most 61 others.
//
// c.attended is set, so that only one goroutine attends. It is best if that is one that reads: the stacks
// of callers stay small, of which a thousand compete for the cache.
func (c *Client) attend() {
	for batches, n, full := 0, 0, false; ; {
		c.yield()
		c.mu.Lock()
		before, had := batches, n
		if batches = len(c.queue); batches > 0 {
			last := c.queue[batches-1]
			n, full = last.n, last.n >= last.limit
		}
		if full || batches == before && n == had {
			c.attended = false
			c.mu.Unlock()
			c.pump()
			return
		}
		c.mu.Unlock()
	}
}

// wait waits for a batch. The caller's ids are lost if ctx ends first.
func (c *Client) wait(ctx context.Context, b *batch) error {
	if ctx.Done() == nil {
		<-b.done
		return b.err
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return c.leave(ctx, b)
	}
}

// leave tells why a caller goes without its ids.
func (c *Client) leave(ctx context.Context, b *batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.left++
	c.stats.Abandoned++
	return append(ended(ctx), b.said()...)
}

// ended is why ctx ended.
func ended(ctx context.Context) problems {
	if err := context.Cause(ctx); err != ctx.Err() {
		return problems{ctx.Err(), err}
	}
	return problems{ctx.Err()}
}

// end closes a batch that got no ids. c.mu is held.
func (c *Client) end(b *batch, err error) {
	c.close(b)
	b.err = err
	if b.stock != nil {
		b.stock.failed()
	}
	b.finish()
}

// close ends the time in which callers can join a batch. c.mu is held.
func (c *Client) close(b *batch) {
	if b.gen.open == b {
		b.gen.open = nil
	}
	if b.gen.openText == b {
		b.gen.openText = nil
	}
}

// take moves what a reply has brought into a batch.
func (b *batch) take(r *reply) {
	b.runs = append(b.few[:0], r.runs...)
	b.texts = string(r.texts)
	b.ends = slices.Clone(r.ends)
}

// fail notes what a server had to say, unless it has already.
func (b *batch) fail(s *server, err error) {
	if b.failedAt(s) {
		return
	}
	if b.failedBy == nil {
		b.failedBy = make(map[*server]bool)
	}
	b.failedBy[s] = true
	b.failed = append(b.failed, failure{s, err})
}
