package eventqueue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Events come by their times, and those of one time as they were added, also when some are added between.
func TestEventsComeInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	var q Queue[[2]int64] // its time, and how many were added before
	var got [][2]int64
	for now, n := int64(0), int64(0); now < 100; now++ {
		for range r.IntN(20) {
			at := now + r.Int64N(20)
			q.Add(at, [2]int64{at, n})
			n++
		}
		for {
			at, e, ok := q.Next(now)
			if !ok {
				break
			}
			if got = append(got, e); at != e[0] || at != now {
				t.Fatalf("at %d: %v of %d", now, e, at)
			}
		}
	}
	if len(got) < 500 || !slices.IsSortedFunc(got, func(a, b [2]int64) int { return slices.Compare(a[:], b[:]) }) {
		t.Errorf("%d events: %v", len(got), got)
	}
}
