package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// A term is a Fence of sequences whose names begin so.
type term string

func (p term) Check(name string) error {
	if !strings.HasPrefix(name, string(p)) {
		return fmt.Errorf("%w: %s", counter.ErrDeposed, name)
	}
	return nil
}

// Within a term what this process wrote last is not read again, unless somebody else has written. Another term
// knows nothing of it.
func TestWithin(t *testing.T) {
	f := newFake()
	f.inTurn()
	var fences []ledger.Fence
	f.admit = func(fence ledger.Fence, _ ledger.Found) error {
		fences = append(fences, fence)
		return nil
	}
	l, operator := f.open(ledger.Traits{Together: 2}), f.db.Open()
	for _, name := range []string{"orders", "order2", "order3", "order4"} {
		define(t, l, name)
	}
	one, two := l.Within(term("ord")), l.Within(term("order"))
	f.loads = 0
	first := reserve(t, one, 1)
	b := reserve(t, one, 11)
	refused(t, one.Return(bg, "orders", first, 5), counter.ErrStale)
	if err := one.Return(bg, "orders", b, 15); err != nil || f.loads != 2 {
		t.Errorf("%v, %d loads", err, f.loads)
	}
	b = reserve(t, one, 15)
	if _, err := operator.Raise(bg, "orders", 100); err != nil {
		t.Fatal(err)
	}
	refused(t, one.Return(bg, "orders", b, 16), counter.ErrStale)
	if _, err := operator.Retire(bg, "order2"); err != nil {
		t.Fatal(err)
	}
	reserve(t, one, 100)
	if f.loads != 4 {
		t.Errorf("%d loads", f.loads)
	}
	reserve(t, two, 110)
	reserve(t, l, 120)
	b = reserve(t, l, 130)
	if err := l.Return(bg, "orders", b, 131); err != nil || f.loads != 8 {
		t.Errorf("%v, %d loads", err, f.loads)
	}
	if fences = slices.Compact(fences); !slices.Equal(fences, []ledger.Fence{term("ord"), term("order"), nil}) {
		t.Error(fences)
	}
	_, err := one.Reserve(bg, "items", 1)
	refused(t, err, counter.ErrDeposed, "items")
	two = l.Within(term("ord"))
	raised, err1 := two.Reserve(bg, "order3", 10)
	last, err2 := two.Reserve(bg, "order4", 10)
	_, err3 := operator.Raise(bg, "order3", 50)
	errs := two.ReturnAll(bg, []counter.Rest{{Name: "order3", Block: raised, Next: 5},
		{Name: "order4", Block: last, Next: 5}})
	if err := errors.Join(err1, err2, err3); err != nil || !errors.Is(errs[0], counter.ErrStale) || errs[1] != nil {
		t.Error(err, errs)
	}
	if r, err := l.Show(bg, "order4"); err != nil || r.Next != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	errs = one.ReturnAll(bg, []counter.Rest{{Name: "items"}, {Name: "orders"}, {Name: "order2"}})
	if !errors.Is(errs[0], counter.ErrDeposed) || !errors.Is(errs[1], counter.ErrStale) ||
		!errors.Is(errs[2], counter.ErrStale) {
		t.Error(errs)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	reserve(t, l, 131)
}

// Rests of many sequences go back in as few Swaps as the store allows, and each is refused for itself.
func TestManyAtOnce(t *testing.T) {
	f := newFake()
	f.inTurn()
	l := f.open(ledger.Traits{Together: 3, Patient: true})
	var rests []counter.Rest
	for _, name := range []string{"c", "a", "b", "e", "d", "g", "f"} {
		define(t, l, name)
		b, err := l.Reserve(bg, name, 10)
		if err != nil {
			t.Fatal(err)
		}
		rests = append(rests, counter.Rest{Name: name, Block: b, Next: 5})
	}
	if _, err := l.Raise(bg, "a", 50); err != nil {
		t.Fatal(err)
	}
	rests = append(rests, counter.Rest{Name: "none"})
	f.swaps, f.loads = 0, 0
	f.lose(1)
	errs := l.ReturnAll(bg, rests)
	for i, err := range errs {
		want := map[string]error{"a": counter.ErrStale, "none": counter.ErrUnknown}[rests[i].Name]
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", rests[i].Name, err, want)
		}
	}
	if f.swaps != 3 || f.loads != 4 {
		t.Errorf("%d swaps, %d loads", f.swaps, f.loads)
	}
	list, err := l.List(bg)
	for _, r := range list {
		if want := map[bool]uint64{true: 50, false: 5}[r.Name == "a"]; err != nil || r.Next != want {
			t.Errorf("%s: %d, %v", r.Name, r.Next, err)
		}
	}
	f.loads = 0 // a store that says nothing of itself takes one at a time
	if f.open(ledger.Traits{}).ReturnAll(bg, rests[:2]); f.loads != 2 {
		t.Errorf("%d loads", f.loads)
	}
	// Two calls with the same names in other orders do not wait for each other.
	f.do = nil
	back := slices.Clone(rests[:3])
	slices.Reverse(back)
	var both sync.WaitGroup
	for _, rests := range [][]counter.Rest{rests[:3], back} {
		both.Go(func() {
			for range 50 {
				db := f.db.Open()
				db.ReturnAll(bg, rests)
			}
		})
	}
	both.Wait()
	more := errors.New("what Do adds")
	f.do = func(_ context.Context, f func() error) error { return errors.Join(f(), more) }
	refused(t, l.Return(bg, "none", counter.Block{}, 1), more)
	down := errors.New("down")
	f.do = func(context.Context, func() error) error { return down }
	for _, err := range l.ReturnAll(bg, rests) {
		refused(t, err, down)
	}
}

