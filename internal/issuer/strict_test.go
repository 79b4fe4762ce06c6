package issuer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// A strictBed is a Strict of orders whose keeper, store and other daemons are the test.
type strictBed struct {
	*Strict
	t      *testing.T
	until  int64 // what the term of this daemon may issue before
	calls  chan *strictCall
	flying atomic.Int64
	rung   atomic.Int64
	woken  atomic.Int64
}

// A strictCall is one to another daemon; the test answers it.
type strictCall struct {
	address string
	n       int
	ctx     context.Context
	last    uint64
	err     error
	done    chan struct{}
}

var strictOrders = counter.Definition{Name: "orders", Start: 1, Step: 1, Offset: 1, Max: counter.MaxValue, Strict: true}

func newStrictBed(t *testing.T, d counter.Definition) *strictBed {
	b := &strictBed{t: t, calls: make(chan *strictCall, 100)}
	began := time.Now()
	b.Strict = NewStrict(StrictConfig{
		Definition: d, MaxWait: time.Second, Forward: b,
		Moment: func() int64 { return int64(time.Since(began)) + 1 },
		Status: func() counter.Status { return counter.Status{Block: 10, Left: 70, DaysLeft: 7} },
		Ring:   func() { b.rung.Add(1) }, Wake: func() { b.woken.Add(1) },
	})
	return b
}

