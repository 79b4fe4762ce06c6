package server

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// A Budget limits the memory that all connections of a daemon together hold in two places: input
// that their sessions have not consumed, and output that their sockets have not taken. It counts
// the capacity of the buffers, not the length of their contents. Above the limit, the peer whose
// connections together hold the most has to give back: its connection that holds the most is closed,
// then the next one, until the rest fits. The biggest connection of all would be the wrong one: whoever
// divides what it holds among many would have those closed that need more than each of them.
//
// A connection that is answered at once holds nothing and never gets here. One that does hold
// something belongs to the share of its event loop (the portable engine has one share per call of
// Serve), and the share knows what its connections of each peer hold, and which of them the most. A
// loop may touch only its own connections. So the loop that exceeds the limit looks for the share with
// the biggest holder of the heaviest peer and signals that loop, which checks again when it handles the
// signal.
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
	weights  peers.Weights // what the connections of a peer hold
	unknown  peers.Peer    // the last number given to a connection whose peer is not known
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

// TellClosed counts a connection that was closed for what it held, and logs from time to time how many were. Any
// goroutine may call it.
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
	crowds        map[peers.Peer]*crowd
	changed       []*crowd // those that Flush has to look at
	spare         []*crowd
	own, told     int64                // bytes held; bytes reported to the budget
	tops          map[peers.Peer]int64 // the size of each peer's biggest holder; guarded by Budget.mu
}

// A crowd is the connections of one peer in a share.
type crowd struct {
	peer      peers.Peer
	holders   peers.Heap[*Holding] // with the biggest on top
	own, told int64                // as the share's
	top       int64                // as Share.tops says
	changed   bool
}

func (c *crowd) biggest() int64 {
	if len(c.holders) == 0 {
		return 0
	}
	return c.holders[0].Size
}

const spareCrowds = 16

// Share makes a share for a new owner.
func (b *Budget) Share(relieve, trim func()) *Share {
	s := &Share{
		Budget: b, relieve: relieve, trim: trim,
		crowds: make(map[peers.Peer]*crowd), tops: make(map[peers.Peer]int64),
	}
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
	Size        int64
	Peer        peers.Peer // of the connection; it is set while Size is 0, later by Move. 0 = not known: it weighs alone
	in          *crowd     // while Size is not 0
	peers.Place            // in in.holders
	Slot        int32      // event loops: the connection's slot
	Owner       any        // portable engine: the connection
}

// Weight implements peers.Weighted.
func (h *Holding) Weight() int64 { return h.Size }

// Set records that h now holds size bytes.
func (s *Share) Set(h *Holding, size int64) {
	before := h.Size
	h.Size = size
	switch {
	case size == before:
		return
	case before == 0:
		h.in = s.crowd(h.Peer)
		h.in.holders.Add(h)
	case size == 0:
		h.in.holders.Remove(h)
	default:
		h.in.holders.Fix(h)
	}
	c := h.in
	if size == 0 {
		h.in = nil
	}
	c.own += size - before
	s.own += size - before
	if !c.changed {
		c.changed = true
		s.changed = append(s.changed, c)
	}
	if d := s.own - s.told; d >= shareStep || d <= -shareStep {
		s.Flush()
	}
}

// Move records whose h is.
func (s *Share) Move(h *Holding, p peers.Peer) {
	size := h.Size
	s.Set(h, 0)
	h.Peer = p
	s.Set(h, size)
}

// crowd returns that of a peer.
func (s *Share) crowd(p peers.Peer) *crowd {
	if p == 0 {
		s.mu.Lock()
		s.unknown++ // small numbers are no peer's, see peers.Of
		p = s.unknown
		s.mu.Unlock()
	}
	c := s.crowds[p]
	if c == nil {
		if last := len(s.spare) - 1; last >= 0 {
			c, s.spare = s.spare[last], s.spare[:last]
		} else {
			c = new(crowd)
		}
		c.peer = p
		s.crowds[p] = c
	}
	return c
}

// Flush reports changes to the budget. Event loops call it once per turn, because the budget is
// shared with other threads.
func (s *Share) Flush() {
	if len(s.changed) == 0 {
		return
	}
	s.mu.Lock()
	for i, c := range s.changed {
		s.changed[i] = nil
		c.changed = false
		s.weights.Add(c.peer, c.own-c.told)
		c.told = c.own
		if top := c.biggest(); top != c.top {
			c.top = top
			s.tops[c.peer] = top
		}
		if c.own == 0 {
			delete(s.tops, c.peer)
			delete(s.crowds, c.peer)
			if len(s.spare) < spareCrowds && cap(c.holders) <= tooManyHolders {
				s.spare = append(s.spare, c)
			}
		}
	}
	s.changed = s.changed[:0]
	s.mu.Unlock()
	if d := s.own - s.told; d != 0 {
		s.told = s.own
		s.add(d)
	}
}

// tooManyHolders is the size of a heap that is not kept.
const tooManyHolders = 64

// Over reports whether the connections hold more than the limit, with what this share has not yet reported.
func (s *Share) Over() bool { return s.limit > 0 && s.held.Load()+s.own-s.told > s.limit }

// Biggest returns the holding to close next. It returns nil if the budget has room, or if another
// share has the biggest holder of the heaviest peer; that share is then told to relieve.
func (s *Share) Biggest() *Holding {
	if !s.Over() {
		return nil
	}
	s.Flush()
	peer, other := s.heaviest()
	if other != nil {
		other.relieve()
		return nil
	}
	c := s.crowds[peer]
	if c == nil {
		return nil
	}
	return c.holders[0]
}

// heaviest returns the peer that holds the most, and the share with its biggest holder, or nil if that is s.
func (s *Share) heaviest() (p peers.Peer, other *Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ = s.weights.Heaviest()
	most := s.tops[p]
	for _, candidate := range s.shares {
		if top := candidate.tops[p]; top > most {
			most, other = top, candidate
		}
	}
	return p, other
}
