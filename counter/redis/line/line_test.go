package line

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

func sequence(change func(*counter.Definition)) counter.Definition {
	d := counter.Sequence("orders")
	change(&d)
	return d
}

// TestTheLine: testdata/line.txt has a record in a store that may lose what it has confirmed.
func TestTheLine(t *testing.T) {
	steps.Run(t, "testdata/line.txt", func(t *testing.T) steps.Calls {
		var r Record
		define := func(words []string) counter.Definition {
			return sequence(func(d *counter.Definition) {
				fields := map[string]*uint64{"start": &d.Start, "step": &d.Step, "offset": &d.Offset, "max": &d.Max,
					"rate": &d.Rate}
				for _, word := range words {
					name, value, _ := strings.Cut(word, "=")
					if d.RefuseLoss = d.RefuseLoss || name == "refuse"; fields[name] != nil {
						fmt.Sscan(value, fields[name])
					}
				}
			})
		}
		return steps.Calls{
			"check": func(words ...string) error { return Check(define(words)) },
			"new":   func(words ...string) { r = New(define(words), Moment{0, "h1"}, false, "t0") },
			"safe":  func() { r.Safe = true },
			// reserve NOW HISTORY N
			"reserve": func(now int64, history string, n uint64) (string, error) {
				r.Adopt(Moment{now, history})
				b, err := r.Reserve(Moment{now, history}, n, "t")
				return fmt.Sprintf("%d to %d, next %d", b.Lo, b.Hi, r.Next), err
			},
			"raise": func(now int64, history string, atLeast uint64) (string, error) {
				err := r.Raise(Moment{now, history}, atLeast, "t")
				return fmt.Sprintf("next %d, safe %v", r.Next, r.Safe), err
			},
		}
	})
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