// Last implements Forwarder.
func (b *strictBed) Last(ctx context.Context, address, name string, n int) (uint64, error) {
	if b.flying.Add(1) > 1 || name != "orders" {
		b.t.Errorf("a second call, for %s", name)
	}
	defer b.flying.Add(-1)
	c := &strictCall{address: address, n: n, ctx: ctx, done: make(chan struct{})}
	b.calls <- c
	select {
	case <-c.done:
		return c.last, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// call waits for a call and expects it to be for n values from address.
func (b *strictBed) call(address string, n int) *strictCall {
	b.t.Helper()
	synctest.Wait()
	select {
	case c := <-b.calls:
		if c.address != address || c.n != n {
			b.t.Errorf("%s is asked for %d values, want %s and %d", c.address, c.n, address, n)
		}
		return c
	default:
		b.t.Fatal("nobody is asked")
		return nil
	}
}

// answer ends a call and waits until that has had its effects.
func (c *strictCall) answer(last uint64, err error) {
	c.last, c.err = last, err
	close(c.done)
	synctest.Wait()
}

// lead begins a term in which this daemon may issue for the given time.
func (b *strictBed) lead(limit time.Duration) counter.Issuer {
	b.until = b.Moment() + int64(limit)
	return b.Lead(func() int64 { return b.until })
}

// want expects n values from first on, or 0 for id.ErrWait.
func (b *strictBed) want(moment int64, n int, first uint64) {
	b.t.Helper()
	run, err := b.Mint(id.When{Moment: moment}, n, false)
	if first == 0 && err != id.ErrWait || first > 0 && (err != nil || run.First != first || run.N != n) {
		b.t.Errorf("%+v, %v, want %d values from %d", run, err, n, first)
	}
}

func (b *strictBed) wantError(moment int64, redirect bool, want error) {
	b.t.Helper()
	_, err := b.Mint(id.When{Moment: moment, Redirect: redirect}, 1, false)
	_, err2 := b.Reserve(id.When{Moment: moment, Redirect: redirect}, 1)
	if fmt.Sprint(err) != want.Error() || fmt.Sprint(err2) != want.Error() {
		b.t.Errorf("%v, %v, want %v", err, err2, want)
	}
}

func (b *strictBed) facts() map[string]any {
	m := map[string]any{"issued": b.Issued()}
	b.Figures(func(f figure.Figure) { m[f.Stat] = f.Value })
	return m
}

func (b *strictBed) wantFacts(want map[string]any) {
	b.t.Helper()
	got := b.facts()
	for name, v := range want {
		if got[name] != v {
			b.t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
}

// Values come only from blocks of the term whose end the request's moment lies before.
func TestALeaderIssuesUntilItsTermIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		if _, err := b.Mint(id.At(0), 1, false); err != id.ErrMoment {
			t.Error(err)
		}
		if _, err := b.Reserve(id.At(0), 1); err != id.ErrMoment {
			t.Error(err)
		}
		one := b.lead(4 * time.Second)
		early := b.Moment()
		if b.want(early, 2, 0); b.rung.Load() != 1 {
			t.Error("no block was asked for")
		}
		one.Append(1, 20)
		b.want(early, 2, 1)
		if run, err := b.Reserve(id.When{Moment: early, Redirect: true}, 3); err != nil || run.First != 3 || run.N != 3 {
			t.Error(run, err)
		}
		time.Sleep(3999 * time.Millisecond)
		b.want(b.until-1, 1, 6)
		b.want(b.until, 1, 0)
		if run, err := b.Reserve(id.When{Moment: b.until, Redirect: true}, 1); err != id.ErrWait {
			t.Error(run, err)
		}
		askFor(time.Second, func() { b.want(b.until, 1, 0) })
		time.Sleep(time.Millisecond)
		b.want(early, 1, 7) // it had arrived in time
		refusal := errors.New("sequence orders: this daemon has not renewed its leadership for 1.0s: the counter store " +
			"does not answer")
		b.wantError(b.Moment(), true, refusal)
		if err := b.Ready(0); fmt.Sprint(err) != refusal.Error() {
			t.Error(err)
		}
		b.until = b.Moment() + 1 // renewed
		b.want(b.Moment(), 1, 8)
		b.want(b.until, 1, 0)
		b.until = 0 // it is ending
		b.wantError(b.Moment(), false, id.ErrWait)
		b.wantFacts(map[string]any{"issued": uint64(8), "last": int64(8), "at_hand": int64(12), "left": int64(70),
			"days_left": 7.0, "block": int64(10),
			"waits": uint64(1), "refusals": uint64(2), "leader": "this daemon", "order": "strict", "forwarded": uint64(0)})
		if b.Ready(0) != nil {
			t.Error("not ready")
		}

		b.until = math.MaxInt64
		woken := b.woken.Load()
		b.HandOver()
		if b.woken.Load() == woken {
			t.Error("nobody was woken")
		}
		if err := one.Append(30, 40); err == nil { // late
			t.Error("a term that is over takes a block")
		}
		if next, rest := one.Seal(); next != 9 || rest != 12 {
			t.Error(next, rest)
		}
		b.want(early, 1, 0)
		b.wantFacts(map[string]any{"issued": uint64(8), "last": int64(8), "at_hand": int64(0), "left": int64(0),
			"leader": "none"})
		two := b.lead(time.Second)
		b.want(b.Moment(), 1, 0)
		b.wantFacts(map[string]any{"issued": uint64(8), "last": int64(8), "leader": "this daemon"})
		two.Append(100, 110)
		b.want(b.Moment(), 2, 100)
		two.Seal() // by the keeper, before this daemon follows another one
		b.wantError(b.Moment(), false, id.ErrWait)
		if next, rest := two.Seal(); next != 102 || rest != 9 {
			t.Error(next, rest)
		}
		three := b.lead(time.Second)
		three.Append(200, 210)
		b.want(b.Moment(), 1, 200)
		b.wantFacts(map[string]any{"issued": uint64(11), "last": int64(200), "waits": uint64(2)})
	})
}

func TestASequenceThatNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		waits := func() {
			t.Helper()
			b.wantError(b.Moment(), true, id.ErrWait)
		}
		askFor(600*time.Millisecond, waits)
		b.Follow("")
		askFor(399*time.Millisecond, waits)
		waits()
		time.Sleep(time.Millisecond)
		refusal := errors.New("sequence orders: no daemon has led it for 1.0s")
		b.wantError(b.Moment(), false, refusal)
		b.wantError(b.Moment(), true, id.Elsewhere{Slot: id.Slot("orders")})
		if err := b.Ready(0); fmt.Sprint(err) != refusal.Error() {
			t.Error(err)
		}
		b.wantFacts(map[string]any{"refusals": uint64(4), "leader": "none"})
		b.Follow("h:1")
		b.wantError(b.Moment(), true, id.Elsewhere{Slot: id.Slot("orders"), Address: "h:1"})
		if at, elsewhere := b.Where(); !elsewhere || at != (id.Elsewhere{Slot: id.Slot("orders"), Address: "h:1"}) {
			t.Error(at, elsewhere)
		}
		if b.Ready(0) != nil {
			t.Error("not ready")
		}
		b.wantFacts(map[string]any{"leader": "h:1"})
		b.HandOver()
		b.wantError(b.Moment(), true, id.ErrWait)
		if _, elsewhere := b.Where(); elsewhere {
			t.Error("elsewhere, and nobody leads")
		}
	})
}

