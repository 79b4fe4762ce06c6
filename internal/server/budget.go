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

// A Budget limits the memory that all connections of a daemon together hold in two places: input
// that their sessions have not consumed, and output that their sockets have not taken. It counts
// the capacity of the buffers, not the length of their contents. Above the limit, the connection
// that holds the most is closed, then the next one, until the rest fits.
//
// A connection that is answered at once holds nothing and never gets here. One that does hold
// something belongs to the share of its event loop (the portable engine has one share per call of
// Serve), and the share knows which of its connections holds the most. A loop may touch only its
// own connections. So the loop that exceeds the limit compares the shares and signals the one with
// the biggest holder, which checks again when it handles the signal.
//
// The total exceeds the limit by at most shareStep per loop, what one read or reply adds, and what
// is added while another loop finishes its turn. Three things are not counted: what every
// connection has, open or idle; the buffers that a loop shares among its connections, a few MB
// each; and freed memory that is not collected yet, which lets Go's heap grow to more than twice
// the memory in use.
type Budget struct {
	limit  int64
	held   atomic.Int64
	peak   atomic.Int64 // highest value of held since the last trim
	closed atomic.Uint64
	told   atomic.Pointer[told]

	trimming atomic.Bool // a trim is scheduled
	mu       sync.Mutex
	shares   []*Share
}

const (
	shareStep = 256 << 10 // how much a share may change before it reports to the budget
	trimStep  = 4 << 20   // how far held must fall before giving memory back to the system pays
	trimPause = time.Second
)

// NewBudget makes a budget of limit bytes; 0 = no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit returns the limit in bytes; 0 = none.
func (b *Budget) Limit() int64 { return b.limit }

// Held returns how many bytes are held now.
func (b *Budget) Held() int64 { return b.held.Load() }

// Closed returns how many connections the budget has closed.
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

// Shares returns how many shares there are.
func (b *Budget) Shares() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.shares)
}

// Trim gives the memory of freed buffers back to the system. The runtime would do so too, but only
// after minutes. The budget calls Trim itself when held has fallen far enough.
func (b *Budget) Trim() {
	b.peak.Store(b.held.Load())
	b.trimming.Store(false) // memory freed from here on gets its own trim
	b.mu.Lock()
	for _, s := range b.shares {
		s.trim()
	}
	b.mu.Unlock()
	runtime.GC() // pools free their contents at the second collection
	debug.FreeOSMemory()
}

func (b *Budget) TellClosed(log *slog.Logger) {
	closed := b.closed.Add(1)
	if since, due := dueLine(&b.told, closed); due {
		log.Warn("out of buffer memory: the connections that held most were closed", "limit", b.limit, "closed", since)
	}
}

// A Share counts what the connections of one owner hold. Only the owner may use it.
type Share struct {
	*Budget
	// relieve asks the owner to close its biggest holder, trim to free spare buffers. Any goroutine
	// may call them; they do not wait.
	relieve, trim func()
	holders       holders
	own, told     int64        // bytes held; bytes reported to the budget
	top           atomic.Int64 // size of the biggest holder, read by other owners
}

// Share makes a share for a new owner.
func (b *Budget) Share(relieve, trim func()) *Share {
	s := &Share{Budget: b, relieve: relieve, trim: trim}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares = append(b.shares, s)
	return s
}

// Leave ends the share, which must hold nothing any more.
func (s *Share) Leave() {
	s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares = slices.DeleteFunc(s.shares, func(other *Share) bool { return other == s })
}

// A Holding is the part of a share that one connection holds.
type Holding struct {
	Size  int64
	at    int   // index in holders
	Slot  int32 // event loops: the connection's slot
	Owner any   // portable engine: the connection
}

// Set records that h now holds size bytes.
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

// Flush reports changes to the budget. Event loops call it once per turn, because the budget is
// shared with other threads.
func (s *Share) Flush() {
	if d := s.own - s.told; d != 0 {
		s.told = s.own
		s.add(d)
	}
}

func (s *Share) Over() bool { return s.limit > 0 && s.held.Load()+s.own-s.told > s.limit }

// Biggest returns the holding to close next. It returns nil if the budget has room, or if another
// share has the biggest holder; that share is then told to relieve.
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

// bigger returns the share with the biggest holder of all, or nil if that is s.
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

// holders is a heap with the biggest holding on top.
type holders []*Holding

func (h holders) Len() int           { return len(h) }
func (h holders) Less(i, j int) bool { return h[i].Size > h[j].Size }
func (h holders) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *holders) Push(x any) {
	one := x.(*Holding)
	one.at = len(*h)
	*h = append(*h, one)
}

// Pop implements heap.Interface.
func (h *holders) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}