// A settling driver is one of a store that may lose what it has confirmed.
type settling struct {
	*fake
	calls []string
	err   error
	gone  bool
}

func (s *settling) Settle(ctx context.Context, name string, operator bool) (ledger.Found, error) {
	s.calls = append(s.calls, fmt.Sprint(name, " ", operator))
	if s.gone {
		return ledger.Found{Name: name}, nil
	}
	found, err := s.Driver.Load(ctx, []string{name})
	if err = errors.Join(err, s.err); err == nil {
		e := found[0].Entry.Copy().(*entry)
		e.birth, e.unsettled, e.Token = "settled", false, e.Token+"'"
		_, err = s.Driver.Swap(ctx, nil, []ledger.Write{{Found: found[0], Next: e}})
		found[0].Entry = e
	}
	return found[0], err
}

// What an operator writes is settled, and what a daemon meets that is not.
func TestSettle(t *testing.T) {
	f := &settling{fake: newFake()}
	f.born(entry{unsettled: true})
	l := ledger.New(f, ledger.Traits{}, nil)
	no := errors.New("no")
	settled := func(want ...string) {
		t.Helper()
		if !slices.Equal(f.calls, want) {
			t.Errorf("%q, want %q", f.calls, want)
		}
		f.calls = nil
	}
	f.err = no
	_, err := l.Define(bg, counter.Sequence("orders"))
	refused(t, err, no)
	_, err = l.Reserve(bg, "orders", 1)
	refused(t, err, no)
	settled("orders true", "orders false")
	f.err = nil
	b := reserve(t, l, 1)
	settled("orders false")
	define(t, l)
	if err := l.Return(bg, "orders", b, 5); err != nil {
		t.Fatal(err)
	}
	settled()
	if r, err := l.Raise(bg, "orders", 50); err != nil || r.Next != 50 || !strings.HasSuffix(r.Token, "'") {
		t.Errorf("%+v, %v", r, err)
	}
	settled("orders true")
	f.err = no
	_, err = l.Retire(bg, "orders")
	refused(t, err, no)
	settled("orders true")
	f.err = nil
	define(t, l, "items")
	settled("items true")
	f.gone = true // it was lost before it was settled
	refused(t, failed(l.Raise(bg, "items", 5)), counter.ErrForeign)
	f.gone = false
	// The Entry says what a loss is, not the Ledger.
	f.edit = func(found *ledger.Found) { found.Foreign = "copied" }
	b, _ = f.db.Open().Reserve(bg, "items", 10)
	if err := l.Return(bg, "items", b, 5); err != nil {
		t.Error(err)
	}
}

