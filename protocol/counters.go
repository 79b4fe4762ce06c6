package protocol

import (
	"math/bits"
	"sync/atomic"
)

// A Counter names one thing that sessions count. Commands are command lines and binary frames alike, by kind, refused ones included.
type Counter uint8

const (
	CmdOther   Counter = iota // what has no kind of its own, unknown commands included
	CmdGet                    // get; binary GET, GETQ, GETK, GETKQ
	CmdGets                   // gets
	CmdGat                    // gat, gats; binary GAT, GATQ, GATK, GATKQ
	CmdMetaGet                // mg
	CmdMeta                   // mn, me
	CmdSet                    // everything that sends a value: set, add, ..., cas, ms
	CmdTouch
	CmdDelete // delete, md
	CmdIncr   // incr, decr, ma
	CmdFlush
	CmdStats
	CmdVersion
	CmdAuth // attempts to authenticate that were decided: neither malformed ones nor the first of two steps

	IDs             // ids sent: memcached's get_hits
	Refused         // keys answered by an error instead of an id: get_misses
	Malformed       // commands answered by an error that the client is to blame for
	TooLong         // lines and frames over a limit
	Unauthenticated // commands refused for want of authentication
	AuthErrors      // those of CmdAuth that failed

	NumCounters
)

// Counters counts what the sessions of one event loop did. Sessions add to it, once per Feed; anybody may read it at any time.
type Counters struct {
	n [NumCounters]atomic.Uint64
	_ [64]byte // the counters of two loops never share a cache line
}

// Counts is a reading of Counters, or a sum of several.
type Counts [NumCounters]uint64

// AddTo adds the present counts to a sum.
func (c *Counters) AddTo(sum *Counts) {
	for i := range c.n {
		sum[i] += c.n[i].Load()
	}
}

// A tally holds the counts of one Feed, so that a pipeline of commands costs a handful of atomic additions and not one per command.
type tally struct {
	n       [NumCounters]uint32
	touched uint32 // bit i: n[i] is not 0
}

func (t *tally) add(c Counter, n int) {
	t.n[c] += uint32(n)
	t.touched |= 1 << c
}

func (t *tally) flush(to *Counters) {
	for m := t.touched; m != 0; m &= m - 1 {
		c := bits.TrailingZeros32(m)
		to.n[c].Add(uint64(t.n[c]))
	}
}
