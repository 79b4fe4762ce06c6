package protocol

import "sync/atomic"

// A Counter names one thing that sessions count. The Cmd counters count commands by kind: text
// command lines and binary frames together, including refused ones.
type Counter uint8

const (
	CmdOther   Counter = iota // every other command, including unknown ones
	CmdGet                    // get; binary GET, GETQ, GETK, GETKQ
	CmdGets                   // gets
	CmdGat                    // gat, gats; binary GAT, GATQ, GATK, GATKQ
	CmdMetaGet                // mg
	CmdIDs                    // ids
	CmdMeta                   // mn, me
	CmdSet                    // every command that sends a value: set, add, ..., cas, ms
	CmdTouch                  // touch
	CmdDelete                 // delete, md
	CmdIncr                   // incr, decr, ma
	CmdFlush                  // flush_all
	CmdStats                  // stats
	CmdVersion                // version
	CmdAuth                   // completed attempts to authenticate: not malformed ones, nor the first of two steps

	IDs             // ids sent: memcached's get_hits
	Refused         // keys answered by an error instead of an id: memcached's get_misses
	Malformed       // commands answered by an error that is the client's fault
	TooLong         // lines and frames over a limit
	Unauthenticated // commands refused because the client has not authenticated
	AuthErrors      // CmdAuth attempts that failed
	IncrHits        // CmdIncr commands that issued numbers

	numCounters // how many counters there are
)

// Counters counts what the sessions of one event loop did. Sessions add to it once per Feed; any
// goroutine may read it at any time.
type Counters struct {
	n [numCounters]atomic.Uint64
	_ [64]byte // the counters of two loops never share a cache line
}

// Add counts something outside of a Turn.
func (c *Counters) Add(what Counter, n int) { c.n[what].Add(uint64(n)) }

// Counts is one reading of Counters, or a sum of several.
type Counts [numCounters]uint64

// AddTo adds the current counts to a sum.
func (c *Counters) AddTo(sum *Counts) {
	for i := range c.n {
		sum[i] += c.n[i].Load()
	}
}