// A record that a loss has set back is written as it goes on, also if nothing is granted.
func TestAdopt(t *testing.T) {
	f := newFake()
	f.born(entry{birth: "b", adopt: true})
	l := f.open(ledger.Traits{})
	define(t, l)
	no := errors.New("no")
	f.admit = func(ledger.Fence, ledger.Found) error { return no }
	_, err := l.Reserve(bg, "orders", 10)
	refused(t, err, no)
	f.admit = nil
	if r, err := f.db.Open().Show(bg, "orders"); err != nil || r.Next != 101 {
		t.Errorf("%+v, %v", r, err)
	}
	reserve(t, l, 101)
	swaps := f.swaps
	f.admit = func(ledger.Fence, ledger.Found) error { return no }
	_, err = l.Reserve(bg, "orders", 10)
	if refused(t, err, no); f.swaps != swaps {
		t.Error("a record was written for nothing")
	}
	f.admit = nil
	f.db.Put(&entry{Basic: ledger.Basic{Record: counter.NewRecord(counter.Sequence("orders"), "early")}, adopt: true})
	_, err = l.Show(bg, "orders")
	refused(t, err, counter.ErrForeign) // 101 are free after the loss, and 110 were granted
	next := counter.NewRecord(counter.Sequence("orders"), "later")
	next.Next = 50
	f.db.Put(&entry{Basic: ledger.Basic{Record: next}, adopt: true})
	if r, err := l.Show(bg, "orders"); err != nil || r.Next != 50 {
		t.Errorf("what is set back to before the loss: %+v, %v", r, err)
	}
	if _, err := l.Retire(bg, "orders"); err != nil {
		t.Fatal(err)
	}
	_, err = l.Reserve(bg, "orders", 10)
	refused(t, err, counter.ErrRetired)
	plain := newFake() // whose records are never lost, and so never written without a grant
	p := plain.open(ledger.Traits{})
	define(t, p)
	if _, err := p.Retire(bg, "orders"); err != nil {
		t.Fatal(err)
	}
	if refused(t, failed(p.Reserve(bg, "orders", 1)), counter.ErrRetired); plain.swaps != 2 {
		t.Errorf("%d swaps", plain.swaps)
	}
}

// A write that does not count is taken back.
func TestUncounted(t *testing.T) {
	f := newFake()
	l := f.open(ledger.Traits{})
	define(t, l)
	reserve(t, l, 1)
	f.after = func(_ []ledger.Write, now []ledger.Found, err error) ([]ledger.Found, error) {
		f.after = nil
		return now, ledger.As(ledger.ErrUncounted, errors.New("too few replicas"))
	}
	f.swaps = 0
	if b, err := l.Reserve(bg, "orders", 10); b != (counter.Block{}) || !errors.Is(err, ledger.ErrUncounted) ||
		err.Error() != "too few replicas" || f.swaps != 2 {
		t.Errorf("%+v, %v, %d swaps", b, err, f.swaps)
	}
	reserve(t, l, 11)
	f.before = func() error { return ledger.ErrUncounted }
	f.made = nil
	if _, err := l.Raise(bg, "orders", 20); !errors.Is(err, ledger.ErrUncounted) {
		t.Error(err)
	}
}

// What is written says who must be told, and what a loss of it is.
func TestWrites(t *testing.T) {
	f := newFake()
	var wrote []string
	f.after = func(w []ledger.Write, now []ledger.Found, err error) ([]ledger.Found, error) {
		wrote = append(wrote, fmt.Sprintf("%v %v %v", w[0].Announce, w[0].Gap, w[0].Failed != nil))
		return now, err
	}
	l := f.open(ledger.Traits{})
	define(t, l)
	b := reserve(t, l, 1)
	_ = l.Return(bg, "orders", b, 5)
	_, _ = l.Raise(bg, "orders", 20)
	_, _ = l.Retire(bg, "orders")
	f.db.Damage("orders")
	_, _ = l.Revive(bg, counter.Sequence("orders"), 5)
	want := []string{"true false false", "false false false", "false true false", "true false false", "true false false",
		"true false false"}
	if !slices.Equal(wrote, want) {
		t.Errorf("%q", wrote)
	}
}

