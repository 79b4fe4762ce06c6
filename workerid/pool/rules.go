package pool

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A Moment is the present. Durations between two events come from Boot.
type Moment struct {
	Boot time.Duration // since any start; it cannot be set, and runs on while the host sleeps
	ID   int64         // the id clock, Unix ms
	Wall int64         // the wall clock, Unix ms
}

// A View is what one answer of the store said. Texts are as they are recorded; a record that is not
// there is "".
type View struct {
	Meta    string
	Records map[uint64]string
	Present map[uint64]string // filled only by a reading of everything
}

// A Change is written whole or not at all: only if what is recorded is IfMeta and If. "" as IfMeta
// means that meta is not compared, as SetMeta that it is not written. "" in If means that there must
// be no record. Every record in Set is in If.
type Change struct {
	IfMeta, SetMeta string
	Fresh           bool // there must be no meta; IfMeta is "" then
	If, Set         map[uint64]string
}

// Rules decides. Durations are in ms. A simulation replaces single methods to prove that it would
// notice if a rule were missing.
type Rules struct {
	W       time.Duration
	MaxSkew int64 // ms
}

// WatchOf is W for a heartbeat and the time-out of a call.
func WatchOf(heartbeat, timeout time.Duration) time.Duration {
	return heartbeat + heartbeat/10 + 2*timeout
}

// Watch is how long a newcomer watches, or a lane that comes back.
func (r Rules) Watch(newcomer bool) time.Duration { return r.W }

// Fresh says whether a lane may write without a watch, so long after sending its last acknowledged
// write.
func (r Rules) Fresh(since time.Duration) bool { return since <= r.W }

// A Holding is what a daemon knows of a lease.
type Holding struct {
	Owner      string
	Last       Record                  // as the last acknowledged write left it
	Epoch      string                  // in meta, at that write
	Unanswered []Sent                  // writes since, whose answers did not come
	Mine       func(token string) bool // whether this process ever sent a request id
}

// Sent is a write and the epoch that it compared.
type Sent struct {
	Worker uint64
	Record Record
	Epoch  string
}

// A Verdict is what a record says to a daemon that holds, or held, its worker id.
type Verdict int

// The verdicts.
const (
	Held       Verdict = iota // go on from the record
	Taken                     // another daemon has it; the window stays ours to its end
	Copied                    // a copy of this process extended it: stop at once
	RolledBack                // the store has forgotten something
)

// Judge says what a record means to its holder (C3). For Held, it returns the write that was found.
func (r Rules) Judge(h Holding, text string) (Verdict, Sent) {
	rec, err := ParseRecord(text)
	if err != nil {
		return RolledBack, Sent{}
	}
	if rec == h.Last {
		return Held, Sent{Record: rec, Epoch: h.Epoch}
	}
	for _, s := range h.Unanswered {
		if rec == s.Record {
			return Held, s
		}
	}
	switch {
	case rec.Owner == h.Owner && !h.Mine(rec.Token):
		return Copied, Sent{}
	case !h.Mine(rec.Token) && rec.Mark >= h.Last.Mark:
		return Taken, Sent{}
	}
	return RolledBack, Sent{}
}

// Returns says whether a lane may go on after a watch: not if the epoch is another one than at its
// last acknowledged write, or at the write that was found.
func (r Rules) Returns(found Sent, meta Meta) bool { return found.Epoch == meta.Epoch }

// Vacant says whether a newcomer may take a record that it has read before and after a watch (C2).
func (r Rules) Vacant(before, after, present string, m Meta, now Moment) bool {
	rec, err := ParseRecord(after)
	if p, bad := ParsePresence(present); bad == nil && p.Owner == rec.Owner { // an earlier owner's does not count
		return false
	}
	return err == nil && before == after && rec.Mark <= now.ID+m.Lease+r.MaxSkew
}

// Start is the start of the next window of a record.
func (r Rules) Start(rec Record, m Meta) int64 { return max(rec.Mark, m.Floor) + 2 }

// Take is the record of a newcomer. Its window is empty if it starts in the future.
func (r Rules) Take(rec Record, m Meta, owner, token string, now Moment) Record {
	next := Record{Lo: r.Start(rec, m), Token: token, Owner: owner}
	next.Mark = next.Lo - 1
	return r.Extend(next, m, token, now)
}