// A process that was stopped for longer than MaxWait, or that nobody asked, has lost its authority by then. Requests
// wait for the renewal under way, and are refused MaxWait after the first of them.
func TestRequestsWaitForAuthorityAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		term := b.lead(time.Second)
		term.Append(1, 20)
		b.want(b.Moment(), 1, 1)
		for first := uint64(2); first < 4; first++ { // the second pause is one of its own
			time.Sleep(3 * time.Second)
			late := b.Moment()
			askFor(999*time.Millisecond, func() { b.wantError(late, true, id.ErrWait) })
			b.want(late, 1, 0)
			b.until = b.Moment() + int64(time.Second) // renewed
			b.want(late, 1, first)
		}
		time.Sleep(2 * time.Second)
		askFor(time.Second, func() { b.want(b.Moment(), 1, 0) })
		b.wantError(b.Moment(), false, errors.New(
			"sequence orders: this daemon has not renewed its leadership for 2.0s: the counter store does not answer"))
		b.HandOver()
		time.Sleep(2 * time.Second)
		askFor(999*time.Millisecond, func() { b.wantError(b.Moment(), true, id.ErrWait) })
		b.wantError(b.Moment(), false, id.ErrWait)
		time.Sleep(time.Millisecond)
		b.wantError(b.Moment(), false, errors.New("sequence orders: no daemon has led it for 3.0s"))
		b.lacks(b.lacked - 1) // for a thread that was late
		b.wantError(b.Moment(), true, id.Elsewhere{Slot: id.Slot("orders")})
		b.wantFacts(map[string]any{"issued": uint64(3), "refusals": uint64(6)})
	})
}

// What waited when the process was stopped goes on waiting, whatever it waits for.
func TestAStandstillIsNoWait(t *testing.T) {
	for what, begin := range map[string]func(*strictBed) (end func()){
		"an answer of the leader": func(b *strictBed) func() {
			b.Follow("h:1")
			b.want(1, 1, 0)
			c := b.call("h:1", 1)
			return func() {
				if c.ctx.Err() != nil {
					t.Error("the call has ended")
				}
				c.answer(7, nil)
			}
		},
		"a leader": func(b *strictBed) func() {
			return func() { b.lead(time.Hour).Append(7, 9) }
		},
		"a renewal": func(b *strictBed) func() {
			b.lead(time.Nanosecond).Append(7, 9)
			time.Sleep(time.Second)
			return func() { b.until = b.Moment() }
		},
		"a block": func(b *strictBed) func() {
			term := b.lead(time.Hour)
			return func() { term.Append(7, 9) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStrictBed(t, strictOrders)
				end := begin(b)
				moment := b.Moment()
				if what == "an answer of the leader" {
					moment = 1
				}
				waits := func() {
					t.Helper()
					b.want(moment, 1, 0)
				}
				askFor(300*time.Millisecond, waits)
				waits()
				time.Sleep(900 * time.Millisecond)
				askFor(400*time.Millisecond, waits)
				end()
				b.want(moment, 1, 7)
			})
		})
	}
}