// A locking driver's record is read and written under a lock.
type locking struct {
	*fake
	held, times       int
	failed, cannotEnd error
}

func (l *locking) Lock(context.Context, string) (func() error, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	l.held++
	l.times++
	return func() error {
		l.held--
		return l.cannotEnd
	}, nil
}

func TestLock(t *testing.T) {
	f := &locking{fake: newFake()}
	l := ledger.New(f, ledger.Traits{}, nil)
	f.before = func() error {
		if f.held != 1 {
			t.Errorf("%d locks are held", f.held)
		}
		return nil
	}
	define(t, l)
	b := reserve(t, l, 1)
	if err := l.Return(bg, "orders", b, 5); err != nil || f.times != 3 || f.held != 0 {
		t.Errorf("%v, %d locks, %d held", err, f.times, f.held)
	}
	refused(t, failed(l.Reserve(bg, "", 1)), counter.ErrUnknown)
	if f.times != 3 {
		t.Error("a lock for no name")
	}
	// A record that is being written seems damaged; under the lock it is not. All leaves it to Load.
	damaged := func(found *ledger.Found) {
		if f.held == 0 {
			*found = ledger.Found{Name: "orders", Fault: counter.ErrDamaged}
		}
	}
	f.edit = damaged
	if r, err := l.Show(bg, "orders"); err != nil || r.Next != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	f.edit = func(found *ledger.Found) {
		if damaged(found); f.loads == 0 {
			found.Unread = true
		}
	}
	f.loads = 0
	if list, err := l.List(bg); err != nil || len(list) != 1 || list[0].Next != 5 || list[0].Fault != nil || f.loads != 2 {
		t.Errorf("%+v, %v, %d loads", list, err, f.loads)
	}
	f.edit = func(found *ledger.Found) { found.Fault, found.Entry = counter.ErrDamaged, nil }
	_, err := l.Show(bg, "orders")
	refused(t, err, counter.ErrDamaged)
	f.edit = func(found *ledger.Found) { found.Fault, found.Entry = counter.ErrUnusable, nil }
	times := f.times
	_, err = l.Show(bg, "orders")
	if refused(t, err, counter.ErrUnusable); f.times != times {
		t.Error("a lock for nothing")
	}
	ctx, cancel := context.WithCancel(bg)
	f.edit = func(found *ledger.Found) {
		if found.Unread = f.loads == 0; !found.Unread {
			cancel()
		}
	}
	f.loads = 0
	list, err := l.List(ctx)
	if refused(t, err, context.Canceled); list != nil {
		t.Error(list)
	}
	f.edit = nil
	f.cannotEnd = errors.New("the lock is gone")
	if b, err := l.Reserve(bg, "orders", 1); b != (counter.Block{}) || !errors.Is(err, f.cannotEnd) {
		t.Errorf("%+v, %v", b, err)
	}
	f.failed = errors.New("no lock")
	_, err = l.Reserve(bg, "orders", 1)
	refused(t, err, f.failed)
}

// A noting driver keeps notes in a map.
type noting struct {
	*fake
	notes          map[string]string
	changes        string
	signed         int
	signErr, wrong error
	runs           bool
}

func (n *noting) Learnt(since string) string { return "<" + since + ">" }

func (n *noting) Sign(_ context.Context, text string) error {
	n.signed++
	n.notes["me"] = text
	return n.signErr
}

func (n *noting) Notes(context.Context) (map[string]string, string, error) {
	return maps.Clone(n.notes), n.changes, n.wrong
}

func (n *noting) Forget(_ context.Context, key string) (bool, error) {
	if n.runs {
		return false, n.wrong
	}
	delete(n.notes, key)
	return true, n.wrong
}