// Extend is the record of a holder that goes on (C3).
func (r Rules) Extend(rec Record, m Meta, token string, now Moment) Record {
	rec.Token = token
	if rec.Lo <= now.ID {
		rec.Mark = max(rec.Mark, now.ID+m.Lease)
	}
	return rec
}

// Release is the record of a holder whose generator was sealed and issued last (C5).
func (r Rules) Release(rec Record, last int64, token string) Record {
	return Record{Mark: max(last, rec.Lo-1), Lo: rec.Lo, Token: token}
}

// Raise is the meta that a daemon writes that was rolled back and has a window up to hi (C4).
func (r Rules) Raise(m Meta, hi int64, epoch string, now Moment) Meta {
	m.Epoch = epoch
	m.Floor = max(m.Floor, hi, max(now.ID, now.Wall)+m.Lease+m.Epsilon)
	return m
}

// Raised says whether another daemon raised the floor a moment ago, for all windows that may have been
// forgotten by now and for one up to hi. Then this one need not (C4). A meta from before a restore says
// so only if no window was lost that ids were issued from.
func (r Rules) Raised(m Meta, hi int64, now Moment) bool {
	return m.Floor >= max(hi, max(now.ID, now.Wall)+m.Lease+m.Epsilon-raiseLasts)
}

// raiseLasts, in ms, is what an epsilon has beside twice the maximum skew.
const raiseLasts = 1000

// Covered says whether no part of a window up to hi can be granted again.
func (r Rules) Covered(m Meta, text string, hi int64) bool {
	rec, err := ParseRecord(text)
	return m.Floor >= hi || err == nil && rec.Mark >= hi
}

// Order sorts vacant worker ids: first those that can issue at once. Of these, what ended long ago
// comes first, from a place on that depends on the owner, so that a mass start does not meet at one.
func (r Rules) Order(workers []uint64, records map[uint64]string, m Meta, owner string, now Moment) {
	h := fnv.New64a()
	h.Write([]byte(owner))
	place := m.Min + h.Sum64()%(m.Max-m.Min+1)
	starts := make(map[uint64]int64, len(workers))
	for _, w := range workers {
		rec, _ := ParseRecord(records[w])
		starts[w] = max(r.Start(rec, m), now.ID-m.Lease-r.MaxSkew) // before that, all are alike
	}
	distance := func(w uint64) uint64 { return (w - m.Min + m.Max - place + 1) % (m.Max - m.Min + 1) }
	slices.SortFunc(workers, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(starts[a], starts[b]), cmp.Compare(distance(a), distance(b)))
	})
}

// Skew compares this host's clock with those of the holders whose records moved between two readings
// that were this far apart (C6). It returns how far the median of these is ahead for certain, if there are any: it was
// read at some moment in between. One holder is enough to refuse, whichever clock is wrong: a raise by the one does not
// cover windows by the other.
func (r Rules) Skew(before, after map[uint64]string, m Meta, apart time.Duration, now Moment) (ahead time.Duration,
	holders int, err error) {
	var clocks []int64
	for w, text := range after {
		rec, err := ParseRecord(text)
		was, bad := ParseRecord(before[w])
		if err == nil && bad == nil && rec.Mark > was.Mark && rec.Owner == was.Owner && rec.Owner != "" {
			clocks = append(clocks, rec.Mark-m.Lease)
		}
	}
	if len(clocks) == 0 {
		return 0, 0, nil
	}
	slices.Sort(clocks)
	theirs := clocks[len(clocks)/2]
	off := theirs - now.ID
	if off < 0 {
		off = min(off+apart.Milliseconds(), 0)
	}
	if off < -r.MaxSkew || off > r.MaxSkew {
		err = fmt.Errorf("%w: this host's is %s, the median of %d holders %s. Correct the wrong one; if it is a "+
			"holder's (`katsubushi lease list`), restart that daemon too", workerid.ErrSkew, stamp(now.ID),
			len(clocks), stamp(theirs))
	}
	return time.Duration(off) * time.Millisecond, len(clocks), err
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