// Of the times in which the process stood still the longest one is forgiven, as far as a request waited then.
func TestTheLongestStandstillCountsForNobody(t *testing.T) {
	var s standstill
	ms := int64(time.Millisecond)
	waited := func(now, moment, want int64) {
		t.Helper()
		s.ask(now * ms)
		if got := s.waited(now*ms, moment*ms); got != time.Duration(want*ms) {
			t.Errorf("at %d: has waited %v since %d, want %d ms", now, got, moment, want)
		}
	}
	waited(10_000, 9_990, 0)
	waited(10_200, 10_000, 200) // a busy process
	waited(12_300, 10_000, 200)
	waited(12_350, 10_000, 250)
	waited(12_350, 11_000, 50) // it came meanwhile
	waited(12_350, 12_310, 40)
	waited(14_350, 10_000, 2_250)
	waited(14_350, 11_000, 1_350) // of the two pauses it waited longer in the second
	waited(14_350, 12_350, 0)
	waited(14_400, 12_350, 50)
	waited(14_650, 12_350, 300) // a hiccup after a pause
	waited(14_650, 14_400, 0)
	waited(17_650, 10_000, 4_650)
	for range 2 * mostPauses {
		s.ask(s.asked + 300*ms)
	}
	waited(22_450, 14_650, 4_800)
	now := int64(22_450)
	for length := int64(600); length > 600-2*10*mostPauses; length -= 10 {
		now += length
		waited(now, now-length, 0)
	}
	waited(now, now-450-460, 450)
	if len(s.pauses) != mostPauses {
		t.Errorf("remembers %d pauses", len(s.pauses))
	}
}

func TestARetiredSequenceSaysSo(t *testing.T) {
	b := newStrictBed(t, strictOrders)
	term := b.lead(time.Second)
	term.Refuse(counter.ErrRetired)
	term.Seal()
	b.wantError(1, false, errors.New("sequence orders is retired"))
}

// What waits is asked for together, one call after another; what a call brings goes to the requests
// that it was made for.
func TestAFollowerFetchesFromTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		b.Follow("h:1")
		b.want(1, 1, 0)
		first := b.call("h:1", 1)
		for m := range int64(9) {
			b.want(m+2, 2, 0)
			b.want(m+2, 2, 0)
		}
		b.want(1, 1, 0)
		woken := b.woken.Load()
		first.answer(100, nil)
		if b.woken.Load() == woken {
			t.Error("nobody was woken")
		}
		second := b.call("h:1", 18)
		b.want(50, 1, 0) // comes when the call was made
		b.want(1, 1, 100)
		second.answer(218, nil)
		b.want(10, 2, 217)
		b.want(2, 2, 201)
		b.want(50, 1, 0)
		b.call("h:1", 1).answer(300, nil)
		b.want(50, 1, 300)
		if run, err := b.Reserve(id.When{Moment: 60}, 1000); err != id.ErrWait {
			t.Error(run, err)
		}
		b.call("h:1", 1000).answer(1300, nil)
		if run, err := b.Reserve(id.When{Moment: 60}, 1000); err != nil || run.First != 301 || run.N != 1000 {
			t.Error(run, err)
		}
		b.want(b.Moment(), 70_000, 0)
		b.call("h:1", id.MaxReserve).answer(counter.MaxValue, nil)
		b.wantFacts(map[string]any{"issued": uint64(0), "forwarded": uint64(1 + 18 + 1 + 1000 + id.MaxReserve),
			"refusals": uint64(0), "leader": "h:1"})
		if len(b.calls) > 0 {
			t.Error("it goes on asking")
		}
	})
}