func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &noting{fake: newFake(), notes: map[string]string{}, signErr: errors.New("no room")}
		l := ledger.New(f, ledger.Traits{}, nil)
		if l.Signed() {
			t.Error("signed before it has said anything")
		}
		since := ""
		poll := func(signed int) {
			t.Helper()
			now, _, err := l.Changes(bg, since)
			if since = now; err != nil || f.signed != signed {
				t.Errorf("%v; signed %d times, want %d", err, f.signed, signed)
			}
		}
		poll(1)
		if l.Signed() {
			t.Error("signed in vain")
		}
		f.signErr = nil
		poll(2) // at once
		time.Sleep(10*time.Second - 1)
		poll(2)
		time.Sleep(time.Nanosecond)
		poll(3)
		if !l.Signed() || !strings.HasSuffix(f.notes["me"], " <"+since+">") {
			t.Errorf("%q", f.notes)
		}
		behind := func(want ...string) {
			t.Helper()
			list, err := l.Behind(bg)
			var names []string
			for _, d := range list {
				if names = append(names, d.Name); d.Silent < 0 {
					t.Errorf("%+v", d)
				}
			}
			slices.Sort(names)
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("%q, %v; want %q", names, err, want)
			}
		}
		now := time.Now()
		note := func(ago time.Duration, rest string) string { return fmt.Sprint(now.Add(-ago).UnixMilli(), " ", rest) }
		f.changes = "x y"
		f.notes = map[string]string{"a": note(0, "host/1 x y"), "b": note(time.Hour, "host/2 x"), "c": "",
			"f": note(-time.Minute, "host/5 x"), // its clock is ahead
			"d": note(24*time.Hour, "host/3 w"), "e": note(24*time.Hour+time.Millisecond, "host/4 w")}
		f.runs = true
		behind("host/2", "host/3", "host/4", "host/5", "with the file c")
		f.runs = false
		behind("host/2", "host/3", "host/5")
		if len(f.notes) != 4 {
			t.Errorf("%q", f.notes)
		}
		f.wrong = errors.New("wrong")
		_, err := l.Behind(bg)
		refused(t, err, f.wrong)
		f.notes["e"] = note(25*time.Hour, "host/4 w")
		list, err := l.Behind(bg)
		refused(t, err, f.wrong)
		if len(list) > 3 {
			t.Errorf("%v", list)
		}
		_, err = f.open(ledger.Traits{}).Behind(bg)
		refused(t, err, counter.ErrNoRoll)
		for _, signs := range []bool{false, true} {
			l := ledger.New(f, ledger.Traits{Signs: signs}, nil)
			define(t, l)
			f.signed = 0
			f.before = func() error {
				if (f.signed == 1) != signs {
					t.Errorf("signed %d times before a block was granted", f.signed)
				}
				return nil
			}
			for range 2 {
				if _, err := l.Reserve(bg, "orders", 10); err != nil {
					t.Fatal(err)
				}
			}
			f.before = nil
			if _, _, err := l.Changes(bg, "since"); err != nil {
				t.Fatal(err)
			}
			f.signed = 0
			if _, err := l.Reserve(bg, "orders", 10); err != nil || f.signed > 0 {
				t.Errorf("%v, signed %d times more", err, f.signed)
			}
		}
	})
}

// Changes tells what differs, and no blocks.
func TestChanges(t *testing.T) {
	f := newFake()
	l := f.open(ledger.Traits{})
	since, list, err := l.Changes(bg, "")
	if err != nil || since == "" || len(list) != 0 {
		t.Fatal(since, list, err)
	}
	see := func(what string, want int) {
		t.Helper()
		now, list, err := l.Changes(bg, since)
		if err != nil || len(list) != want {
			t.Errorf("%s: %+v, %v", what, list, err)
		}
		since = now
	}
	see("nothing", 0)
	define(t, l)
	see("defined", 1)
	reserve(t, l, 1)
	see("reserved", 0)
	was := since
	if _, err := l.Raise(bg, "orders", 5); err != nil {
		t.Fatal(err)
	}
	see("raised", 1)
	if _, err := l.Raise(bg, "orders", 5); err != nil {
		t.Fatal(err)
	}
	see("raised to the same", 0)
	if _, list, _ := l.Changes(bg, was); len(list) != 1 {
		t.Error("a caller who knows less is told nothing")
	}
	f.db.Damage("orders")
	see("damaged", 1)
	f.wrong = errors.New("wrong")
	if now, list, err := l.Changes(bg, since); now != since || list != nil || !errors.Is(err, f.wrong) {
		t.Error(now, list, err)
	}
	no := errors.New("no")
	f.do = func(context.Context, func() error) error { return no }
	if now, list, err := l.Changes(bg, since); now != since || list != nil || !errors.Is(err, no) {
		t.Error(now, list, err)
	}
}

