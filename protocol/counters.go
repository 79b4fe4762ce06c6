package protocol

import "sync/atomic"

// A Counter names one thing that sessions count. Commands are command lines and binary frames
// alike, by kind, refused ones included.
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

// Counters counts what the sessions of one event loop did. Sessions add to it, once per Feed;
// anybody may read it at any time.
type Counters struct {
	n [NumCounters]atomic.Uint64
	_ [64]byte // the counters of two loops never share a cache line
}

// Add counts outside of a Turn.
func (c *Counters) Add(what Counter, n int) { c.n[what].Add(uint64(n)) }

// Counts is a reading of Counters, or a sum of several.
type Counts [NumCounters]uint64

// AddTo adds the present counts to a sum.
func (c *Counters) AddTo(sum *Counts) {
	for i := range c.n {
		sum[i] += c.n[i].Load()
	}
}
