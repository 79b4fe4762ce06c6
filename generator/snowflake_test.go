package generator

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

const year2024 = int64(1732060800000)

// Layouts of the three units that the stores are tested with too; the last two share their names
// with nothing.
func unitLayouts() []Layout {
	hundredths, seconds := Sonyflake(),
		Layout{Name: "seconds", Epoch: 1420070400123, Unit: 1000, TimeBits: 31, WorkerBits: 10, SequenceBits: 20}
	return []Layout{Katsubushi(), hundredths, seconds}
}

func mustNew(t testing.TB, o Options) *Snowflake {
	t.Helper()
	s, err := NewSnowflake(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustTake(t testing.TB, s *Snowflake, now, limit int64, n int) id.Run {
	t.Helper()
	r, err := s.Take(now, limit, n)
	if err != nil {
		t.Fatalf("Take(%d, %d, %d): %v; next %d, end %d", now, limit, n, err, s.Next(), s.End())
	}
	return r
}

// A lane is a worker id's Snowflake, and at times a Companion. Times are ms from one that the window was made with.
type lane struct {
	t      *testing.T
	zero   int64
	word   atomic.Uint64
	o      Options
	main   *Snowflake
	beside *Companion
	told   string
}

func (p *lane) at(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if ms, ok := map[string]int64{"min": math.MinInt64, "max": math.MaxInt64}[text]; ok || err != nil {
		return ms
	}
	return p.zero + n
}

// window makes a Snowflake, with ticks that begin anywhere or with a word that was handed out if further words say so.
func (p *lane) window(layout string, worker uint64, from, lo, hi string, further ...string) (err error) {
	l, err := layoutOf(layout)
	if err != nil {
		return err
	}
	p.zero = map[string]int64{"epoch": l.Epoch, "2024": year2024, "2027": companionStart, "end": l.End()}[from]
	p.o = Options{Layout: l, Worker: worker, Lo: p.at(lo), Hi: p.at(hi), RandomStart: slices.Contains(further, "random"),
		Word: &p.word}
	if p.word.Store(0); slices.Contains(further, "handed-out") {
		p.word.Store(l.First(p.o.Lo))
	}
	p.main, p.beside = nil, nil
	return p.again()
}

// again makes a Snowflake with the word that is there.
func (p *lane) again() error {
	s, err := NewSnowflake(p.o)
	if err == nil {
		p.main = s
	}
	return err
}

func (p *lane) ids(l Layout, r id.Run, err error) (string, error) {
	if err != nil {
		return "", err
	}
	first, last := l.Decompose(r.First), l.Decompose(r.First+uint64(r.N-1)*r.Stride)
	if !first.Time.Equal(last.Time) || first.Worker != p.o.Worker || last.Worker != p.o.Worker {
		p.t.Errorf("%+v to %+v", first, last)
	}
	return fmt.Sprintf("%d at %d, sequence %d to %d", r.N, first.Time.UnixMilli()-p.zero, first.Sequence,
		last.Sequence), nil
}

// taking is a call of take, of which check must have told.
func (p *lane) taking(l Layout, take func(now, limit int64, n int, leave uint64) (id.Run, error),
	check func(now, limit int64) error, now, limit string, n int, leave ...uint64) (string, error) {
	left, told := slices.Max(append(leave, 0)), check(p.at(now), p.at(limit))
	r, err := take(p.at(now), p.at(limit), n, left)
	if err != told && left == 0 {
		p.t.Errorf("Check said %v", told)
	}
	return p.ids(l, r, err)
}

func (p *lane) companion(layout string) error {
	l, err := layoutOf(layout)
	if err == nil {
		p.beside, err = NewCompanion(p.main, l, false)
	}
	return err
}

// resume goes on where the Companion has ended, or at another word.
func (p *lane) resume(word ...uint64) (err error) {
	p.beside, err = ResumeCompanion(p.main, p.beside.own.layout, false, append(word, p.beside.Word())[0])
	return err
}

// news is what there is, if that has changed.
func (p *lane) news() (now string) {
	if p.main != nil {
		now = fmt.Sprintf("- next %d, end %d", p.main.Next()-p.zero, p.main.End()-p.zero)
		if p.main.Used() {
			now += fmt.Sprintf(", position %d", p.main.Position()-p.zero)
		}
	}
	if p.beside != nil {
		now += fmt.Sprintf("; beside it next %d, end %d", p.beside.Next()-p.zero, p.beside.End()-p.zero)
	}
	if now == p.told {
		return ""
	}
	p.told = now
	return now
}

// TestLanes: what a Snowflake issues in its window, and a Companion beside it.
func TestLanes(t *testing.T) {
	steps.Run(t, "testdata/lanes.txt", func(t *testing.T) steps.Calls {
		p := &lane{t: t}
		return steps.Calls{
			"window": p.window,
			"again":  p.again,
			"next-run": func() error {
				p.o.Lo, p.o.Word = p.main.Seal()+1, nil
				return p.again()
			},
			"take": func(now, limit string, n int, leave ...uint64) (string, error) {
				return p.taking(p.o.Layout, p.main.TakeLeaving, p.main.Check, now, limit, n, leave...)
			},
			"extend": func(lo, hi string) error { return p.main.Extend(p.at(lo), p.at(hi)) },
			"skip":   func(to string) error { return p.main.Skip(p.at(to)) },
			"seal":   func() string { return fmt.Sprint("at ", p.main.Seal()-p.zero) },
			"put-back": func(ms int64) { // the word, to so many ms after the epoch
				p.word.Store(uint64(ms) << p.o.Layout.SequenceBits)
			},
			"companion": p.companion,
			"beside": func(now, limit string, n int, leave ...uint64) (string, error) {
				return p.taking(p.beside.own.layout, p.beside.Take, p.beside.Check, now, limit, n, leave...)
			},
			"resume":         p.resume,
			"seal-companion": func() { p.beside.Seal() },
			// as if others had used up the tick that ends there since it was looked at
			"beside-from": func(last, now, limit string) (string, error) {
				r, err := p.beside.takeFrom(p.at(last), p.at(now), p.at(limit), 1, 0)
				return p.ids(p.beside.own.layout, r, err)
			},
			"": p.news,
		}
	})
}

// Every end of every unit: no id lies outside the window, and every tick wholly inside gives all of
// its ids.
func TestWindow(t *testing.T) {
	for _, l := range unitLayouts() {
		base := l.Epoch + 1000*l.Unit
		for _, off := range []int64{0, 1, l.Unit - 1, l.Unit, l.Unit + 1} {
			for _, length := range []int64{0, 1, l.Unit - 1, l.Unit, l.Unit + 1, 2*l.Unit - 1, 2 * l.Unit, 3 * l.Unit} {
				lo, hi := base+off, base+off+length-1
				s := mustNew(t, Options{Layout: l, Lo: lo, Hi: hi})
				if s.Position() != lo-1 {
					t.Fatalf("%s: position %d before the first id of window %d", l, s.Position(), lo)
				}
				first := (lo - l.Epoch + l.Unit - 1) / l.Unit
				end := (hi + 1 - l.Epoch) / l.Unit
				want, got := max(0, end-first)*int64(l.MaxSequence()+1), int64(0)
				for {
					r, err := s.Take(base, l.End(), 1<<30)
					if err != nil {
						if !errors.Is(err, ErrWindow) {
							t.Fatal(err)
						}
						break
					}
					got += int64(r.N)
					for _, id := range []uint64{r.First, r.First + uint64(r.N-1)*r.Stride} {
						if at := l.Decompose(id).Time.UnixMilli(); at < lo || at+l.Unit-1 > hi {
							t.Fatalf("%s: id of tick %d..%d in window %d..%d", l, at, at+l.Unit-1, lo, hi)
						}
					}
				}
				if got != want {
					t.Errorf("%s: window %d..%d gave %d ids, not %d", l, lo, hi, got, want)
				}
				if p := s.Seal(); p > hi || want > 0 && p != l.Epoch+end*l.Unit-1 || want == 0 && p != lo-1 {
					t.Errorf("%s: window %d..%d ended at %d", l, lo, hi, p)
				}
			}
		}
	}
}

// The clock may say anything at all. Nothing wraps, and nothing is issued twice.
func TestAbsurdClocks(t *testing.T) {
	absurd := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 53, -1, 0, 1, 1 << 52, 1<<52 + year2024, 1 << 62,
		math.MaxInt64 - 1, math.MaxInt64}
	for _, epoch := range []int64{-1 << 61, -1, 0, 1420070400000, 1 << 61} {
		for _, unit := range []int64{1, 10, 60000} {
			l := Layout{Epoch: epoch, Unit: unit, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
			if err := l.Check(); err != nil {
				t.Fatal(err)
			}
			s := mustNew(t, Options{Layout: l, Lo: epoch, Hi: math.MaxInt64})
			clocks := append(slices.Clone(absurd), epoch-1, epoch, epoch+unit, l.End()-1, l.End(), l.End()+1)
			slices.Sort(clocks)
			last := uint64(0)
			for range 2 {
				for _, now := range clocks {
					for _, limit := range clocks {
						if limit < now {
							continue
						}
						before := s.Check(now, limit)
						r, err := s.Take(now, limit, 2)
						if err != before {
							t.Fatalf("at %d with limit %d Check said %v and Take %v", now, limit, before, err)
						}
						if err != nil {
							continue
						}
						if r.First <= last && last != 0 {
							t.Fatalf("epoch %d, unit %d: at %d with limit %d, %d came after %d", epoch, unit, now, limit, r.First, last)
						}
						last = r.First + uint64(r.N-1)*r.Stride
						if at := l.Decompose(last).Time.UnixMilli(); at > limit || now < l.End() && at+unit <= now {
							t.Fatalf("epoch %d, unit %d: at %d with limit %d, an id of %d", epoch, unit, now, limit, at)
						}
					}
				}
			}
		}
	}
}

func TestRandomStart(t *testing.T) {
	s := mustNew(t, Options{Layout: Katsubushi(), Worker: 9, Lo: year2024, Hi: math.MaxInt64, RandomStart: true})
	var low [8]int
	for i := range int64(8000) {
		low[mustTake(t, s, year2024+1+i*7, year2024+1+i*7, 1).First%8]++
	}
	for shard, n := range low {
		if n < 850 || n > 1150 { // 1,000 expected; the clock is fixed, so the figures are too
			t.Errorf("shard %d of 8 got %d of 8000", shard, n)
		}
	}
}

// TestConcurrentTakesAreUnique: no two goroutines get one id.
func TestConcurrentTakesAreUnique(t *testing.T) {
	for _, l := range unitLayouts() {
		s := mustNew(t, Options{Layout: l, Worker: 3, Lo: year2024, Hi: math.MaxInt64})
		const workers, each = 8, 5000
		all := make([][]uint64, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 2))
				for len(all[w]) < each {
					now := year2024 + rnd.Int64N(3*l.Unit)
					r, err := s.Take(now, now+1000*l.Unit, 1+rnd.IntN(20))
					if err != nil {
						t.Errorf("%s: %v", l, err)
						return
					}
					for i := range r.N {
						all[w] = append(all[w], r.First+uint64(i)*r.Stride)
					}
				}
			})
		}
		wg.Wait()
		ids := slices.Concat(all...)
		total := len(ids)
		slices.Sort(ids)
		if unique := len(slices.Compact(ids)); unique != total {
			t.Errorf("%s: %d of %d ids are duplicates", l, total-unique, total)
		}
	}
}

