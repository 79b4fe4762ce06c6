package latency

import (
	"math"
	"slices"
	"time"
)

// Schema is that of the native histogram: 2^Schema buckets from each power of 2 to the next.
const Schema = 3

// longest is the longest duration that is told apart from longer ones.
const longest = 64 * time.Second

// The native buckets that are kept apart: what took at most 2^(lowest/8) s, 238 ns, is in the first one,
// and what took 2^(highest/8) s = longest or more in the last.
const (
	lowest  = -22 << Schema
	highest = 6 << Schema
)

// Bounds are those of the classic buckets.
var Bounds = [...]time.Duration{
	2 * time.Microsecond, 5 * time.Microsecond, 10 * time.Microsecond, 25 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	10 * time.Second,
}

// buckets is how many a Histogram has: each ends where a native or a classic bucket ends.
const buckets = highest - lowest + 1 + len(Bounds)

// bounds has the longest duration in each bucket, rising; native the native bucket that each is a part
// of; and first, by its number of bits, the first bucket that a duration may be in.
var bounds, native, first = tables()

func tables() (bounds [buckets]time.Duration, native [buckets]int, first [65]uint16) {
	at := copy(bounds[:], Bounds[:])
	for k := lowest; k <= highest; k++ {
		// rounded down: durations are whole ns
		bounds[at] = time.Duration(math.Exp2(float64(k)/(1<<Schema)) * float64(time.Second))
		at++
	}
	slices.Sort(bounds[:])
	for i, b := range bounds {
		exact := math.Log2(b.Seconds()) * (1 << Schema)
		native[i] = max(lowest, int(math.Ceil(exact-1e-9)))
	}
	for n := range first {
		least := time.Duration(1) << max(n-1, 0)
		if n == 0 || n > 63 {
			least = 0
		}
		i, _ := slices.BinarySearch(bounds[:], min(least, longest))
		first[n] = uint16(i)
	}
	return bounds, native, first
}
