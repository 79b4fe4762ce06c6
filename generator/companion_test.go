package generator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
)

const companionStart = int64(1_800_000_000_003) // in the middle of a tick of 10 ms

// companionLayouts are all layouts of the same worker ids, and one of long ticks.
func companionLayouts() []Layout {
	return append(Layouts(),
		Layout{Name: "seconds", Epoch: 1_500_000_000_300, Unit: 1000, TimeBits: 32, WorkerBits: 10, SequenceBits: 9})
}

func mustCompanion(t testing.TB, main *Snowflake, l Layout) *Companion {
	t.Helper()
	c, err := NewCompanion(main, l, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A history is what a worker id goes through: runs that are killed at any moment. The next one
// knows only the word, or the mark; or the words of the Companions too, if the run has handed over.
type history struct {
	t     *testing.T
	rnd   *rand.Rand
	main  Layout
	now   int64
	above int64                      // the last ms that may have been issued from
	mark  int64                      // the end of the longest window that was granted
	seen  map[string]map[uint64]bool // ids by layout
	left  map[string]place           // where the Companions of the run before ended, if it has handed over
}

// A place is where a Companion ended, and where its window began.
type place struct {
	word uint64
	lo   int64
}

func (h *history) add(what Layout, r id.Run, lo, hi int64) {
	h.t.Helper()
	for i := range r.N {
		v := r.First + uint64(i)*r.Stride
		if h.seen[what.Name][v] {
			h.t.Fatalf("beside %s: id %d of %s twice", h.main, v, what)
		}
		h.seen[what.Name][v] = true
		if ms := what.Decompose(v).Time.UnixMilli(); ms < lo || ms+what.Unit-1 > hi {
			h.t.Fatalf("beside %s: an id of %s at %d is not in the window %d..%d", h.main, what, ms, lo, hi)
		}
	}
}

func (h *history) run() {
	lo, hi := h.above+1, max(h.now, h.above)+h.rnd.Int64N(3000)
	var word atomic.Uint64
	s := mustNew(h.t, Options{Layout: h.main, Worker: 5, Lo: lo, Hi: hi, Word: &word})
	beside, los := map[string]*Companion{}, map[string]int64{}
	for _, l := range companionLayouts() {
		p, ok := h.left[l.Name]
		if !ok {
			continue
		}
		c, err := ResumeCompanion(s, l, false, p.word)
		if err != nil {
			h.t.Fatal(err)
		}
		beside[l.Name], los[l.Name] = c, min(p.lo, lo)
	}
	for range h.rnd.IntN(60) {
		h.now += h.rnd.Int64N(25) - 5
		limit := max(h.now, h.now+h.rnd.Int64N(1500))
		n := 1 + h.rnd.IntN(300)
		switch l := companionLayouts()[h.rnd.IntN(len(companionLayouts()))]; {
		case h.rnd.IntN(10) == 0:
			more := h.rnd.Int64N(1000)
			if err := s.Extend(hi+1, hi+more); err != nil {
				h.t.Fatal(err)
			}
			hi += more
		case l.Name == h.main.Name:
			if r, err := s.TakeLeaving(h.now, limit, n, uint64(h.rnd.IntN(2))); err == nil {
				h.add(l, r, lo, hi)
			}
		case beside[l.Name] == nil || h.rnd.IntN(20) == 0: // a reload of the names may forget one
			if old := beside[l.Name]; old != nil {
				old.Seal()
			}
			beside[l.Name], los[l.Name] = mustCompanion(h.t, s, l), lo
		default:
			if r, err := beside[l.Name].Take(h.now, limit, n, uint64(h.rnd.IntN(2))); err == nil {
				h.add(l, r, los[l.Name], hi)
			}
		}
	}
	h.left = map[string]place{}
	h.mark = max(h.mark, hi)
	if h.above = h.main.Issued(word.Load()); h.rnd.IntN(5) == 0 { // the word is lost, or not believed
		h.above = h.mark
	} else if s.Used() && h.above > hi {
		h.t.Fatalf("beside %s: the last id is said to be at %d, past the window's end %d", h.main, h.above, hi)
	} else if h.above >= lo-1 && h.rnd.IntN(3) == 0 {
		for name, c := range beside {
			h.left[name] = place{c.Word(), los[name]}
		}
	}
	h.now = max(h.now, h.above-h.rnd.Int64N(2000))
}

func TestARunThatKnowsOnlyTheSnowflakesWordRepeatsNoCompanionsID(t *testing.T) {
	for _, main := range companionLayouts() {
		for seed := range uint64(30) {
			h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, 9)), main: main, now: companionStart, above: companionStart - 1,
				seen: map[string]map[uint64]bool{}}
			for _, l := range companionLayouts() {
				h.seen[l.Name] = map[uint64]bool{}
			}
			for range 40 {
				h.run()
			}
			for _, l := range companionLayouts() {
				if len(h.seen[l.Name]) < 500 {
					t.Fatalf("seed %d, beside %s: only %d ids of %s", seed, main, len(h.seen[l.Name]), l)
				}
			}
		}
	}
}

// Whoever takes while the Snowflake is sealed: what Seal reports as the last position is above all
// ids of the Companion.
func TestSealCountsTheCompanionsIDs(t *testing.T) {
	for _, main := range companionLayouts()[3:] { // ticks of 10 ms, 1 ms, 1 s
		for _, l := range companionLayouts()[2:] {
			s := mustNew(t, Options{Layout: main, Worker: 5, Lo: companionStart, Hi: math.MaxInt64})
			c := mustCompanion(t, s, l)
			var wg sync.WaitGroup
			var taken atomic.Int64
			var mu sync.Mutex
			seen, end := map[uint64]bool{}, int64(0)
			for range 3 {
				wg.Go(func() {
					var mine []uint64
					for now := companionStart; ; now += 7 {
						r, err := c.Take(now, now+50, 1+int(now%2)*5000, 0) // often a whole tick, which others want too
						if errors.Is(err, ErrSealed) {
							break
						}
						if next := s.Next(); err == nil && l.Decompose(r.First).Time.UnixMilli()+l.Unit > next {
							t.Errorf("beside %s: %d of %s, but the next run would start at %d", main, r.First, l, next)
							break
						}
						for i := range r.N {
							mine = append(mine, r.First+uint64(i)*r.Stride)
						}
						taken.Add(1)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, v := range mine {
						if seen[v] {
							t.Errorf("id %d of %s twice", v, l)
						}
						seen[v] = true
						end = max(end, l.Decompose(v).Time.UnixMilli()+l.Unit-1)
					}
				})
			}
			for taken.Load() < 200 {
				runtime.Gosched()
			}
			last := s.Seal()
			wg.Wait()
			if end > last {
				t.Errorf("beside %s: sealed at %d, but %s issued up to %d", main, last, l, end)
			}
			if err := s.skip(last); err != ErrSealed {
				t.Errorf("a Companion that did not see the Seal goes on: %v", err)
			}
			if _, err := c.Take(last+1, last+1, 1, 0); !errors.Is(err, ErrSealed) ||
				!errors.Is(c.Check(companionStart, companionStart), ErrSealed) {
				t.Errorf("after Seal: %v", err)
			}
		}
	}
}

func BenchmarkCompanion(b *testing.B) {
	for _, l := range []Layout{Instagram(), Sonyflake()} {
		b.Run(fmt.Sprint(l), func(b *testing.B) {
			c := mustCompanion(b, newBenchmarked(b, Katsubushi(), 1), l)
			now := int64(1_800_000_000_000)
			for b.Loop() {
				if _, err := c.Take(now, now+1<<38, 1, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
