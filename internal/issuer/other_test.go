package issuer

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

func mustSnowflake(t testing.TB, b *testbed, l generator.Layout) Kind {
	t.Helper()
	k, err := b.Issuer.snowflake(l)
	return mustKind(t, k, err)
}

func TestTheSameLayoutIsTheIssuerItself(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	renamed := generator.Katsubushi()
	renamed.Name = "ours"
	if k := mustSnowflake(t, b, renamed); k != Kind(b.Issuer) {
		t.Errorf("%T issues ids that the lanes issue too", k)
	}
	if a, c := mustSnowflake(t, b, generator.Instagram()), mustSnowflake(t, b, generator.Instagram()); a != c {
		t.Error("two names of a layout have a word each, and issue the same ids")
	}
}

// With the least run-ahead, too: whatever the clients of the one layout ask for, those of the other
// get ids at the same moment.
func TestNoLayoutTakesTheOthersIDs(t *testing.T) {
	for _, own := range generator.Layouts() {
		for _, l := range generator.Layouts() {
			if l == own {
				continue
			}
			runAhead := 2 * time.Duration(own.Unit+l.Unit) * time.Millisecond
			b := newTestbed(1, runAhead, own)
			b.publish(t, 0, 7, start-1000, math.MaxInt64)
			k := mustSnowflake(t, b, l)
			all, others := b.Source(0).(*source), k.Source(0).(*otherSource)
			for range 100 {
				for {
					if _, ok := others.take(b.now, 1<<20, false); !ok {
						break
					}
				}
				if _, ok := all.take(b.now, 1, false); !ok {
					t.Fatalf("ids of %s leave none of %s", l, own)
				}
				b.now += max(own.Unit, l.Unit)
				if _, ok := others.take(b.now, 1, false); !ok {
					t.Fatalf("no ids of %s in a new tick", l)
				}
				if r, err := k.Source(0).Mint(id.At(b.now), 3, true); err == nil && l.Decompose(r.First).Worker != 7 {
					t.Fatalf("%+v", l.Decompose(r.First))
				}
			}
		}
	}
}

// Loops ask while windows come and go, and names are declared at the same moment. None gets an id twice.
func TestManyLoopsNeverShareAnID(t *testing.T) {
	b := newTestbed(2, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, start+500)
	b.publish(t, 1, 2, start-1000, math.MaxInt64)
	layouts := []generator.Layout{generator.Instagram(), generator.Sonyflake(), generator.Katsubushi()}
	var mu sync.Mutex
	seen := map[string]map[uint64]bool{"instagram": {}, "sonyflake": {}, "katsubushi": {}}
	var wg, halves sync.WaitGroup
	halves.Add(12)
	for loop := range 12 {
		l := layouts[loop%3]
		wg.Go(func() {
			var ids []uint64
			for i := range 2000 {
				if i == 1000 {
					halves.Done()
				}
				r, err := mustSnowflake(t, b, l).Source(loop/3).Mint(id.At(start), 1+i%7, i%7 > 0)
				if err != nil {
					t.Error(err)
					continue
				}
				for k := range r.N {
					ids = append(ids, r.First+uint64(k)*r.Stride)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, v := range ids {
				if seen[l.Name][v] {
					t.Errorf("id %d of %s twice", v, l)
				}
				seen[l.Name][v] = true
			}
		})
	}
	halves.Wait()
	last := b.Seal(0)
	if _, err := b.at(t, layouts[0]).Take(start, start+1000, 1, 0); err == nil {
		t.Error("an id after Seal")
	}
	b.publish(t, 0, 1, last+1, math.MaxInt64)
	wg.Wait()
}

// at returns the Companion in lane 0.
func (b *testbed) at(t *testing.T, l generator.Layout) *companion {
	t.Helper()
	return mustSnowflake(t, b, l).(*other).at(0)
}

// Two of them would issue the same ids.
func TestAGeneratorHasOneCompanion(t *testing.T) {
	b := newTestbed(1, time.Second, generator.Katsubushi())
	b.publish(t, 0, 3, b.now, math.MaxInt64)
	k := mustSnowflake(t, b, generator.Instagram()).(*other)
	one := k.at(0)
	for range 2 {
		if k.renew(0, aboveMain) != one {
			t.Error("a generator has two Companions")
		}
	}
}