// A call that fails is repeated for those who ask again, not at once, until they have waited for MaxWait.
func TestALeaderThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		b.Follow("h:1")
		early := b.Moment()
		gone := early + 1
		b.want(gone, 7, 0)
		b.call("h:1", 7).answer(0, errors.New("connection refused"))
		if err := b.Ready(0); fmt.Sprint(err) != "sequence orders: no value from its leader h:1: connection refused" {
			t.Error(err)
		}
		b.want(early, 1, 0)
		synctest.Wait()
		if len(b.calls) > 0 {
			t.Error("it is asked again at once")
		}
		time.Sleep(retryPause)
		c := b.call("h:1", 1)
		b.want(gone, 7, 0) // for the next call
		askFor(500*time.Millisecond, func() { b.want(early, 1, 0) })
		b.want(early, 1, 0)
		late := b.Moment()
		b.want(late, 1, 0)
		askFor(474*time.Millisecond, func() { b.want(early, 1, 0) })
		b.want(early, 1, 0)
		time.Sleep(time.Millisecond)
		b.wantError(early, false, errors.New("sequence orders: no value from its leader h:1 for 1.0s: connection refused"))
		time.Sleep(time.Nanosecond)
		if _, err := b.Mint(id.When{Moment: gone}, 7, false); err == id.ErrWait {
			t.Error(err)
		}
		b.want(late, 1, 0)
		time.Sleep(24 * time.Millisecond)
		if synctest.Wait(); c.ctx.Err() != nil {
			t.Error("the call has ended too early")
		}
		time.Sleep(time.Millisecond)
		if synctest.Wait(); c.ctx.Err() == nil || len(b.calls) > 0 {
			t.Error("the call has not ended")
		}
		time.Sleep(retryPause)
		b.call("h:1", 1).answer(5, nil) // for late, which has not had to ask again
		b.want(late, 1, 5)
		b.wantFacts(map[string]any{"refusals": uint64(3)})
		if b.Ready(0) != nil {
			t.Error("not ready")
		}
		b.want(b.Moment(), 2, 0)
		b.call("h:1", 2).answer(1, nil)
		if err := b.Ready(0); fmt.Sprint(err) != "sequence orders: no value from its leader h:1: 0 to 1 are no values of "+
			"this sequence" {
			t.Error(err)
		}
	})
}

func TestTheLeaderChangesWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		b.Follow("h:1")
		first, second := b.Moment(), b.Moment()+1
		b.want(first, 1, 0)
		b.call("h:1", 1)
		b.want(second, 2, 0)
		b.Follow("h:2")
		if synctest.Wait(); len(b.calls) > 0 {
			t.Error("the old leader's answer is not waited for")
		}
		time.Sleep(lastWait)
		c := b.call("h:2", 2) // for whom the other one was not asked
		b.want(first, 1, 0)
		c.answer(20, nil)
		b.want(second, 2, 19)
		b.call("h:2", 1).answer(21, nil)
		b.want(first, 1, 21)
		if b.Ready(0) != nil {
			t.Error("the old leader counts")
		}

		first, second = b.Moment(), b.Moment()+1
		b.want(first, 1, 0)
		b.call("h:2", 1)
		b.want(second, 1, 0)
		b.HandOver() // the view says that nobody leads
		time.Sleep(lastWait)
		synctest.Wait()
		b.want(first, 1, 0)
		if len(b.calls) > 0 {
			t.Error("somebody is asked")
		}
		term := b.lead(time.Second)
		b.want(second, 1, 0)
		term.Append(30, 39)
		b.want(second, 1, 30)
		b.want(first, 1, 31)

		b.Follow("h:3")
		asked, moment := b.Moment(), b.Moment()+1
		b.want(asked, 1, 0)
		late := b.call("h:3", 1)
		b.want(moment, 1, 0) // for the next call
		term = b.lead(time.Second)
		synctest.Wait()
		term.Append(50, 59)
		b.want(moment, 1, 50)
		b.want(asked, 1, 0) // the old leader may have issued its value
		time.Sleep(lastWait)
		if synctest.Wait(); late.ctx.Err() == nil {
			t.Error("the call goes on")
		}
		b.want(asked, 1, 51)
		b.Follow("h:1")
		if synctest.Wait(); len(b.calls) > 0 {
			t.Error("it is asked for somebody who has values")
		}
	})
}

