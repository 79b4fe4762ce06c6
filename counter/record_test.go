package counter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

func TestValuesOfADefinition(t *testing.T) {
	for _, c := range []struct {
		d           Definition
		first, last uint64
		count       uint64
	}{
		{Definition{Start: 1, Step: 1, Offset: 1, Max: 10}, 1, 10, 10},
		{Definition{Start: 1, Step: 2, Offset: 1, Max: 10}, 1, 9, 5},
		{Definition{Start: 1, Step: 2, Offset: 2, Max: 10}, 2, 10, 5},
		{Definition{Start: 4, Step: 5, Offset: 3, Max: 13}, 8, 13, 2},
		{Definition{Start: 3, Step: 5, Offset: 3, Max: 12}, 3, 8, 2},
		{Definition{Start: 7, Step: 10, Offset: 10, Max: 10}, 10, 10, 1},
		{Sequence(""), 1, MaxValue, MaxValue},
		{Definition{Start: 2, Step: MaxValue, Offset: 2, Max: MaxValue}, 2, 2, 1},
		{Definition{Start: MaxValue, Step: MaxValue, Offset: MaxValue, Max: MaxValue}, MaxValue, MaxValue, 1},
	} {
		if err := c.d.Check(); err != nil {
			t.Errorf("%+v: %v", c.d, err)
		}
		if f, l, n := c.d.First(), c.d.Last(), c.d.Count(c.d.First()); f != c.first || l != c.last || n != c.count {
			t.Errorf("%+v: %d to %d, %d values; want %d to %d, %d", c.d, f, l, n, c.first, c.last, c.count)
		}
		if n := c.d.Count(c.last + c.d.Step); n != 0 {
			t.Errorf("%+v: %d values after the last", c.d, n)
		}
	}
}

func TestEverythingThatIsWrongWithADefinition(t *testing.T) {
	good := Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 100}
	for _, c := range []struct {
		set    func(d *Definition)
		fields string
	}{
		{func(*Definition) {}, ""},
		{func(d *Definition) { d.Batch = MaxBatch }, ""},
		{func(d *Definition) { d.Start, d.Step, d.Max = 0, 0, 0 }, "Start Max Step"},
		{func(d *Definition) { d.Max = MaxValue + 1 }, "Max"},
		{func(d *Definition) { d.Start = MaxValue + 1 }, "Start"},
		{func(d *Definition) { d.Step, d.Offset = MaxValue+1, 1<<63+5 }, "Step"},
		{func(d *Definition) { d.Offset = 0 }, "Offset"},
		{func(d *Definition) { d.Offset = 3 }, "Offset"},
		{func(d *Definition) { d.Batch = MaxBatch + 1 }, "Batch"},
		{func(d *Definition) { d.Start = 101 }, "Start"},
		{func(d *Definition) { d.Start, d.Offset = 100, 1 }, "Max"},
		{func(d *Definition) { d.Start, d.Offset = 100, 2 }, ""},
		{func(d *Definition) { d.Start, d.Offset, d.Batch = 101, 3, MaxBatch+1 }, "Offset Batch Start"},
	} {
		d := good
		c.set(&d)
		var fields []string
		for _, p := range problem.Of(d.Check()) {
			fields = append(fields, p.Field)
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%+v: wrong %q, want %q: %v", d, got, c.fields, d.Check())
		}
	}
}

func TestOnlyBatchMayDiffer(t *testing.T) {
	d := Definition{"orders", 1, 2, 1, 100, 0, false, 0, false, Time{}}
	for _, c := range []struct {
		other Definition
		want  bool
	}{
		{d, true},
		{Definition{"orders", 1, 2, 1, 100, 500, false, 0, false, Time{}}, true},
		{Definition{"items", 1, 2, 1, 100, 0, false, 0, false, Time{}}, false},
		{Definition{"orders", 3, 2, 1, 100, 0, false, 0, false, Time{}}, false},
		{Definition{"orders", 1, 1, 1, 100, 0, false, 0, false, Time{}}, false},
		{Definition{"orders", 1, 2, 2, 100, 0, false, 0, false, Time{}}, false},
		{Definition{"orders", 1, 2, 1, 101, 0, false, 0, false, Time{}}, false},
		{Definition{"orders", 1, 2, 1, 100, 0, true, 0, false, Time{}}, false},
	} {
		if d.Same(c.other) != c.want || c.other.Same(d) != c.want {
			t.Errorf("%+v: want %v", c.other, c.want)
		}
	}
}

