package script

import (
	"cmp"
	"fmt"
	"strconv"
)

// Ways to Init.
const (
	InitNew = "new" // the pool was never used, or all its daemons have stopped and given everything back
	// it may have been used: no daemon gets a worker id until every lease that may have been forgotten
	// is over
	InitWait     = "wait"
	InitReplace  = "replace"  // new settings, after all daemons have stopped; waits too
	InitMigrated = "migrated" // no yaraus client is left
)

// Init makes a pool or changes its settings.
type Init struct {
	Terms
	Now       int64 // the operator's clock, Unix ms; incarnations use the server's
	RequestID string
	How       string
}

// Call implements Call.
func (c Init) Call() (string, []string) {
	t := c.Terms
	t.Fingerprint = ""
	return "init", append(t.args(c.Now, c.RequestID), c.Fingerprint, c.How)
}

// ReadInit reads the result of Init: made, waiting (no daemon gets a worker id for one lease), adopted
// (from yaraus), migrated, or present if there was nothing to do.
func ReadInit(reply any) (string, error) {
	a := read(reply)
	a.number()
	return a.text(), a.err
}

// Free ends a lease for its owner.
type Free struct {
	Terms
	Now       int64 // the operator's clock, Unix ms
	RequestID string
	Worker    uint64
}

// Call implements Call.
func (c Free) Call() (string, []string) {
	return "free", append(c.args(c.Now, c.RequestID), id(c.Worker))
}

// Freed is the answer to Free: who had the worker id, until when, and its high-water mark. Unix ms.
type Freed struct {
	Owner            string
	Ended, HighWater int64
}

// ReadFreed reads the answer to Free.
func ReadFreed(reply any) (Freed, error) {
	a := read(reply)
	a.number()
	f := Freed{a.text(), a.number(), a.number()}
	return f, a.err
}

// SetReplicas sets for all daemons how many replicas must have a grant. Negative: their own flags
// apply.
type SetReplicas struct {
	Terms
	Number int
}

// Call implements Call.
func (c SetReplicas) Call() (string, []string) {
	n := ""
	if c.Number >= 0 {
		n = strconv.Itoa(c.Number)
	}
	return "replicas", append(c.args(0, "-"), n)
}

// ResetClock accepts the server's clock after it was set back.
type ResetClock struct {
	Terms
	Now       int64 // the operator's clock, Unix ms
	RequestID string
	Unsure    int64 // the lease to assume, ms, if the pool's cannot be read
}

// Call implements Call.
func (c ResetClock) Call() (string, []string) {
	return "clock", append(c.Terms.Lenient().args(0, c.RequestID), ms(c.Now), ms(c.MaxSkew), ms(c.Unsure))
}

// ClockReset is the answer to ResetClock: the clock, the latest time that it had shown, and until when
// no daemon gets a worker id. Unix ms.
type ClockReset struct{ Now, Seen, Floor int64 }

// ReadClockReset reads the answer to ResetClock.
func ReadClockReset(reply any) (ClockReset, error) {
	a := read(reply)
	r := ClockReset{a.number(), a.number(), a.number()}
	return r, a.err
}

// Read asks for all of the pool's data.
type Read struct{ Terms }

// Call implements Call.
func (c Read) Call() (string, []string) {
	return "read", c.args(0, "-")
}

// A Dump is the answer to Read: the keys as they are.
type Dump struct {
	Now       int64  // Unix ms
	Info      string // sections server and replication
	Meta      map[string]string
	Stats     map[string]string
	Order     []uint64 // the worker ids of IDs, in the order in which they would be given out
	IDs       map[uint64]float64
	Clients   map[uint64]string
	HighWater map[uint64]string
}

// ReadDump reads the answer to Read. It skips members that are not worker ids.
func ReadDump(reply any) (Dump, error) {
	a := read(reply)
	d := Dump{Now: a.number(), Info: a.text(), IDs: map[uint64]float64{}, Clients: map[uint64]string{},
		HighWater: map[uint64]string{}}
	d.Meta, d.Stats = a.hash(), a.hash()
	ids := read(a.next())
	for len(ids.values) > 0 && ids.err == nil {
		w, err := ParseMember(ids.text())
		score, scoreErr := strconv.ParseFloat(ids.text(), 64)
		if err == nil && scoreErr == nil {
			d.IDs[w] = score
			d.Order = append(d.Order, w)
		}
	}
	byWorker(a.hash(), d.Clients)
	byWorker(a.hash(), d.HighWater)
	a.err = cmp.Or(a.err, ids.err)
	return d, a.err
}

func byWorker(from map[string]string, into map[uint64]string) {
	for m, v := range from {
		if w, err := ParseMember(m); err == nil {
			into[w] = v
		}
	}
}

func (a *answer) hash() map[string]string {
	flat, h := read(a.next()), map[string]string{}
	for len(flat.values) > 0 && flat.err == nil {
		k := flat.text()
		h[k] = flat.text()
	}
	a.err = cmp.Or(a.err, flat.err)
	return h
}

// ParseRecord parses a value of NS:hw: the high-water mark, the id of the request that wrote it,
// and the start of the holder's window.
func ParseRecord(s string) (mark int64, requestID string, lo int64, err error) {
	if _, err = fmt.Sscanf(s, "%d %s %d", &mark, &requestID, &lo); err != nil {
		err = fmt.Errorf("redis: %q is no record", s)
	}
	return mark, requestID, lo, err
}
