package server

import (
	"container/heap"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget bounds the memory that all connections of a daemon together hold for input that their sessions have left and for output that
// their sockets have not taken: the capacity of the buffers, not the length of what is in them. Above the limit the connection that
// holds most is closed, then the next one, until the rest fits.
//
// A connection that is answered at once holds nothing and never comes here. One that does is in the share of its event loop (the portable
// engine has one share for each call of Serve), which knows who in it holds most. A loop may touch its own connections only, so whoever goes
// over the limit compares the shares and asks the one with the biggest holder. That one looks again when it gets round to it.
//
// What is held exceeds the limit by no more than shareStep for each loop, what one read or reply adds, and what is added while another
// loop finishes its turn. Not counted: what every connection has, open or idle; the buffers that a loop shares among its connections, a
// few MB each; and memory that was given up but not collected yet, by which Go's heap grows to more than twice of what is in use.
type Budget struct {
	limit  int64
	held   atomic.Int64
	peak   atomic.Int64 // of held since the last trim
	closed atomic.Uint64
	told   atomic.Pointer[told]

	trimming atomic.Bool // a trim is about to begin
	mu       sync.Mutex
	shares   []*Share
}

const (
	shareStep = 256 << 10 // what a share may keep back before it tells the budget
	trimStep  = 4 << 20   // how much less must be held before it is worth to give memory back to the system
	trimPause = time.Second
)

// NewBudget makes a budget of limit bytes; 0 = no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit is the limit in bytes; 0 = none.
func (b *Budget) Limit() int64 { return b.limit }

// Held is how many bytes are held now.
func (b *Budget) Held() int64 { return b.held.Load() }

// Closed counts the connections that were closed for holding most.
func (b *Budget) Closed() uint64 { return b.closed.Load() }

func (b *Budget) add(n int64) {
	held := b.held.Add(n)
	peak := b.peak.Load()
	for held > peak && !b.peak.CompareAndSwap(peak, held) {
		peak = b.peak.Load()
	}
	if peak-held >= trimStep && b.trimming.CompareAndSwap(false, true) {
		time.AfterFunc(trimPause, b.Trim)
	}
}

// Shares is how many owners have a share.
func (b *Budget) Shares() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.shares)
}

// Trim gives the memory of buffers that are no longer held back to the system. The runtime would do so too, but in minutes. The budget calls it by itself
// when much less is held than was.
func (b *Budget) Trim() {
	b.peak.Store(b.held.Load())
	b.trimming.Store(false) // what is given up from here on has a trim of its own
	b.mu.Lock()
	for _, s := range b.shares {
		s.trim()
	}
	b.mu.Unlock()
	runtime.GC() // pools give up what they hold in the second collection
	debug.FreeOSMemory()
}

func (b *Budget) TellClosed(log *slog.Logger) {
	closed := b.closed.Add(1)
	if since, due := dueLine(&b.told, closed); due {
		log.Warn("out of buffer memory: the connections that held most were closed", "limit", b.limit, "closed", since)
	}
}

// A Share is what the connections of one owner hold. Only the owner may use it.
type Share struct {
	*Budget
	relieve, trim func() // have the owner close who holds most, or give up what it keeps for later; from any goroutine, without waiting
	holders       holders
	own, told     int64        // held; of which the budget knows
	top           atomic.Int64 // what the biggest holder has, for the others
}

// Share makes the share of a new owner.
func (b *Budget) Share(relieve, trim func()) *Share {
	s := &Share{Budget: b, relieve: relieve, trim: trim}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = append(b.shares, s)
	return s
}

// Leave ends the share. Nothing is held in it any more.
func (s *Share) Leave() {
	s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares = slices.DeleteFunc(s.shares, func(other *Share) bool { return other == s })
}

// A Holding is the part of one connection.
type Holding struct {
	Size  int64
	at    int   // in holders
	Slot  int32 // event loops: of the connection
	Owner any   // portable engine: the connection
}

// Set notes that h is now of size bytes.
func (s *Share) Set(h *Holding, size int64) {
	before := h.Size
	h.Size = size
	switch {
	case size == before:
		return
	case before == 0:
		heap.Push(&s.holders, h)
	case size == 0:
		heap.Remove(&s.holders, h.at)
	default:
		heap.Fix(&s.holders, h.at)
	}
	top := int64(0)
	if len(s.holders) > 0 {
		top = s.holders[0].Size
	}
	if top != s.top.Load() {
		s.top.Store(top)
	}
	s.own += size - before
	if d := s.own - s.told; d >= shareStep || d <= -shareStep {
		s.Flush()
	}
}

// Flush tells the budget what has changed. Loops do so once a turn: the budget is shared with others.
func (s *Share) Flush() {
	if d := s.own - s.told; d != 0 {
		s.told = s.own
		s.add(d)
	}
}

func (s *Share) Over() bool { return s.limit > 0 && s.held.Load()+s.own-s.told > s.limit }

// Biggest returns who in the share is to be closed next: nil if all is well, or if others have to see to it, who are told so.
func (s *Share) Biggest() *Holding {
	if !s.Over() {
		return nil
	}
	s.Flush()
	if other := s.bigger(); other != nil {
		other.relieve()
		return nil
	}
	if len(s.holders) == 0 {
		return nil
	}
	return s.holders[0]
}

// bigger returns the share with the biggest holder of all, nil if it is s.
func (s *Share) bigger() (other *Share) {
	most := s.top.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, candidate := range s.shares {
		if top := candidate.top.Load(); top > most {
			most, other = top, candidate
		}
	}
	return other
}

// holders is a heap with the biggest on top.
type holders []*Holding

func (h holders) Len() int           { return len(h) }
func (h holders) Less(i, j int) bool { return h[i].Size > h[j].Size }
func (h holders) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push is for package heap.
func (h *holders) Push(x any) {
	one := x.(*Holding)
	one.at = len(*h)
	*h = append(*h, one)
}

// Pop is for package heap.
func (h *holders) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}
