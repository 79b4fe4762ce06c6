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
func TestManyLoopsNeverShareAnIDOfAnotherLayout(t *testing.T) {
	b := newTestbed(2, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, start+500)
	b.publish(t, 1, 2, start-1000, math.MaxInt64)
	layouts := []generator.Layout{generator.Instagram(), generator.Sonyflake()}
	var mu sync.Mutex
	seen := map[string]map[uint64]bool{"instagram": {}, "sonyflake": {}}
	var wg, halves sync.WaitGroup
	halves.Add(8)
	for loop := range 8 {
		l := layouts[loop%2]
		wg.Go(func() {
			var ids []uint64
			for i := range 2000 {
				if i == 1000 {
					halves.Done()
				}
				r, err := mustSnowflake(t, b, l).Source(loop/2).Mint(id.At(start), 1+i%7, i%7 > 0)
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

// TestPlacesAreCarried: after a hand-over under load, ids of another layout go on at once in the window right
// behind the one before, once. Everywhere else they begin above the lane's word.
func TestPlacesAreCarried(t *testing.T) {
	l := generator.Instagram()
	for _, c := range []struct {
		what    string
		carried bool
		change  func(*Place)
	}{
		{"handed over", true, func(*Place) {}},
		{"another window", false, func(p *Place) { p.After-- }},
		{"another worker id", false, func(p *Place) { p.Worker++ }},
		{"another layout", false, func(p *Place) { p.Layout = generator.Sonyflake().Fingerprint() }},
	} {
		old := newTestbed(1, time.Second, generator.Katsubushi())
		old.publish(t, 0, 1, start-5000, math.MaxInt64)
		first, _ := old.mint(t, mustSnowflake(t, old, l).Source(0), 1)
		for g := old.Generator(0); g.Next() <= start+1000; {
			if _, err := g.Take(start, start+1000, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		last := old.Seal(0)
		places := old.Places()
		if len(places) != 1 || places[0].Worker != 1 || places[0].Layout != l.Fingerprint() || places[0].After != last {
			t.Fatalf("places %+v, and the lane's last is %d", places, last)
		}
		c.change(&places[0])
		b := newTestbed(1, time.Second, generator.Katsubushi())
		s := mustSnowflake(t, b, l).Source(0)
		b.Carry(places)
		b.publish(t, 0, 1, last+1, math.MaxInt64)
		r, err := s.Mint(id.At(b.now), 1, false)
		if c.carried && (err != nil || r.First <= first) {
			t.Errorf("%s: %d after %d: %v", c.what, r.First, first, err)
		}
		if !c.carried && err == nil {
			t.Errorf("%s: it goes on where another has ended", c.what)
		}
		// The next window of that worker id is another lease.
		last = b.Seal(0)
		b.publish(t, 0, 1, last+1, math.MaxInt64)
		if _, err := s.Mint(id.At(b.now), 1, false); err == nil {
			t.Errorf("%s: in the next window too", c.what)
		}
	}
}

func TestOtherLayoutsAllocateNothing(t *testing.T) {
	b := newTestbed(1, time.Hour, generator.Katsubushi())
	b.publish(t, 0, 1, start-1000, math.MaxInt64)
	s := mustSnowflake(t, b, generator.Instagram()).Source(0)
	var r id.Run
	if n := testing.AllocsPerRun(1000, func() { r, _ = s.Mint(id.At(start), 3, false) }); n != 0 || r.N != 3 {
		t.Errorf("%v allocations, %+v", n, r)
	}
}
