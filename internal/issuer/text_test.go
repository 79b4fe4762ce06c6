package issuer

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// equalSeed makes all random sources equal, and forgets what they have issued.
func equalSeed(seed *[32]byte) { *seed = [32]byte{1} }

func mustKind(t testing.TB, k Kind, err error) Kind {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// textOf mints one text.
func textOf(t testing.TB, s id.Source, now int64) id.Run {
	t.Helper()
	r, err := s.Mint(id.At(now), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if r.N != 1 || r.Form() != s.(id.Texter).Form() || r.Form() == id.Decimal {
		t.Fatalf("%+v of form %d, declared %d", r, r.Form(), s.(id.Texter).Form())
	}
	return r
}

// A text is the number that would have been issued instead of it, so nobody gets that number.
func TestATextTakesItsPointFromTheLanes(t *testing.T) {
	for name, c := range ofLanes {
		for _, l := range generator.Layouts() {
			b := newTestbed(1, time.Second, l)
			b.publish(t, 0, 4, start-1000, math.MaxInt64)
			kind, err := b.Kind(kinds.Definition{Kind: name})
			s := mustKind(t, kind, err).Source(1)
			layout, _ := generator.NewTextLayout(c, l)
			for range 500 {
				before, _ := b.mint(t, b.Source(1), 1)
				r := textOf(t, s, b.now)
				after, _ := b.mint(t, b.Source(1), 1)
				p, was, is := layout.Decompose(r.High, r.First), l.Decompose(before), l.Decompose(after)
				if p.Worker != 4 || p.Time.Before(was.Time) || p.Time.Equal(was.Time) && p.Sequence != was.Sequence+1 ||
					p.Time.After(is.Time) || p.Time.Equal(is.Time) && p.Sequence != is.Sequence-1 {
					t.Fatalf("%s of %s: %+v between %+v and %+v", name, l, p, was, is)
				}
			}
		}
	}
}

// pair is the value of a text.
type pair struct{ high, low uint64 }

func comparePairs(a, b pair) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// Four daemons whose random bits are all equal, and go on equal after each restart. Their worker
// ids change hands, their clocks go back, and they are asked by several goroutines. The windows
// alone keep their ids apart. KATSUBUSHI_SOAK=1 makes 50 million.
func TestEqualRandomBitsMakeNoTextTwice(t *testing.T) {
	each := 60_000
	if os.Getenv("KATSUBUSHI_SOAK") != "" {
		each = 50_000_000 / len(ofLanes)
	}
	for name, c := range ofLanes {
		t.Run(name, func(t *testing.T) {
			all := fourDaemons(t, c, each, uint64(c))
			if len(all) < each {
				t.Fatalf("%d texts", len(all))
			}
			slices.SortFunc(all, comparePairs)
			if n := len(all) - len(slices.Compact(all)); n > 0 {
				t.Errorf("%d texts twice", n)
			}
		})
	}
}

// fourDaemons issues n texts or a few more.
func fourDaemons(t *testing.T, k generator.TextKind, n int, seed uint64) (all []pair) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var daemons [4]*testbed
	var kinds [4]Kind
	var mark [4]int64 // of each worker id: the last ms that may have been issued from
	now := start
	for d := range daemons {
		mark[d] = start - 1
	}
	all = make([]pair, 0, n+n/4)
	for round := 0; len(all) < n; round++ {
		now += 1 + rnd.Int64N(4)
		for d := range daemons {
			worker := (d + round/50) % 4 // after 50 rounds each has the next one's
			if round%50 == 0 {
				daemons[d] = newTestbed(1, time.Second, generator.Katsubushi())
				daemons[d].publish(t, 0, uint64(worker), mark[worker]+1, math.MaxInt64)
				kind, err := newText(daemons[d].Issuer, k, equalSeed)
				kinds[d] = mustKind(t, kind, err)
			}
			daemons[d].now = now - rnd.Int64N(3)
			all = append(all, burst(t, daemons[d], kinds[d], 50+n/200_000)...)
			if round%50 == 49 {
				mark[worker] = daemons[d].Seal(0)
			}
		}
		if round%50 == 49 {
			now = max(now, slices.Max(mark[:]))
		}
	}
	return all
}

// burst asks for texts from three goroutines; the first two share a source.
func burst(t *testing.T, b *testbed, k Kind, each int) (all []pair) {
	var wg sync.WaitGroup
	var got [3][]pair
	for g := range got {
		s := k.Source(g / 2)
		wg.Go(func() {
			for range each {
				r, err := s.Mint(id.At(b.now), 1, false)
				if err != nil {
					t.Error(err)
					return
				}
				got[g] = append(got[g], pair{r.High, r.First})
			}
			if !slices.IsSortedFunc(got[g], comparePairs) {
				t.Error("the texts of one lane are not in the order of issue")
			}
		})
	}
	wg.Wait()
	return slices.Concat(got[:]...)
}

func TestUUID4NeedsNoLaneAndIsNeverTheSame(t *testing.T) {
	k := newUUID4()
	if err := k.Ready(start); err != nil {
		t.Error(err)
	}
	var mu sync.Mutex
	seen := map[pair]bool{}
	var wg sync.WaitGroup
	for g := range 4 {
		s := k.Source(g / 2)
		if s != k.Source(g/2) {
			t.Error("a loop's source is made again: HTTP asks for one at each request")
		}
		wg.Go(func() {
			var got []pair
			for i := range 5000 {
				r := textOf(t, s, start+int64(i))
				got = append(got, pair{r.High, r.First})
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range got {
				if seen[p] {
					t.Errorf("%x twice", p)
				}
				seen[p] = true
			}
		})
	}
	wg.Wait()
}

// All 122 bits take both values: in 1,000 UUIDs each but once in 10^190.
func TestEveryBitOfAUUID4IsRandom(t *testing.T) {
	s := newUUID4().Source(0)
	var or, and pair
	and = pair{math.MaxUint64, math.MaxUint64}
	for range 1000 {
		r := textOf(t, s, start)
		or.high, or.low, and.high, and.low = or.high|r.High, or.low|r.First, and.high&r.High, and.low&r.First
	}
	if or != (pair{^uint64(0xb << 12), ^uint64(1 << 62)}) || and != (pair{4 << 12, 1 << 63}) {
		t.Errorf("bits that were ever 1: %x, always 1: %x", or, and)
	}
}

// A copy of a virtual machine makes the same random bits until then.
func TestTheKernelGivesANewSeedEverySecond(t *testing.T) {
	for name, use := range map[string]func(r *random, now int64){
		"one": func(r *random, now int64) { r.one(now) },
		"two": func(r *random, now int64) { r.two(now) },
	} {
		seeds := 0
		r := newRandom(func(seed *[32]byte) {
			seeds++
			seed[0] = byte(seeds)
		})
		for _, c := range []struct {
			now   int64
			seeds int
		}{{start, 2}, {start + 999, 2}, {start + 1000, 3}, {start + 1001, 3}, {start + 5000, 4}, {start, 5},
			{start + 999, 5}} {
			if use(r, c.now); seeds != c.seeds {
				t.Errorf("%s: %d seeds after %d ms, want %d", name, seeds, c.now-start, c.seeds)
			}
		}
	}
	if a, b := newRandom(kernelSeed).one(start), newRandom(kernelSeed).one(start); a == b {
		t.Errorf("the kernel gave %x twice", a)
	}
}
