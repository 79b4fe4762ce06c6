// Package latency counts how long requests take: from when a turn of an event loop has their last byte
// until it hands their answers to the kernel.
//
// The guarantee: the buckets are exact, those of Prometheus's native histograms (schema 3: each is 9 %
// wider than the one before) and the classic ones, and the counts add up to the number of answers. Not
// promised: that each answer is measured. A Sampler measures some turns, and the answers of those that it
// does not measure count as if they had taken as long as those of the next turn that it does.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram is one event loop's own. Any goroutine may use it at any time; the zero value is ready. It
// never waits and never allocates.
type Histogram struct {
	_      [64]byte // two histograms never share a cache line
	counts [buckets]atomic.Uint64
	sum    atomic.Uint64 // ns; wraps around after 584 years of added-up latency
	_      [64]byte
}

// Observe counts n answers that each took d. What is longer than longest counts as that long.
func (h *Histogram) Observe(d time.Duration, n int) {
	d = min(max(d, 0), longest)
	h.counts[bucketOf(d)].Add(uint64(n))
	h.sum.Add(uint64(d) * uint64(n))
}

// A Snapshot is a sum of histograms, as they were when they were added.
type Snapshot struct {
	counts [buckets]uint64
	sum    uint64
}

// Add adds what h has counted so far.
func (s *Snapshot) Add(h *Histogram) {
	for i := range h.counts {
		s.counts[i] += h.counts[i].Load()
	}
	s.sum += h.sum.Load()
}

// Since returns what was counted after earlier, a Snapshot of the same histograms.
func (s Snapshot) Since(earlier Snapshot) Snapshot {
	for i := range s.counts {
		s.counts[i] -= earlier.counts[i]
	}
	s.sum -= earlier.sum
	return s
}

// Count returns the number of answers.
func (s Snapshot) Count() (n uint64) {
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Sum returns the time that all answers took together, in seconds.
func (s Snapshot) Sum() float64 { return float64(s.sum) / float64(time.Second) }

// Quantile returns how long the share q of all answers took at most, 0 <= q <= 1; 0 if there is none. It is
// wrong by less than a bucket's width, 9 %.
func (s Snapshot) Quantile(q float64) time.Duration {
	total := s.Count()
	if total == 0 {
		return 0
	}
	rank := q * float64(total)
	below := 0.0
	last := 0
	for i, c := range s.counts {
		if c == 0 {
			continue
		}
		last = i
		if n := float64(c); below+n >= rank {
			low := lower(i)
			return low + time.Duration(max(0, rank-below)/n*float64(bounds[i]-low))
		}
		below += float64(c)
	}
	return bounds[last]
}

// Classic returns, for each of Bounds, how many answers took at most that long.
func (s Snapshot) Classic() []uint64 {
	counts := make([]uint64, len(Bounds))
	for i, c := range s.counts {
		for j, b := range Bounds {
			if bounds[i] <= b {
				counts[j] += c
			}
		}
	}
	return counts
}

// Native returns the counts of the buckets of a native histogram of this Schema: bucket i holds what took
// more than 2^((i-1)/8) and at most 2^(i/8) seconds.
func (s Snapshot) Native() map[int]int64 {
	counts := map[int]int64{}
	for i, c := range s.counts {
		if c > 0 {
			counts[native[i]] += int64(c)
		}
	}
	return counts
}

// bucketOf returns the first bucket whose bound is not below d.
func bucketOf(d time.Duration) int {
	i := int(first[bits.Len64(uint64(d))])
	for d > bounds[i] {
		i++
	}
	return i
}

// lower returns the longest duration that is too short for bucket i.
func lower(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return bounds[i-1]
}
