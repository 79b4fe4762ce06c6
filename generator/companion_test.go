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

// TestResumedCompanionGoesOnAtOnce: the Snowflake's word is far ahead, because ids were issued ahead of the
// clock. A Companion that goes on in another run need not wait for the clock to come there; a new one must.
func TestResumedCompanionGoesOnAtOnce(t *testing.T) {
	for _, l := range companionLayouts()[1:] {
		now, lo := companionStart, companionStart-5000
		before := mustNew(t, Options{Layout: Katsubushi(), Worker: 5, Lo: lo, Hi: math.MaxInt64})
		c := mustCompanion(t, before, l)
		last, err := c.Take(now, now, 1, 0)
		if err != nil {
			t.Fatal(l, err)
		}
		if err := before.Skip(now + 3000); err != nil {
			t.Fatal(err)
		}
		after := mustNew(t, Options{Layout: Katsubushi(), Worker: 5, Lo: before.Seal() + 1, Hi: math.MaxInt64})
		if _, err := mustCompanion(t, after, l).Take(now, now+100, 1, 0); err != ErrAhead {
			t.Errorf("%s: a new one: %v", l, err)
		}
		for _, tooFar := range []uint64{math.MaxUint64, sealed, 1 << 40 << l.SequenceBits} {
			resumed, err := ResumeCompanion(after, l, false, tooFar)
			if err != nil || resumed.Word() != mustCompanion(t, after, l).Word() {
				t.Errorf("%s: from %d on: %v", l, tooFar, err)
			}
		}
		resumed, err := ResumeCompanion(after, l, false, c.Word())
		if err != nil {
			t.Fatal(l, err)
		}
		next, err := resumed.Take(now, now, 1, 0)
		if err != nil || next.First <= last.First {
			t.Errorf("%s: %d after %d: %v", l, next.First, last.First, err)
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

func TestCompanionsRefuse(t *testing.T) {
	lo := companionStart
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 40, Lo: lo, Hi: lo + 99})
	if _, err := NewCompanion(s, JS53(), false); err == nil || err.Error() != "generator: worker id 40: 0 to 31 allowed" {
		t.Errorf("%v", err)
	}
	c := mustCompanion(t, s, Sonyflake())
	for _, x := range []struct {
		now, limit int64
		want       error
	}{
		{lo, lo, ErrAhead}, // the first whole tick begins at lo+7
		{lo, lo + 6, ErrAhead},
		{lo, lo + 7, nil},
		{lo + 17, lo + 17, nil},
		{lo + 96, lo + 96, nil},       // the last whole tick of the window: to lo+96
		{lo + 97, lo + 97, ErrWindow}, // the next one reaches past the end
		{lo + 1000, lo + 1000, ErrWindow},
	} {
		check, before := c.Check(x.now, x.limit), s.Next()
		if _, err := c.Take(x.now, x.limit, 1, 0); !errors.Is(err, x.want) || !errors.Is(check, x.want) {
			t.Errorf("at %d, up to %d: %v and %v, want %v", x.now-lo, x.limit-lo, err, check, x.want)
		}
		if x.want != nil && s.Next() != before {
			t.Errorf("at %d, up to %d: refused, but the Snowflake lost ids", x.now-lo, x.limit-lo)
		}
	}
	if c.End() != lo+96 {
		t.Errorf("ends at %d", c.End()-lo)
	}
	if err := s.Extend(lo+100, lo+200); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Take(lo+97, lo+97, 1, 0); err != nil {
		t.Errorf("after Extend: %v", err)
	}
	c.Seal()
	if _, err := c.Take(lo+97, lo+97, 1, 0); !errors.Is(err, ErrSealed) {
		t.Errorf("after its own Seal: %v", err)
	}
	if _, err := s.Take(lo+150, lo+150, 1); err != nil {
		t.Errorf("the Snowflake: %v", err)
	}
}

// In the last tick that bulk may use it leaves a share, but in no other.
func TestCompanionsLeaveIDs(t *testing.T) {
	lo := companionStart
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 1, Lo: lo, Hi: math.MaxInt64})
	c := mustCompanion(t, s, Instagram())
	for _, want := range []int{1024, 1024, 768} {
		if r, err := c.Take(lo, lo+2, 5000, 256); err != nil || r.N != want {
			t.Errorf("%d ids, %v, want %d", r.N, err, want)
		}
	}
	if _, err := c.Take(lo, lo+2, 5000, 256); !errors.Is(err, ErrAhead) {
		t.Errorf("%v", err)
	}
	if r, err := c.Take(lo, lo+2, 5000, 0); err != nil || r.N != 256 {
		t.Errorf("%d ids, %v", r.N, err)
	}
	if r, err := s.Take(lo, lo+3, 1); err != nil || Katsubushi().Decompose(r.First).Time.UnixMilli() != lo+3 {
		t.Errorf("the Snowflake is not above: %v, %v", r, err)
	}
}

// Others may use up a tick between the look at it and the take. The next one is not the Companion's yet.
func TestACompanionTakesOnlyBelowTheSnowflakesWord(t *testing.T) {
	lo := companionStart
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 1, Lo: lo, Hi: math.MaxInt64})
	c := mustCompanion(t, s, Instagram())
	last := c.own.tickEnd(lo)
	if r, err := c.Take(lo, lo, 5000, 0); err != nil || r.N != 1024 {
		t.Fatal(r, err)
	}
	if r, err := c.takeFrom(last, lo, lo+100, 1, 0); !errors.Is(err, ErrAhead) {
		t.Errorf("%d at %d, but the next run may start at %d", r.First, c.Position(), s.Next())
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