// A daemon that begins to lead while it asks the old leader hands on what that has issued, to the requests that it was
// issued for.
func TestANewLeaderCollectsWhatTheOldOneIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		for i, nobody := range []bool{false, true} { // in between
			base := uint64(100 * i)
			b.Follow("h:1")
			asked := b.Moment()
			b.want(asked, 2, 0)
			late := b.call("h:1", 2)
			if nobody {
				b.Follow("")
				b.want(asked, 2, 0)
			}
			term := b.lead(time.Second)
			term.Append(base+30, base+39)
			b.want(asked, 2, 0)
			b.want(asked+1, 1, base+30)
			late.answer(base+21, nil)
			run, err := b.Reserve(id.When{Moment: asked, Redirect: true}, 2)
			if err != nil || run.First != base+20 || run.N != 2 {
				t.Error(run, err)
			}
			b.want(asked, 2, base+31) // another request on the same connection
			b.want(asked+1, 1, base+33)
			time.Sleep(3 * lastWait)
			if synctest.Wait(); b.standing.Load().owed {
				t.Error("requests go on looking for values of the old leader")
			}
			b.until = math.MaxInt64
			b.want(asked, 1, base+34)
		}

		b.Follow("h:1")
		asked := b.Moment()
		b.want(asked, 2, 0)
		late := b.call("h:1", 2)
		b.Follow("")
		late.answer(221, nil)
		b.want(asked, 2, 220) // nobody leads, and its values are there
		b.wantFacts(map[string]any{"refusals": uint64(0)})
	})
}

// When the leader is known, those who wait are asked for at once, also within the pause after a failure.
func TestANewLeaderIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		b.Follow("h:1")
		b.want(1, 1, 0)
		b.call("h:1", 1).answer(0, errors.New("MOVED"))
		b.want(1, 1, 0)
		b.Follow("h:2")
		b.call("h:2", 1).answer(7, nil)
		b.want(1, 1, 7)
	})
}

func TestAFollowerOfASequenceThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// the code decides, or, of a leader of an earlier release, the sentence
		for _, answer := range []error{finalRefusal{refusal("FINAL sequence orders has ended at 9")},
			errors.New("ERR sequence orders has ended at 9")} {
			b := newStrictBed(t, strictOrders)
			b.Follow("h:1")
			b.want(1, 1, 0)
			b.call("h:1", 1).answer(0, answer)
			_, err := b.Mint(id.When{Moment: 1}, 1, false)
			if fmt.Sprint(err) != "sequence orders has ended at 9" || !isFinal(err) || b.Ready(0) != nil {
				t.Error(answer, err)
			}
			b.wantFacts(map[string]any{"refusals": uint64(1)})
		}
	})
}

// TestCallsToTheLeaderAreTimed: one that fails too.
func TestCallsToTheLeaderAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		b.Follow("h:1")
		for _, err := range []error{nil, errors.New("connection refused")} {
			b.want(b.Moment(), 1, 0)
			c := b.call("h:1", 1)
			time.Sleep(30 * time.Millisecond)
			c.answer(7, err)
		}
		b.wantFacts(map[string]any{"waited_ms": 60 * time.Millisecond})
		b.HandOver()
	})
}

// Values of several terms, taken by many goroutines while leadership comes and goes: none twice, and each is of a term
// that had not ended when it was asked for.
func TestTakesWhileTermsChange(t *testing.T) {
	b := newStrictBed(t, strictOrders)
	var now, until, begun atomic.Int64 // a clock that the test moves
	b.c.Moment = func() int64 { return now.Add(1) }
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				term := begun.Load()
				moment := b.Moment()
				run, err := b.Mint(id.When{Moment: moment}, 2, false)
				if err != nil {
					continue
				}
				mu.Lock()
				for i := range run.N {
					if v := run.First + uint64(i); seen[v] || int64(v/1000) < term {
						t.Errorf("%d: twice = %v, asked in term %d", v, seen[v], term)
					}
					seen[run.First+uint64(i)] = true
				}
				mu.Unlock()
			}
		})
	}
	var old []counter.Issuer
	for term := uint64(1); term < 300; term++ {
		before := b.Issued()
		begun.Store(int64(term))
		until.Store(1 << 60)
		i := b.Lead(until.Load)
		i.Append(term*1000, term*1000+99)
		for _, o := range old {
			o.Append(term*1000+200, term*1000+299)
		}
		for b.Issued() < before+3 {
			runtime.Gosched()
		}
		until.Store(0)
		b.HandOver()
		if err := i.Append(term*1000+500, term*1000+599); err == nil {
			t.Fatal("it is not sealed")
		}
		old = append(old, i)
	}
	close(stop)
	wg.Wait()
}

