package issuer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A strictBed is a Strict of orders whose keeper, store and other daemons are the test.
type strictBed struct {
	*Strict
	t      *testing.T
	until  int64 // what the term of this daemon may issue before
	calls  chan *strictCall
	flying atomic.Int64
	bell   bells

	moments map[string]int64
	open    []*strictCall // that were not answered
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
		Ring:   func() { b.bell.rung.Add(1) }, Wake: func() { b.bell.woken.Add(1) },
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

// lead begins a term in which this daemon may issue for the given time.
func (b *strictBed) lead(limit time.Duration) counter.Issuer {
	b.until = b.Moment() + int64(limit)
	return b.Lead(func() int64 { return b.until })
}

// moment reads a name, "now", "until" or a number, with a few ns more or less behind it.
func (b *strictBed) moment(text string) int64 {
	at := max(strings.IndexAny(text, "+-"), 0)
	more, _ := strconv.ParseInt(text[at:], 10, 64)
	switch name := text[:at]; {
	case at == 0 && more > 0:
		return more
	case at == 0:
		return b.moment(text + "+0")
	case name == "now":
		return b.Moment() + more
	case name == "until":
		return b.until + more
	default:
		return b.moments[name] + more
	}
}

// answer ends the earliest call that another daemon has not answered.
func (b *strictBed) answer(last uint64, err error) {
	c := b.open[0]
	b.open = b.open[1:]
	c.last, c.err = last, err
	close(c.done)
}

// besides says what a step led to.
func (b *strictBed) besides() string {
	said := b.bell.said()
	b.open = slices.DeleteFunc(b.open, func(c *strictCall) bool {
		if c.ctx.Err() == nil {
			return false
		}
		said = append(said, fmt.Sprintf("- the call to %s has ended", c.address))
		return true
	})
	for len(b.calls) > 0 {
		c := <-b.calls
		b.open = append(b.open, c)
		said = append(said, fmt.Sprintf("- %s is asked for %d", c.address, c.n))
	}
	return strings.Join(said, "\n")
}

// TestStrict: testdata/strict.txt has what a daemon answers that leads or follows. "mint early 2" asks at the moment
// "early" for two values.
func TestStrict(t *testing.T) {
	steps.Run(t, "testdata/strict.txt", func(t *testing.T) steps.Calls {
		b := newStrictBed(t, strictOrders)
		b.moments = map[string]int64{}
		terms := map[string]counter.Issuer{}
		mint := func(moment string, n int, how ...string) (string, error) {
			return take(b, id.When{Moment: b.moment(moment)}, n, how...)
		}
		return steps.Calls{
			"":      b.besides,
			"sleep": time.Sleep,
			"now":   func(name string) { b.moments[name] = b.Moment() },
			"mint":  mint,
			"keep-minting": func(d time.Duration, moment string, n int, how ...string) string {
				return keep(d, func() (string, error) { return mint(moment, n, how...) })
			},
			"lead":   func(term string, limit time.Duration) { terms[term] = b.lead(limit) },
			"renew":  func(limit time.Duration) { b.until = b.Moment() + int64(limit) },
			"ending": func() { b.until = 0 },
			"append": func(term string, lo, hi uint64) error { return terms[term].Append(lo, hi) },
			"seal": func(term string) string {
				next, rest := terms[term].Seal()
				return fmt.Sprintf("next %d, %d left", next, rest)
			},
			"retire":        func(term string) { terms[term].Refuse(counter.ErrRetired) },
			"follow":        func(address string) { b.Follow(address) },
			"handover":      b.HandOver,
			"answer":        func(last uint64) { b.answer(last, nil) },
			"fail":          func(text string) { b.answer(0, errors.New(text)) },
			"fail-for-good": func(text string) { b.answer(0, finalRefusal{refusal("%s", text)}) },
			"ready":         func() (string, error) { return isReady(b, 0) },
			"over":          func() (bool, error) { return IsRetirement(b.Over()), b.Over() },
			"where":         func() string { return fmt.Sprint(b.Where()) },
			"facts":         func(names ...string) string { return facts(b, names...) },
			"late-thread":   func() { b.lacks(b.lacked - 1) },
			"owed":          func() bool { return b.standing.Load().owed },
		}
	})
}

// TestStandstill: testdata/standstill.txt has how long requests have waited, in ms.
func TestStandstill(t *testing.T) {
	steps.Run(t, "testdata/standstill.txt", func(*testing.T) steps.Calls {
		var s standstill
		ask := func(now int64) { s.ask(now * int64(time.Millisecond)) }
		return steps.Calls{
			"ask": func(times ...int64) {
				for _, now := range times {
					ask(now)
				}
			},
			"at": func(now, moment int64) int64 { // "at 10 7": a request asks that came at 7
				ask(now)
				ms := int64(time.Millisecond)
				return s.waited(now*ms, moment*ms).Milliseconds()
			},
		}
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
