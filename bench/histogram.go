package main

import (
	"math/bits"
	"time"
)

// Each power of two is cut into 64 buckets, so a latency is known to 1.6 %.
const (
	subBits    = 6
	maxLatency = 1 << 36 // ns, 68 s; anything longer counts as this
	buckets    = (36 - subBits + 1) << subBits
)

// A histogram counts latencies. It never allocates after it is made.
type histogram struct {
	count [buckets]uint64
	total uint64
}

// add counts n answers that took ns nanoseconds each.
func (h *histogram) add(ns int64, n int) {
	h.count[bucket(ns)] += uint64(n)
	h.total += uint64(n)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.count {
		h.count[i] += n
	}
	h.total += o.total
}

// quantile returns the latency that the share q of all answers did not exceed: the middle of its
// bucket.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total))
	if rank >= h.total {
		rank = h.total - 1
	}
	var seen uint64
	for i, n := range h.count {
		if seen += n; seen > rank {
			return time.Duration((lowest(i) + lowest(i+1)) / 2)
		}
	}
	return maxLatency
}

// bucket maps 0..127 to themselves, and from there on 64 buckets to each doubling.
func bucket(ns int64) int {
	v := uint64(min(max(ns, 0), maxLatency-1))
	shift := max(bits.Len64(v)-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// lowest is the smallest latency of bucket i.
func lowest(i int) int64 {
	shift := max(i>>subBits-1, 0)
	return int64(i-shift<<subBits) << shift
}