func TestAStrictSequenceAllocatesNothing(t *testing.T) {
	b := newStrictBed(t, strictOrders)
	b.lead(time.Hour).Append(1, 1<<40)
	s := b.Source(1).(id.Punctual)
	if n := testing.AllocsPerRun(1000, func() {
		s.Mint(id.When{Moment: s.Moment()}, 3, false)
		s.Reserve(id.When{Moment: 5, Redirect: true}, 2)
		s.Mint(id.At(0), 1, false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.HandOver()
	if n := testing.AllocsPerRun(1000, func() { b.Mint(id.When{Moment: b.Moment()}, 1, false) }); n != 0 {
		t.Errorf("%v allocations to say wait", n)
	}
	b.Follow("h:1")
	moment := b.Moment()
	b.Mint(id.When{Moment: moment}, 1, false)
	if n := testing.AllocsPerRun(1000, func() { b.Mint(id.When{Moment: moment}, 1, false) }); n != 0 {
		t.Errorf("%v allocations to ask again", n)
	}
}

// An etcd that was wiped and has the sequence anew grants values that this daemon has passed on or issued before.
// Its clients do not get them again: neither from a leader nor from this daemon itself.
func TestValuesThatDoNotRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newStrictBed(t, strictOrders)
		follow := func(last uint64) {
			t.Helper()
			b.want(b.Moment(), 3, 0)
			b.call("h:1", 3).answer(last, nil)
		}
		refuses := func(text string) {
			t.Helper()
			if _, err := b.Mint(id.When{Moment: b.Moment()}, 3, false); err == nil || err.Error() != text {
				t.Errorf("%v, want %s", err, text)
			}
		}
		const says = ", and 103 was issued before: the counter store was wiped or set back. `katsubushi name raise` " +
			"it above every value that was issued"
		b.Follow("h:1")
		follow(103)
		b.want(b.Moment(), 3, 101)
		for n, last := range []uint64{3, 103, 105} { // the first of the values counts
			time.Sleep(2 * retryPause)
			follow(last)
			refuses(fmt.Sprintf("sequence orders: %d was granted%s", last-2, says))
			b.wantFacts(map[string]any{"set_back": uint64(n + 1), "refusals": uint64(n + 1), "forwarded": uint64(3),
				"last": int64(103)})
		}
		time.Sleep(2 * retryPause)

		term := b.lead(time.Hour)
		for _, lo := range []uint64{1, 103} {
			if err := term.Append(lo, lo+9); fmt.Sprint(err) != fmt.Sprint(lo)+" was granted"+says {
				t.Errorf("%d: %v", lo, err)
			}
		}
		if err := term.Append(104, 109); err != nil {
			t.Error(err)
		}
		b.want(b.Moment(), 2, 104)
		time.Sleep(2 * retryPause)
		b.Follow("")
		if err := b.lead(time.Hour).Append(105, 109); err == nil {
			t.Error("a later term begins with a value of an earlier one")
		}
		b.Follow("h:1") // what it issued counts too
		follow(107)
		refuses("sequence orders: 105 was granted" + strings.Replace(says, "103", "105", 1))
		time.Sleep(2 * retryPause)
		follow(108)
		b.want(b.Moment(), 3, 106)
		b.wantFacts(map[string]any{"set_back": uint64(4), "last": int64(108)})
	})
}
