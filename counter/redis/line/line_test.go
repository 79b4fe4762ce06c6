package line

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

func sequence(change func(*counter.Definition)) counter.Definition {
	d := counter.Sequence("orders")
	change(&d)
	return d
}

func TestTheLine(t *testing.T) {
	const created = 1_000_000
	d := sequence(func(d *counter.Definition) { d.Start, d.Step, d.Offset, d.Rate = 10, 10, 10, 100 })
	r := New(d, Moment{created, "h1"}, false, "t0")
	if _, err := r.Reserve(Moment{created, "h1"}, 1, "t"); !errors.Is(err, ErrNotSafe) {
		t.Error(err)
	}
	r.Safe = true
	reserve := func(m Moment, n, lo, hi uint64) {
		t.Helper()
		r.Adopt(m)
		b, err := r.Reserve(m, n, "t")
		if hi == 0 && errors.Is(err, ErrCeiling) {
			return
		}
		if err != nil || b.Lo != lo || b.Hi != hi {
			t.Fatalf("%+v, %v; want %d to %d", b, err, lo, hi)
		}
	}
	reserve(Moment{created, "h1"}, 10_000, 10, 60_000) // a minute's worth
	reserve(Moment{created, "h1"}, 1, 0, 0)
	reserve(Moment{created + 9, "h1"}, 1, 0, 0)
	reserve(Moment{created + 10, "h1"}, 5, 60_010, 60_010)
	reserve(Moment{created - 5000, "h1"}, 1, 0, 0)
	reserve(Moment{created + 1000, "h2"}, 1, 0, 0) // a loss: 66,000 values may have been granted
	reserve(Moment{created + 6000, "h2"}, 1, 0, 0)
	reserve(Moment{created + 6010, "h2"}, 9, 66_010, 66_010)
	if err := r.Raise(Moment{created + 6010, "h2"}, 1_000_001, "t"); err != nil || r.Safe {
		t.Fatalf("%+v, %v", r, err)
	}
	r.Safe = true
	reserve(Moment{created + 6010, "h2"}, 10_000, 1_000_010, 1_000_010+5999*10) // again a minute's worth
	reserve(Moment{created + 6010, "h3"}, 1, 0, 0)
	if want := uint64(1_000_010 + 6500*10); r.Next != want {
		t.Errorf("the next value after a loss is %d, want %d", r.Next, want)
	}
}

func TestCheck(t *testing.T) {
	const tenYears = 10 * 365 * 24 * 3600
	for _, c := range []struct {
		change func(*counter.Definition)
		ok     bool
	}{
		{func(d *counter.Definition) { d.Rate, d.Max = 1, tenYears }, true},
		{func(d *counter.Definition) { d.Rate, d.Max = 1, tenYears-1 }, false},
		{func(d *counter.Definition) { d.RefuseLoss, d.Max = true, 1 }, true},
		{func(d *counter.Definition) { d.Rate = counter.MaxRate }, true},
		{func(d *counter.Definition) { d.Rate, d.Step = counter.MaxRate, 10_000 }, false},
		{func(d *counter.Definition) { d.Rate = counter.MaxRate + 1 }, false},
		{func(d *counter.Definition) { d.Rate, d.RefuseLoss = 1, true }, false},
	} {
		if err := Check(sequence(c.change)); (err == nil) != c.ok {
			t.Errorf("%+v: %v", sequence(c.change), err)
		}
	}
	if err := Check(sequence(func(d *counter.Definition) {
		d.Max = 5
	})); err == nil || !strings.Contains(err.Error(), "it must be 3153600000001") {
		t.Error(err)
	}
}

// Near its largest numbers the line saturates; it never wraps.
func TestTheLineDoesNotWrap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		d := sequence(func(d *counter.Definition) {
			d.Start, d.Step, d.Rate = 1+rnd.Uint64N(counter.MaxValue), 1+rnd.Uint64N(1<<rnd.IntN(63)),
				1+rnd.Uint64N(counter.MaxRate)
			d.Offset = 1 + (d.Start-1)%d.Step
		})
		r := New(d, Moment{1, "h"}, false, "t")
		r.Safe, r.Base = true, rnd.Uint64()>>rnd.IntN(64)
		m := Moment{rnd.Int64N(maxTime), []string{"h", "other"}[rnd.IntN(2)]}
		before := r.Next
		r.Adopt(m)
		b, err := r.Reserve(m, rnd.Uint64(), "t2")
		if r.Next < before || err == nil && (b.Lo < before || b.Hi < b.Lo || b.Hi > d.Max) {
			t.Fatalf("%+v: %+v, %v", r, b, err)
		}
		if err == nil {
			if again, err := Decode(r.Encode()); err != nil || again != r {
				t.Fatalf("%q: %+v, %v", r.Encode(), again, err)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := New(counter.Sequence("orders"), Moment{1e12, "a:b"}, true, "token")
	f.Add(r.Encode())
	f.Add(strings.Replace(r.Encode(), "next=1 ", "next=0 ", 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Decode(s)
		if err == nil && r.Encode() != s {
			t.Errorf("%q was read as %+v", s, r)
		}
		if err == nil && (r.Check() != nil || r.Next < r.First()) {
			t.Errorf("%q was accepted", s)
		}
	})
}