func TestABlockIsGivenBackOnceAndOnlyByItsHolder(t *testing.T) {
	d := Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 1000}
	r := NewRecord(d, "0")
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	a, _ := r.Reserve(10, "a") // 1..19
	b, _ := r.Reserve(10, "b") // 21..39
	for _, c := range []struct {
		b    Block
		next uint64
	}{{a, 7}, {Block{b.Lo, b.Hi, "a"}, 21}, {Block{b.Lo, b.Hi + 2, "b"}, 21}, {b, 22}, {b, 41}, {b, 0}} {
		if err := r.Return(c.b, c.next, "x"); !errors.Is(err, ErrStale) {
			t.Errorf("%+v from %d on: %v", c.b, c.next, err)
		}
	}
	if err := r.Return(b, 7, "r"); err != nil || r.Next != 7 || r.Token != "r" { // all from 7 on is the caller's
		t.Errorf("%v, next %d, token %s", err, r.Next, r.Token)
	}
	if err := r.Return(b, 7, "r2"); !errors.Is(err, ErrStale) {
		t.Errorf("a second time: %v", err)
	}
	c, _ := r.Reserve(10, "c") // 7..25
	if err := r.Raise(3, "raise"); err != nil {
		t.Fatal(err)
	}
	if err := r.Return(c, 9, "x"); !errors.Is(err, ErrStale) {
		t.Errorf("after a raise: %v", err)
	}
	e, _ := r.Reserve(10, "e") // 27..45
	if err := r.Raise(32, "raise 2"); err != nil || r.Next != 47 {
		t.Errorf("%v, next %d", err, r.Next)
	}
	below := r
	if below.Next = 31; below.Check() == nil || r.Check() != nil {
		t.Errorf("%+v: %v; next 31: %v", r, r.Check(), below.Check())
	}
	f, _ := r.Reserve(1, "f")                                                       // 47
	if err := r.Return(f, e.Lo, "g"); err != nil || r.Next != 33 || r.Floor != 32 { // not below the floor
		t.Errorf("%v, next %d, floor %d", err, r.Next, r.Floor)
	}
}

func TestRaiseAndRetire(t *testing.T) {
	r := NewRecord(Definition{Name: "orders", Start: 1, Step: 10, Offset: 1, Max: 100}, "0")
	for _, v := range []uint64{0, 101, MaxValue + 1} {
		if err := r.Raise(v, "x"); err == nil || Certain(err) || r.Token != "0" {
			t.Errorf("raised to %d: %v, %+v", v, err, r)
		}
	}
	for _, c := range []struct{ to, next, floor uint64 }{{32, 41, 32}, {5, 41, 32}, {41, 41, 41}, {92, 101, 92}} {
		if err := r.Raise(c.to, fmt.Sprint(c.to)); err != nil || r.Next != c.next || r.Floor != c.floor ||
			r.Token != fmt.Sprint(c.to) || r.Check() != nil {
			t.Errorf("raised to %d: %v, %+v", c.to, err, r)
		}
	}
	if _, err := r.Reserve(1, "x"); err != ErrEnded {
		t.Errorf("past the largest value: %v", err)
	}
	r.Retire("end")
	if _, err := r.Reserve(1, "x"); err != ErrRetired || r.Token != "end" {
		t.Error(err, r.Token)
	}
	if err := r.Raise(100, "x"); err != ErrRetired || r.Token != "end" {
		t.Error(err, r.Token)
	}
	for err, want := range map[error]bool{nil: false, errors.New("timeout"): false,
		fmt.Errorf("%w: of host b", ErrForeign): true} {
		if Certain(err) != want {
			t.Errorf("Certain(%v) is not %v", err, want)
		}
	}
}