// The position that Seal reports is that of the moment at which it ends the generator, and not one
// from just before. Between two such moments lie few instructions, so one thread takes whole ticks,
// which move the position each time, and another one seals, both without ever waiting for the
// scheduler. While both have a processor, as they soon do even on a busy machine, a few hundred
// generators are enough.
func TestSealReportsTheLastTick(t *testing.T) {
	const effort, each, enough = 3 * time.Second, 10_000, 50_000
	l := Katsubushi()
	rounds := 0
	for began := time.Now(); time.Since(began) < effort && rounds < enough; {
		all := make([]*Snowflake, each)
		for i := range all {
			all[i] = mustNew(t, Options{Layout: l, Lo: year2024, Hi: math.MaxInt64})
		}
		last := make([]uint64, each) // the first id of the last tick taken
		var done sync.WaitGroup
		done.Go(func() {
			for i, s := range all {
				for {
					r, err := s.Take(year2024, l.End(), 1<<l.SequenceBits)
					if err != nil {
						break
					}
					last[i] = r.First
				}
			}
		})
		reported := make([]int64, each)
		for i, s := range all {
			for first := s.Position(); s.Position() < first+3 && time.Since(began) < effort; {
			}
			reported[i] = s.Seal()
		}
		done.Wait()
		for i, s := range all {
			if taken := l.Decompose(last[i]).Time.UnixMilli(); last[i] != 0 && taken != reported[i] || s.Seal() != reported[i] {
				t.Fatalf("generator %d: sealed at %d, but an id of %d was issued; position %d", rounds+i, reported[i], taken,
					s.Position())
			}
		}
		rounds += each
	}
	t.Logf("%d generators", rounds)
}

func TestTakeDoesNotAllocate(t *testing.T) {
	for _, l := range unitLayouts() {
		s := mustNew(t, Options{Layout: l, Lo: year2024, Hi: math.MaxInt64, RandomStart: true})
		now := year2024
		if n := testing.AllocsPerRun(1000, func() {
			now++
			mustTake(t, s, now, now+100*l.Unit, 3)
		}); n != 0 {
			t.Errorf("%s: %v allocations", l, n)
		}
	}
}
