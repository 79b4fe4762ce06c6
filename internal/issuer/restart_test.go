package issuer

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// TestNoNumberOfALayoutIsRepeatedAfterARestart: only the position of the daemon's own layout outlives a
// process, or is told to a store. Next windows start right above it, and in all layouts nothing may be
// issued twice.
func TestNoNumberOfALayoutIsRepeatedAfterARestart(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 0))
		all := generator.Layouts()
		own := all[rng.IntN(len(all))]
		now, lo := start+rng.Int64N(100), start
		seen := map[generator.Layout]map[uint64]bool{}
		for _, l := range all {
			seen[l] = map[uint64]bool{}
		}
		source := func(b *testbed, l generator.Layout) id.Source {
			k, err := b.Issuer.snowflake(l)
			if err != nil {
				t.Fatal(err)
			}
			return k.Source(0)
		}
		for run := range 6 {
			b := newTestbed(1, time.Duration(44+rng.IntN(60))*time.Millisecond, own) // 44 ms is the least beside sonyflake
			b.now = now
			hi := lo + rng.Int64N(200)
			late := rng.IntN(2) == 0 // a SIGHUP brings the other layouts
			sources := map[generator.Layout]id.Source{}
			if !late {
				for _, l := range all {
					sources[l] = source(b, l)
				}
			}
			g := b.publish(t, 0, 3, lo, hi)
			for range 1 + rng.IntN(40) {
				for _, l := range all {
					if sources[l] == nil {
						sources[l] = source(b, l)
					}
				}
				l := all[rng.IntN(len(all))]
				r, err := sources[l].Mint(id.At(b.now), 1+rng.IntN(3000), rng.IntN(2) == 0)
				var refusal *Refusal
				if err != nil && !errors.As(err, &refusal) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				for i := range r.N {
					v := r.First + uint64(i)*r.Stride
					if at := l.Decompose(v).Time.UnixMilli(); seen[l][v] || at < lo || at+l.Unit-1 > hi || g.Position() < at {
						t.Fatalf("seed %d, run %d, %s beside %s: %d twice (%v), at %d of the window %d..%d, recorded %d",
							seed, run, l, own, v, seen[l][v], at, lo, hi, g.Position())
					}
					seen[l][v] = true
				}
				b.now += rng.Int64N(12) - 1
				if rng.IntN(8) == 0 {
					more := hi + rng.Int64N(100)
					if err := b.Extend(0, hi+1, more); err != nil {
						t.Fatal(err)
					}
					hi = more
				}
			}
			lo = g.Position() + 1 // what a killed process leaves behind
			if rng.IntN(2) == 0 {
				lo = b.Seal(0) + 1
			}
			now = max(b.now-rng.Int64N(50), lo)
		}
	}
}