// Blocks that come and go while a list is read are no faults.
func TestAListIsReadMeanwhile(t *testing.T) {
	f := newFake()
	l := f.open(ledger.Traits{Words: words})
	define(t, l)
	var b counter.Block
	for _, c := range []struct {
		from uint64   // of the block that is there
		back bool     // it is given back, and the record was read then
		then []uint64 // blocks that are granted next
	}{{1, true, nil}, {1, false, []uint64{11}}, {21, true, nil}, {21, true, []uint64{21, 31}}} {
		b = reserve(t, l, c.from)
		f.edit = func(found *ledger.Found) {
			f.edit = nil
			r := *found.Entry.Plain()
			if c.back {
				if err := l.Return(bg, "orders", b, c.from); err != nil {
					t.Error(err)
				}
				r.Next = c.from
			}
			for _, lo := range c.then {
				reserve(t, l, lo)
			}
			found.Entry = &ledger.Basic{Record: r}
		}
		if list, err := l.List(bg); err != nil || list[0].Fault != nil {
			t.Errorf("%+v: %v, %v", c, list, err)
		}
	}
	// Such a list does not say either which of two records is the one to go on with.
	b = reserve(t, l, 41)
	again := counter.NewRecord(counter.Sequence("orders"), "again")
	again.Next, again.Floor = 90, 20
	f.edit = func(found *ledger.Found) {
		f.edit = nil
		if err := l.Return(bg, "orders", b, 45); err != nil {
			t.Error(err)
		}
		f.db.Put(&entry{Basic: ledger.Basic{Record: again}, birth: "again"})
		found.Entry = &entry{Basic: ledger.Basic{Record: again}, birth: "again"}
	}
	if _, list, err := l.Changes(bg, ""); err != nil || list[0].Fault != nil {
		t.Error(list, err)
	}
	refused(t, failed(l.Reserve(bg, "orders", 1)), counter.ErrForeign, "again")
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ledger.NewGate(2, func(cause error) error { return fmt.Errorf("no answer: %w", cause) })
		stall, no := make(chan struct{}), errors.New("no")
		refused(t, g.Do(bg, func() error { return no }), no)
		for range 3 {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			began := time.Now()
			stalled := func() error { return fmt.Errorf("stalled: %v", <-stall) }
			refused(t, g.Do(ctx, stalled), context.DeadlineExceeded, "no answer: ")
			if time.Since(began) != time.Second {
				t.Error(time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		ran := false
		refused(t, g.Do(ctx, func() error {
			ran = true
			return nil
		}), context.DeadlineExceeded)
		close(stall)
		synctest.Wait()
		if ran {
			t.Error("a third goroutine")
		}
		if err := g.Do(bg, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if g.Closed() || !g.Close() || g.Close() || !g.Closed() {
			t.Error("closed")
		}
		if err := g.Do(bg, func() error { return nil }); err == nil || err.Error() != "the counter store is closed" {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	no := errors.New("no")
	f := &closing{newFake(), no}
	l := ledger.New(f, ledger.Traits{}, nil)
	refused(t, l.Close(), no)
	if err := l.Within(term("orders")).Close(); err != nil { // a term that is over closes nothing
		t.Error(err)
	}
	refused(t, failed(l.Define(bg, counter.Sequence("orders"))), no)
	f.err = nil
	define(t, l)
	n := 0
	l = ledger.New(newFake(), ledger.Traits{}, func() string {
		n++
		return fmt.Sprint("token", n)
	})
	define(t, l)
	if r, err := l.Show(bg, "orders"); err != nil || r.Token != "token1" {
		t.Errorf("%+v, %v", r, err)
	}
}

type closing struct {
	*fake
	err error
}

// Prepare implements ledger.Preparer.
func (c *closing) Prepare() error { return c.err }

func (c *closing) Close() error { return c.err }
