package counter

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A shelf is an Issuer that the test empties. It keeps what the Machine tells it.
type shelf struct {
	left, short uint64
	greedy      uint64 // values that clients take of a block as soon as it is there
	next, rest  uint64 // what Seal answers
	why         error
	told        []string
	late        error
}

func (s *shelf) Append(lo, hi uint64) error {
	if s.late == nil {
		s.left += hi - lo + 1 - s.greedy
	}
	return s.late
}
func (s *shelf) Raise(v uint64)         { s.told = append(s.told, fmt.Sprint("raise ", v)) }
func (s *shelf) Refuse(why error)       { s.why = why }
func (s *shelf) Left() (uint64, uint64) { return s.left, s.short }
func (s *shelf) Seal() (uint64, uint64) {
	s.told = append(s.told, "seal")
	return s.next, s.rest
}

// A bench is a Machine with its issuer, its record and a clock.
type bench struct {
	*Machine
	shelf
	r   Record
	now time.Time
	log strings.Builder
}

func newBench(d Definition, batch uint64) *bench {
	b := &bench{r: NewRecord(d, ""), now: time.Unix(0, 0)}
	b.Machine = NewMachine(b.r, &b.shelf, batch, slog.New(slog.NewTextHandler(&b.log, nil)))
	return b
}

// reserve grants what the Machine asks for, and wants it to ask for so many values.
func (b *bench) reserve(t *testing.T, want uint64) {
	t.Helper()
	n := b.Need(b.now)
	if n != want {
		t.Fatalf("%d values are needed, want %d", n, want)
	}
	if n == 0 {
		return
	}
	if again := b.Need(b.now); again != 0 {
		t.Errorf("%d values are needed while a call is under way", again)
	}
	block, err := b.r.Reserve(n, fmt.Sprint(b.r.Next))
	if wait := b.Answer(b.now, block, err); wait != 0 || err != nil {
		t.Errorf("wait %v, %v", wait, err)
	}
	b.short = 0
}

// use lets clients take all but left values in so many seconds.
func (b *bench) use(left, seconds uint64) {
	b.left = left
	b.now = b.now.Add(time.Duration(seconds) * time.Second)
}

// What clients take before the Machine has looked again counts as used: the next block is larger.
func TestClientsThatDoNotWaitForTheMachine(t *testing.T) {
	b := newBench(Sequence("orders"), 0)
	b.short, b.greedy = 1, 60
	b.reserve(t, 100)
	b.reserve(t, 400)
}

func TestTheSizeOfABlock(t *testing.T) {
	b := newBench(Sequence("orders"), 0)
	b.reserve(t, 0) // nobody has asked
	b.short = 1
	b.reserve(t, 100)
	b.use(51, 1)
	b.reserve(t, 0) // more than half is left
	b.use(50, 0)
	b.reserve(t, 400) // 50 in 1 s: 500 in ten, but at most four times as many as before
	b.use(200, 5)     // 250 in 5 s
	b.reserve(t, 500)
	b.use(250, 1000) // idle
	b.reserve(t, 250)
	b.use(100, 1000)
	b.reserve(t, 125)
	b.use(10, 1000)
	b.reserve(t, 100)
	b.use(0, 1000)
	b.short = 1
	b.reserve(t, 400) // somebody waits
	b.use(0, 1000)
	b.short = 5000
	b.reserve(t, 5000) // as many as that one needs
	b.use(0, 1)
	b.reserve(t, 4*1600)
	for range 20 {
		b.use(0, 0)
		b.short = 1
		b.Answer(b.now, mustReserve(t, &b.r, b.Need(b.now)), nil)
	}
	b.use(0, 0)
	b.reserve(t, 10_000_000)

	b = newBench(Sequence("orders"), 7) // told by the daemon
	for range 5 {
		b.short = 1
		b.reserve(t, 7)
		b.use(3, 1)
		b.reserve(t, 7)
		b.use(0, 1)
	}
	if b.rate == 0 {
		t.Error("no rate is measured with a fixed block")
	}
	d := Sequence("orders")
	d.Max = 1_000_000
	b = newBench(d, 0)
	b.short = 1
	b.reserve(t, 100)
	for _, want := range []uint64{400, 999, 998} { // at most a thousandth of what is left
		b.use(0, 0)
		b.short = 1
		b.reserve(t, want)
	}
}

