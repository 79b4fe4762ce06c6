package redismodel

import (
	"maps"
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A Server is a Redis server that holds one pool. It has no clock: calls are told its time.
type Server struct {
	Run, Replid string // ids of the process and of the data's origin, hexadecimal
	Replica     bool
	Online      int // its replicas that are connected
	Keys        Keys
	Mutant      Mutant
}

// Keys are the pool's keys.
type Keys struct {
	IDs       map[uint64]float64 // when the lease ends, Unix s
	Clients   map[uint64]string  // owner
	Stats     map[string]int64
	HighWater map[uint64]Record
	Meta      Meta
}

// A Record is an entry of NS:hw.
type Record struct {
	HighWater int64
	RequestID string
	Lo        int64
}

// Meta is NS:meta. Fields that the key does not have are zero.
type Meta struct {
	Incarnation string
	Seen, Floor int64
	Lmax, Eps   int64
	Fingerprint string
	Replicas    string // a number, or empty
	Yaraus      bool
	Jump        int64 // when the clock was first seen to be far ahead
}

// Clone is a copy, as a replica or a snapshot has it.
func (k Keys) Clone() Keys {
	k.IDs, k.Clients, k.Stats, k.HighWater = maps.Clone(k.IDs), maps.Clone(k.Clients), maps.Clone(k.Stats),
		maps.Clone(k.HighWater)
	return k
}

func (k *Keys) make() {
	if k.IDs == nil {
		k.IDs = map[uint64]float64{}
	}
	if k.Clients == nil {
		k.Clients = map[uint64]string{}
	}
	if k.Stats == nil {
		k.Stats = map[string]int64{}
	}
	if k.HighWater == nil {
		k.HighWater = map[uint64]Record{}
	}
}

// A Mutant is a mistake in the scripts. The zero Mutant makes none.
type Mutant int

// The mutants.
const (
	Sound                       Mutant = iota
	ReleaseDeletesRecord               // and with it the mark
	SuccessorStartsNow                 // whatever was granted before
	HiNotCapped                        // windows reach an hour further with every extension
	NoRequestID                        // whoever has the owner's name extends
	BlindRenewal                       // whoever asks extends, as long as the lease has not ended
	NoFloor                            // a new history begins without one
	ReclaimLate                        // a holder comes back however long its window is over
	IncarnationWithoutReplid           // a fail-back without a restart goes unnoticed
	ExtendLowersMark                   // to now + lease
	ReleaseNotChecked                  // last may lie anywhere
	IncarnationWithoutRequestID        // a second loss on one server is not told from the first
	RollBackNotNoticed                 // an own record that is too old counts
	NoEpsilon                          // clocks are believed
	FreedAtOnce                        // what an operator takes away is granted before its holder's window is over
	NewcomerBelieved                   // whatever clock he and the server have
	FreeSavesTime                      // an operator's release writes down the present
	end
)

// Mutants is all of them but Sound.
func Mutants() []Mutant {
	var all []Mutant
	for m := Sound + 1; m < end; m++ {
		all = append(all, m)
	}
	return all
}

func (m Mutant) String() string {
	return [...]string{
		"sound", "release deletes the record", "successor starts at now", "hi not capped", "no request id", "blind renewal",
		"no floor",
		"reclaim without prev > now + eps", "incarnation without replid", "mark lowered by extend", "release not checked",
		"incarnation without request id", "roll-back not noticed", "eps = 0", "operator's release grants at once",
		"a newcomer's clock is believed", "operator's release writes down the present",
	}[m]
}

func refuse(code string, fields ...string) error { return script.Refusal{Code: code, Fields: fields} }

// A run is one script's execution: the part that all of them begin with, and what it found. Names
// are the scripts' own.
type run struct {
	*Server
	t                          script.Terms
	requestID                  string
	raw, now                   int64
	incarnation, here          string
	floor, oldFloor            int64
	longest, lmax, slack       int64
	lull                       int64 // how long nobody may be heard of while somebody holds a worker id
	needed                     int
	existed, initialised, lost bool
}

// While yaraus clients are about, ms.
const (
	yarausSlack = 5000
	yarausLease = 1800000
)

// start does the checks. daemon is the caller's clock, 0 of an operator; raw is the server's.
func (s *Server) start(t script.Terms, requestID string, daemon, raw int64) (*run, error) {
	s.Keys.make()
	m := s.Keys.Meta
	skew := raw - daemon
	switch {
	case s.Replica:
		return nil, refuse("NOTMASTER", "slave")
	case daemon != 0 && max(skew, -skew) > t.MaxSkew:
		return nil, refuse("SKEW", itoa(skew))
	case m.Seen-raw > t.MaxSkew:
		return nil, refuse("CLOCK", itoa(m.Seen-raw))
	case t.Fingerprint != "" && m.Fingerprint != "" && m.Fingerprint != t.Fingerprint:
		return nil, refuse("FOREIGN", m.Fingerprint)
	}
	r := &run{Server: s, t: t, requestID: requestID, raw: raw, now: max(raw, m.Seen), incarnation: m.Incarnation,
		floor: m.Floor, oldFloor: m.Floor}
	r.needed = max(t.Replicas, 0)
	if n, err := strconv.Atoi(m.Replicas); err == nil {
		r.needed = n
	}
	if t.Replicas >= 0 && r.needed > 0 && s.Online > r.needed {
		return nil, refuse("REPLICAS", itoa(int64(s.Online)), itoa(int64(r.needed)))
	}
	if t.Min > t.Max {
		r.t.Min, r.t.Max = 1, 0
		if lo, ok := s.Keys.Stats["min"]; ok {
			r.t.Min, r.t.Max = uint64(lo), uint64(s.Keys.Stats["max"])
		}
	}
	r.longest = max(t.Lease, m.Lmax)
	if r.t.Epsilon = max(t.Epsilon, m.Eps); t.Lease == 0 && m.Eps != 0 {
		r.t.Epsilon = m.Eps
	}
	r.lmax = max(r.longest, t.MaxLease)
	if m.Yaraus {
		r.slack, r.lmax = yarausSlack, max(r.lmax, yarausLease)
	}
	r.lull = r.lmax + r.t.Epsilon
	if s.Mutant == NoEpsilon {
		r.t.Epsilon = 0
	}
	r.here = s.Run + ":" + s.Replid + ":"
	if s.Mutant == IncarnationWithoutReplid {
		r.here = s.Run + ":"
	}
	r.existed, r.initialised = m.Incarnation != "", len(s.Keys.IDs) > 0
	r.lost = len(r.incarnation) < len(r.here) || r.incarnation[:len(r.here)] != r.here || !r.initialised
	return r, nil
}

func (r *run) begin() {
	r.incarnation = r.here + r.requestID
	if r.Mutant == IncarnationWithoutRequestID {
		r.incarnation = r.here
	}
	if r.Mutant != NoFloor {
		r.floor = max(r.floor, r.now+r.lmax+r.t.Epsilon)
	}
}

// longestHold is how long a clock that went forward must have lasted, ms, where leases are longer.
const longestHold = 50000

// jumped refuses a newcomer while the clock is far ahead of what any holder left behind.
func (r *run) jumped() error {
	m, hold := &r.Keys.Meta, min(longestHold, r.lmax)
	if m.Seen == 0 || r.Mutant == NewcomerBelieved || r.raw-m.Seen <= r.lull || m.Jump != 0 && r.raw-m.Jump >= hold {
		return nil
	}
	for w := range r.Keys.Clients {
		if r.Keys.IDs[w] <= score(m.Seen) {
			continue
		}
		if m.Jump == 0 || r.raw < m.Jump {
			m.Jump = r.raw
		}
		return refuse("JUMP", itoa(r.raw-m.Seen), itoa(m.Jump+hold-r.raw))
	}
	return nil
}

func (r *run) save() {
	m := &r.Keys.Meta
	m.Incarnation, m.Seen, m.Floor, m.Lmax, m.Jump = r.incarnation, r.now, r.floor, r.longest, 0
	if r.t.Fingerprint != "" {
		m.Fingerprint, m.Eps = r.t.Fingerprint, r.t.Epsilon
	}
	if !r.lost && r.floor == r.oldFloor {
		return
	}
	for w := r.t.Min; w <= r.t.Max; w++ {
		if r.expiry(w) < r.floor {
			r.Keys.IDs[w] = score(r.floor)
		}
		if _, ok := r.Keys.HighWater[w]; !ok {
			r.Keys.HighWater[w] = Record{0, "-", 0}
		}
	}
	r.Keys.Stats["min"], r.Keys.Stats["max"] = int64(r.t.Min), int64(r.t.Max)
}

func (r *run) record(w uint64) Record {
	if rec, ok := r.Keys.HighWater[w]; ok {
		return rec
	}
	return Record{-1, "-", 0}
}

func (r *run) expiry(w uint64) int64 { return millis(r.Keys.IDs[w]) }

func (r *run) grant(w uint64, owner string, hi, lo int64) {
	r.Keys.Clients[w] = owner
	r.Keys.HighWater[w] = Record{hi, r.requestID, lo}
	if hi > r.expiry(w) {
		r.Keys.IDs[w] = score(hi)
	}
}

func (r *run) server() script.Server {
	return script.Server{Now: r.raw, Incarnation: r.incarnation, Needed: r.needed, Replicas: r.Online}
}

// byExpiry is the worker ids of the sorted set, in its order.
func (r *run) byExpiry() []uint64 {
	return slices.SortedFunc(maps.Keys(r.Keys.IDs), func(a, b uint64) int {
		switch sa, sb := r.Keys.IDs[a], r.Keys.IDs[b]; {
		case sa < sb || sa == sb && a < b:
			return -1
		default:
			return 1
		}
	})
}
