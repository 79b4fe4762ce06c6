package issuer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestBatches: testdata/batches.txt has what becomes of requests. "ask 7 2" asks at the moment 7 for two values.
func TestBatches(t *testing.T) {
	steps.Run(t, "testdata/batches.txt", func(*testing.T) steps.Calls {
		b, began := NewBatches(1, id.MaxReserve), time.Now()
		got := func(run id.Run, err error, ok bool) (any, error) {
			if err != nil || !ok {
				return map[bool]string{true: "for good", false: "wait"}[ok], err
			}
			return fmt.Sprintf("%d from %d by %d", run.N, run.First, run.Stride), nil
		}
		answer := func(last uint64, err error) error { return b.Answer(int64(time.Since(began)), last, err) }
		return steps.Calls{
			"sleep":   time.Sleep,
			"by":      func(step uint64) { b = NewBatches(step, id.MaxReserve) },
			"ask":     func(moment int64, n int) (any, error) { return got(b.Ask(moment, n)) },
			"collect": func(moment int64, n int) (any, error) { return got(b.Collect(moment, n)) },
			"send":    func() int { return b.Send(0) },
			"answer":  func(last uint64) error { return answer(last, nil) },
			"fail":    func(text string) { answer(0, errors.New(text)) },
			"refuse":  func(text string) { answer(0, finalRefusal{sequenceRefusal(text)}) },
			"forget":  func(moment int64, n int) { b.Forget(moment, n) },
			"clear":   func() { b.Clear() },
			"asked":   func(moment int64, n int) bool { return b.Asked(moment, n) },
			"due":     func() bool { return b.Due() },
			"kept":    func() int { return len(b.ready) + len(b.older) },
		}
	})
}

// A leader, requests that ask every now and then, calls that fail or whose answers are late, and clients that go away.
// No value is issued twice, and all that had been issued before a request came are smaller.
func TestBatchesAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(300) {
		if err := randomBatches(rand.New(rand.NewPCG(seed, i))); err != nil {
			t.Fatalf("seed %d+%d: %v", seed, i, err)
		}
	}
}

func randomBatches(r *rand.Rand) error {
	type request struct {
		moment int64
		n      int
		above  uint64 // every value that was issued when it came
	}
	step := 1 + r.Uint64N(3)
	b := NewBatches(step, id.MaxReserve)
	var waiting []request
	seen := map[uint64]bool{}
	next, issued, asked, sent := uint64(1), uint64(0), 0, 0
	type call struct {
		n    int
		last uint64 // 0 = the leader has not got it yet
	}
	var c *call
	for now := int64(1); now < 2000; now++ {
		switch r.IntN(6) {
		case 0, 1:
			waiting = append(waiting, request{now, 1 + r.IntN(3), issued})
			asked += waiting[len(waiting)-1].n
			fallthrough
		case 2:
			if len(waiting) == 0 {
				continue
			}
			k := r.IntN(len(waiting))
			w := waiting[k]
			run, err, ok := b.Ask(w.moment, w.n)
			if r.IntN(20) == 0 {
				ok = true // the client has gone
				run.N = 0
			}
			if !ok {
				continue
			}
			waiting = append(waiting[:k], waiting[k+1:]...)
			for i := range run.N {
				v := run.First + uint64(i)*run.Stride
				if seen[v] || v <= w.above || err != nil || run.N != w.n {
					return fmt.Errorf("%d for %+v, %v", v, w, err)
				}
				seen[v] = true
				issued = max(issued, v)
			}
		case 3:
			if n := b.Send(0); n > 0 {
				if c != nil {
					return errors.New("two calls at once")
				}
				c = &call{n: n}
				sent += n
			}
		case 4:
			if c != nil && c.last == 0 {
				c.last = next + uint64(c.n-1)*step
				next = c.last + step
			}
			if r.IntN(2) == 0 { // somebody else
				issued, next = next, next+step
			}
		case 5:
			switch {
			case c == nil:
			case r.IntN(5) == 0:
				b.Answer(now, 0, errors.New("lost"))
				asked += c.n // they may be sent again
				c = nil
			case c.last > 0:
				b.Answer(now, c.last, nil)
				c = nil
			}
		}
	}
	if sent > asked {
		return fmt.Errorf("%d values were sent for, %d were asked for", sent, asked)
	}
	return nil
}
