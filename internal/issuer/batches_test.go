package issuer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// want asks and expects the values first, first+step and so on; 0 = to be asked again.
func (b *Batches) want(t *testing.T, moment int64, n int, first uint64) {
	t.Helper()
	run, err, ok := b.Ask(moment, n)
	if err != nil || ok != (first > 0) || run.First != first || ok && (run.N != n || run.Stride != b.step) {
		t.Errorf("moment %d: %+v, %v, %v, want %d values from %d on", moment, run, err, ok, n, first)
	}
}

func (b *Batches) wantSend(t *testing.T, n int) {
	t.Helper()
	if got := b.Send(0); got != n {
		t.Errorf("%d values are sent for, want %d", got, n)
	}
}

func TestBatches(t *testing.T) {
	b := NewBatches(3, id.MaxReserve)
	b.wantSend(t, 0)
	b.want(t, 1, 2, 0)
	b.want(t, 1, 2, 0) // again
	b.want(t, 2, 1, 0)
	b.wantSend(t, 3)
	b.want(t, 3, 4, 0) // too late for that one
	b.want(t, 1, 2, 0) // noted only once
	b.wantSend(t, 0)   // one call at a time
	b.Answer(0, 106, nil)
	b.want(t, 3, 4, 0)
	b.want(t, 2, 1, 106)
	b.want(t, 1, 2, 100)
	b.wantSend(t, 4)
	b.want(t, 2, 1, 0) // a new request of an old moment
	b.Answer(0, 0, errors.New("no route to host"))
	b.want(t, 3, 4, 0)
	b.wantSend(t, 5)
	b.Answer(0, 212, nil)
	b.want(t, 2, 1, 200)
	b.want(t, 3, 4, 203)
	b.wantSend(t, 0)
}

// Two event loops may read the same moment. Each request gets as many values as it wanted, whoever asks
// first, and none is lost: TestStrictDemote lost two in two minutes.
func TestTwoRequestsOfOneMoment(t *testing.T) {
	for _, wants := range [][2]int{{2, 1}, {1, 2}, {3, 3}} {
		for first := range 2 {
			b, last, got := NewBatches(1, id.MaxReserve), 0, 0
			waiting := []int{wants[first], wants[1-first]}
			for range 5 {
				waiting = slices.DeleteFunc(waiting, func(n int) bool {
					run, err, ok := b.Ask(7, n)
					if ok && (err != nil || run.N != n) {
						t.Errorf("%+v, %v for %d values", run, err, n)
					}
					got += run.N
					return ok
				})
				slices.Reverse(waiting)
				if n := b.Send(0); n > 0 {
					last += n
					b.Answer(0, uint64(last), nil)
				}
			}
			if len(waiting) > 0 || got != last || got != wants[0]+wants[1] {
				t.Errorf("%v: %d values were issued, %d taken, %d requests wait", wants, last, got, len(waiting))
			}
		}
	}
}

func TestABatchIsNotTooLarge(t *testing.T) {
	b := NewBatches(1, id.MaxReserve)
	for i, n := range []int{id.MaxReserve - 1, 1, 1, id.MaxReserve, 7} {
		b.want(t, int64(i), n, 0)
	}
	for i, n := range []int{id.MaxReserve, 1, id.MaxReserve, 7, 0} {
		b.wantSend(t, n)
		if n > 0 {
			b.Answer(0, uint64(1_000_000*(i+1)), nil)
		}
	}
	b.want(t, 0, id.MaxReserve-1, 1_000_000-id.MaxReserve+1)
	b.want(t, 1, 1, 1_000_000)
	b.want(t, 4, 7, 4_000_000-6)
}

// A request that is answered otherwise is not sent for, and what was sent for it goes to nobody.
func TestForgottenRequests(t *testing.T) {
	b := NewBatches(1, id.MaxReserve)
	for m := range int64(4) {
		b.want(t, m, 10, 0)
	}
	b.Forget(1, 10)
	b.Forget(9, 10)
	b.wantSend(t, 30)
	b.Forget(2, 10)
	b.want(t, 2, 5, 0) // another request
	b.Answer(0, 30, nil)
	b.want(t, 0, 10, 1)
	b.want(t, 3, 10, 11)
	b.want(t, 2, 5, 0)
	b.want(t, 1, 10, 0)
	b.Forget(1, 10)
	b.want(t, 1, 3, 0)
	b.wantSend(t, 8)
	b.Answer(0, 38, nil)
	b.want(t, 1, 3, 36)
	b.want(t, 2, 5, 31)
	b.want(t, 5, 1, 0)
	b.wantSend(t, 1)
	b.want(t, 6, 1, 0)
	b.Clear()
	if !b.Asked(5, 1) || b.Asked(6, 1) || !b.Due() {
		t.Error("what was sent is not what the leader was asked for")
	}
	b.Answer(0, 39, nil)
	b.wantSend(t, 0)
	if b.Asked(5, 1) || !b.Due() {
		t.Error("the answer is not due")
	}
	if _, _, ok := b.Collect(6, 1); ok {
		t.Error("an answer to what was cleared")
	}
	if run, err, ok := b.Collect(5, 1); run.First != 39 || err != nil || !ok || b.Due() {
		t.Error(run, err, ok)
	}
	b.want(t, 6, 1, 0)
	b.wantSend(t, 1)
}

// The answers of clients that went away are not kept for ever.
func TestOldAnswersAreDropped(t *testing.T) {
	b := NewBatches(1, id.MaxReserve)
	for i := range int64(100) {
		b.want(t, 2*i, 1, 0)
		b.want(t, 2*i+1, 1, 0)
		b.wantSend(t, 2)
		b.Answer(i*int64(time.Second), uint64(2*i+2), nil)
		if b.want(t, 2*i, 1, uint64(2*i+1)); i >= 5 {
			b.want(t, 2*(i-5)+1, 1, uint64(2*(i-5)+2))
		}
	}
	if n := len(b.ready) + len(b.older); n > 30 {
		t.Errorf("%d answers are kept", n)
	}
}

// Near the end of a sequence a large batch is refused although some of its requests could be served.
func TestTheLastValues(t *testing.T) {
	b, left, calls := NewBatches(1, id.MaxReserve), 5, 0
	ended := finalRefusal{"sequence orders has ended at 5"}
	got, refused := 0, 0
	waiting := map[int64]bool{}
	for m := range int64(100) {
		waiting[m] = true
	}
	for round := 0; len(waiting) > 0 && round < 100; round++ {
		for m := range int64(100) {
			if !waiting[m] {
				continue
			}
			n := 1 + int(m)/99*9 // the last one wants ten
			switch run, err, ok := b.Ask(m, n); {
			case !ok:
				continue
			case err != nil:
				refused++
			default:
				got += run.N
			}
			delete(waiting, m)
		}
		if n := b.Send(0); n > left {
			calls++
			b.Answer(0, 0, ended)
		} else if n > 0 {
			calls++
			b.Answer(0, uint64(5-left+n), nil)
			left -= n
		}
	}
	if got != 5 || refused != 95 || calls > 8 {
		t.Errorf("%d values, %d refused, %d calls", got, refused, calls)
	}
	b.want(t, 200, 1, 0)
	b.wantSend(t, 1)
	b.Answer(0, 0, ended)
	if _, err, ok := b.Ask(200, 1); !ok || err != error(ended) {
		t.Error(err)
	}
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