func mustReserve(t *testing.T, r *Record, n uint64) Block {
	t.Helper()
	b, err := r.Reserve(n, "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAStoreThatFailsIsAskedLessOften(t *testing.T) {
	b := newBench(Sequence("orders"), 0)
	failed := errors.New("disk full")
	for round := range 2 {
		b.short, b.left = 1, 0
		for i, ms := range []int{50, 100, 200, 400, 800, 1000, 1000} {
			if b.Need(b.now) == 0 {
				t.Fatalf("round %d, %d: nothing is needed", round, i)
			}
			if wait := b.Answer(b.now, Block{}, failed); wait != time.Duration(ms)*time.Millisecond || b.why != failed {
				t.Errorf("round %d, %d: %v, %v", round, i, wait, b.why)
			}
			if b.now = b.now.Add(time.Duration(ms)*time.Millisecond - 1); b.Need(b.now) != 0 {
				t.Errorf("round %d, %d: asked too early", round, i)
			}
			b.now = b.now.Add(1)
		}
		b.Need(b.now)
		if wait := b.Answer(b.now, mustReserve(t, &b.r, 100), nil); wait != 0 || b.why != nil {
			t.Errorf("round %d: %v, %v", round, wait, b.why)
		}
	}
	for line, n := range map[string]int{
		`level=WARN msg="a sequence got no block"`: 2, `level=ERROR msg="a sequence issues no values"`: 2,
		`level=WARN msg="a sequence got a block again"`: 2, "level=": 6,
	} {
		if got := strings.Count(b.log.String(), line); got != n {
			t.Errorf("%s is there %d times in two outages, want %d", line, got, n)
		}
	}
	b.log.Reset()
	b.short, b.left = 0, 3
	b.Answer(b.now, Block{}, failed)
	b.left = 0
	b.Answer(b.now, Block{}, ErrDeposed) // another daemon issues them
	b.Answer(b.now, mustReserve(t, &b.r, 100), nil)
	again := `level=INFO msg="a sequence got a block again"`
	if got := b.log.String(); strings.Contains(got, "ERROR") || !strings.Contains(got, again) {
		t.Errorf("values were left: %s", got)
	}
	b.short, b.left = 1, 0
	b.Need(b.now)
	if wait := b.Answer(b.now, Block{}, ErrForeign); wait != 10*time.Second {
		t.Errorf("after a certain error: %v", wait)
	}
	if b.Need(b.now) != 0 {
		t.Error("asked too early")
	}
	b.Learn(b.r) // an operator did something
	if b.Need(b.now) == 0 {
		t.Error("nothing is needed although the record was changed")
	}
}

func TestWhatAMachineLearns(t *testing.T) {
	b := newBench(Sequence("orders"), 0)
	for _, v := range []uint64{0, 50, 50, 40, 60} {
		b.Learn(Record{Definition: b.r.Definition, Floor: v})
	}
	b.Learn(Record{Definition: b.r.Definition, Retired: true})
	b.Learn(Record{Definition: b.r.Definition, Retired: true})
	if got := strings.Join(b.told, ", "); got != "raise 50, raise 60, seal" || b.why != ErrRetired {
		t.Errorf("%s; %v", got, b.why)
	}
	b.shelf.next, b.rest, b.short = 1, 100, 1
	if _, _, ok := b.Stop(); ok || b.Need(b.now) != 0 {
		t.Error("a retired sequence gives back or reserves")
	}

	b = newBench(Sequence("orders"), 0) // the store says so first
	b.short = 1
	b.Need(b.now)
	if wait := b.Answer(b.now, Block{}, fmt.Errorf("x: %w", ErrRetired)); wait != 0 || b.why != ErrRetired ||
		b.Need(b.now) != 0 {
		t.Errorf("%v, %v", wait, b.why)
	}
}

func TestOnlyTheEndOfTheNewestBlockIsGivenBack(t *testing.T) {
	d := Sequence("orders")
	d.Step = 2
	for _, c := range []struct {
		next, rest uint64
		ok         bool
	}{{101, 50, true}, {197, 2, true}, {1, 100, true}, {0, 0, false}, {101, 49, false}, {99, 50, false}} {
		b := newBench(d, 0)
		b.Need(b.now)
		b.short = 1
		b.reserve(t, 100) // 1 to 199
		b.shelf.next, b.rest = c.next, c.rest
		block, next, ok := b.Stop()
		if ok != c.ok || ok && (block.Hi != 199 || next != c.next) {
			t.Errorf("%+v: %+v, %d, %v", c, block, next, ok)
		}
		if _, _, again := b.Stop(); again {
			t.Errorf("%+v: given back twice", c)
		}
	}
}

// A block that does not fit is not used, nor is it the one to give back.
func TestBlocksThatDoNotFit(t *testing.T) {
	d := Definition{Name: "orders", Start: 10, Step: 10, Offset: 10, Max: 1000}
	for _, block := range []Block{{Lo: 20, Hi: 10}, {Lo: 0, Hi: 50}, {Lo: 11, Hi: 50}, {Lo: 20, Hi: 55},
		{Lo: 20, Hi: 1010}} {
		b := newBench(d, 0)
		b.short = 1
		b.Need(b.now)
		if wait := b.Answer(b.now, block, nil); wait == 0 || b.left > 0 || b.why == nil ||
			!strings.Contains(b.why.Error(), "definition was changed") {
			t.Errorf("%+v: %v, %v, %d values", block, wait, b.why, b.left)
		}
	}
	b := newBench(d, 0)
	b.late, b.short = errors.New("late"), 1
	b.Need(b.now)
	if wait := b.Answer(b.now, Block{Lo: 20, Hi: 50}, nil); wait == 0 || !errors.Is(b.why, b.late) || b.Block() != 0 {
		t.Errorf("%v, %v", wait, b.why)
	}
}
