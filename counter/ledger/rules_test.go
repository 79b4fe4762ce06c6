package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// A record that was set back is refused until Raise is above all that this process was granted. The answers have the
// Words; these are their edges.
func TestSetBack(t *testing.T) {
	f := newFake()
	if err := failed(f.open(ledger.Traits{}).Show(bg, "orders")); err != counter.ErrUnknown {
		t.Errorf("without words: %v", err)
	}
	s := f.open(ledger.Traits{Words: words})
	define(t, s)
	reserve(t, s, 1)
	edge, _ := s.Show(bg, "orders")
	reserve(t, s, 11)
	edge.Next = 20
	f.db.SetBack(edge) // by one value
	refused(t, failed(s.Reserve(bg, "orders", 1)), counter.ErrForeign, "set back orders at @orders, next 20, granted 20")
	if _, err := f.open(ledger.Traits{}).Show(bg, "orders"); err != nil {
		t.Error("another process cannot know:", err)
	}
	for i, want := range []error{counter.ErrForeign, nil} {
		if _, err := s.Raise(bg, "orders", uint64(20+i)); err != nil {
			t.Fatal(err)
		}
		if err := failed(s.Show(bg, "orders")); !errors.Is(err, want) {
			t.Errorf("raised to %d: %v", 20+i, err)
		}
	}
	reserve(t, s, 21)
	edge.Max = 30
	f.db.SetBack(edge)
	refused(t, failed(s.Reserve(bg, "orders", 1)), counter.ErrForeign, "granted 30, least 30")
	edge.Next = 31
	f.db.SetBack(edge)
	f.edit = func(found *ledger.Found) { found.Foreign = "copied, least {LEAST}" }
	refused(t, failed(s.Reserve(bg, "orders", 1)), counter.ErrForeign, "copied, least 30")
	f.edit = nil
	f.db.Forget("orders")
	anew := f.open(ledger.Traits{Anew: true})
	define(t, anew)
	reserve(t, anew, 1)
	f.db.Forget("orders")
	refused(t, failed(anew.Define(bg, counter.Sequence("orders"))), counter.ErrForeign) // it is made, and says less
}

// A record that was made again is refused, also by a process that was granted nothing; and so is one that came after
// it had seen that one may be lost. To look at a list is not to use a record, to be told of changes is.
func TestBirthsAndDoubts(t *testing.T) {
	f := newFake()
	f.born(entry{birth: "first"})
	s := f.open(ledger.Traits{Words: words})
	looked, told := f.open(ledger.Traits{}), f.open(ledger.Traits{})
	define(t, s)
	_, err := looked.List(bg)
	if _, _, err2 := told.Changes(bg, ""); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	f.db.Forget("orders")
	f.born(entry{birth: "second"})
	define(t, f.open(ledger.Traits{}))
	refused(t, failed(told.Reserve(bg, "orders", 1)), counter.ErrForeign)
	_, err = s.Reserve(bg, "orders", 1)
	refused(t, err, counter.ErrForeign, ": again orders at @orders, next 1, granted 0, least 1")
	reserve(t, looked, 1)
	_, err = s.Show(bg, "orders")
	refused(t, err, counter.ErrForeign)
	if _, err := s.Raise(bg, "orders", 1); err != nil {
		t.Fatal(err)
	}
	reserve(t, s, 11)
	for _, birth := range []string{"", "third"} { // one that does not count yet is not the one to remember
		r := counter.NewRecord(counter.Sequence("orders"), birth)
		r.Next = 50
		f.db.Put(&entry{Basic: ledger.Basic{Record: r}, birth: birth})
		if _, err = s.Show(bg, "orders"); birth == "" && err != nil {
			t.Error(err)
		}
	}
	refused(t, err, counter.ErrForeign, ": again orders")

	f.born(entry{}) // does not count yet, so there is nothing to be known again
	f.db.Forget("orders")
	early := f.open(ledger.Traits{Words: words})
	define(t, early)
	used := f.open(ledger.Traits{Words: words})
	if _, err := used.Reserve(bg, "orders", 1); err != nil {
		t.Fatal(err)
	}
	f.db.Forget("orders")
	_, err = used.Reserve(bg, "orders", 1)
	refused(t, err, counter.ErrForeign, "lost", "granted 1, least 2")
	_, err = early.Reserve(bg, "orders", 1)
	refused(t, err, counter.ErrUnknown)
	f.made = func(ledger.Entry) (ledger.Entry, error) { return nil, ledger.As(ledger.ErrDoubt, counter.ErrForeign) }
	_, err = early.Define(bg, counter.Sequence("orders"))
	refused(t, err, counter.ErrForeign)
	f.born(entry{birth: "third"})
	define(t, f.open(ledger.Traits{}))
	_, err = early.Reserve(bg, "orders", 1)
	refused(t, err, counter.ErrForeign, ": again orders")
	if _, err := f.open(ledger.Traits{}).Raise(bg, "orders", 5); err != nil {
		t.Fatal(err)
	}
	reserve(t, early, 5)
	reserve(t, early, 15)
}

// Answers are lost after the store has carried out what was asked.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s, hasty := f.open(ledger.Traits{Words: words, Patient: true}), f.open(ledger.Traits{})
		f.lose(1)
		_, err := s.Define(bg, counter.Sequence("orders"))
		refused(t, err, counter.ErrUnavailable)
		b := reserve(t, s, 1)
		f.lose(1)
		if b, err := s.Reserve(bg, "orders", 10); b != (counter.Block{}) || !errors.Is(err, counter.ErrUnavailable) {
			t.Errorf("%+v, %v", b, err)
		}
		refused(t, s.Return(bg, "orders", b, 5), counter.ErrStale)
		b = reserve(t, s, 21) // the lost block is a gap
		f.lose(1)
		began := time.Now()
		if err := s.Return(bg, "orders", b, 25); err != nil { // its token says that it was written
			t.Fatal(err)
		}
		if passed := time.Since(began); passed != 100*time.Millisecond || f.swaps != 5 {
			t.Errorf("%v, %d swaps", passed, f.swaps)
		}
		reserve(t, s, 25)
		f.lose(1)
		if r, err := s.Raise(bg, "orders", 100); err != nil || r.Next != 100 || r.Floor != 100 {
			t.Errorf("%+v, %v", r, err)
		}
		b = reserve(t, s, 100)
		f.after = func(_ []ledger.Write, _ []ledger.Found, _ error) ([]ledger.Found, error) {
			f.after = nil
			reserve(t, hasty, 100) // it was given back, and another one has it
			return nil, ledger.As(counter.ErrUnavailable, errors.New("lost"))
		}
		err = s.Return(bg, "orders", b, 100)
		if counter.Certain(err) || err == nil {
			t.Errorf("values that another process has: %v", err)
		}
		refused(t, fmt.Errorf("%w", err), err,
			"unanswered orders at @orders, next 0, granted 0, least 0: "+counter.ErrStale.Error())
		b = reserve(t, hasty, 110)
		f.lose(1)
		refused(t, hasty.Return(bg, "orders", b, 115), counter.ErrUnavailable) // of a store that is not Patient
		reserve(t, hasty, 115)
		b = reserve(t, s, 125)
		f.before = func() error { return ledger.As(counter.ErrUnavailable, errors.New("down")) }
		refused(t, s.Return(soon(t), "orders", b, 130), counter.ErrUnavailable, "down")
		if passed := time.Since(began); passed > time.Second {
			t.Errorf("it waited %v", passed)
		}
		f.before = func() error { return errors.New("never") }
		refused(t, s.Return(bg, "orders", b, 130), nil, "never")
	})
}

// Others write between reading and writing. What the Driver found then is not read again.
func TestOthersWrite(t *testing.T) {
	f := newFake()
	s, other := f.open(ledger.Traits{}), f.db.Open()
	define(t, s)
	times := 3
	f.before = func() error {
		if times--; times >= 0 {
			_, err := other.Reserve(bg, "orders", 10)
			return err
		}
		return nil
	}
	f.loads, f.swaps = 0, 0
	reserve(t, s, 31)
	if f.loads != 4 || f.swaps != 4 {
		t.Errorf("%d loads, %d swaps", f.loads, f.swaps)
	}
	f.after = func(w []ledger.Write, now []ledger.Found, err error) ([]ledger.Found, error) {
		if errors.Is(err, ledger.ErrAgain) {
			now, _ = f.Driver.Load(bg, []string{w[0].Next.Plain().Name})
		}
		return now, err
	}
	times, f.loads, f.swaps = 3, 0, 0
	reserve(t, s, 71)
	if f.loads != 1 || f.swaps != 4 {
		t.Errorf("%d loads, %d swaps", f.loads, f.swaps)
	}
	times, f.after = 1e9, nil
	ctx, cancel := context.WithCancel(bg)
	others := f.before
	f.swaps = 0
	f.before = func() error {
		if f.swaps == 7 {
			cancel()
		}
		return others()
	}
	_, err := s.Reserve(ctx, "orders", 1)
	refused(t, err, counter.ErrUnavailable, "no answer about orders", "others wrote", "canceled")
	if f.swaps != 7 {
		t.Errorf("%d swaps", f.swaps)
	}
}

// A write that would come too late is not made: it would be a gap.
func TestTheStoreTookTooLong(t *testing.T) {
	f := newFake()
	s := f.open(ledger.Traits{})
	define(t, s)
	ctx, cancel := context.WithCancel(bg)
	f.edit = func(*ledger.Found) { cancel() }
	_, err := s.Reserve(ctx, "orders", 1)
	refused(t, err, counter.ErrUnavailable, "no answer about orders", "canceled")
	f.edit = nil
	reserve(t, s, 1)
	// nor does anybody get what is made after the call has returned
	f.do = func(ctx context.Context, _ func() error) error { // it has not begun yet
		<-ctx.Done()
		return nil
	}
	_, err = s.Show(soon(t), "orders")
	refused(t, err, context.DeadlineExceeded)
}

// What cannot be read is no success, and nothing is written over it.
func TestCannotRead(t *testing.T) {
	f := newFake()
	s := f.open(ledger.Traits{})
	define(t, s)
	f.before = func() error {
		t.Error("it is written over")
		return nil
	}
	f.wrong = errors.New("wrong")
	for _, call := range []func() error{
		func() error { return failed(s.Reserve(bg, "orders", 1)) },
		func() error { return failed(s.Show(bg, "orders")) },
		func() error { return failed(s.List(bg)) },
		func() error {
			_, _, err := s.Changes(bg, "")
			return err
		},
	} {
		refused(t, call(), f.wrong)
	}
}

// While one call has the turn of a sequence, others wait for theirs until their contexts end.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := f.open(ledger.Traits{})
		define(t, s)
		f.before = func() error {
			f.before = nil
			_, err := s.Reserve(soon(t), "orders", 1)
			refused(t, err, counter.ErrUnavailable, "no answer about orders", "deadline")
			_, err = s.Show(soon(t), "orders")
			refused(t, err, counter.ErrUnavailable)
			define(t, s, "items")
			return nil
		}
		reserve(t, s, 1)
		for n, want := range map[int]error{0: counter.ErrUnknown, 1: nil, 64: nil, 65: counter.ErrUnknown} {
			name := fmt.Sprintf("%0*d", n, 0)[:n]
			d := counter.Sequence(name)
			if _, err := s.Define(bg, d); n > 0 && !errors.Is(err, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if _, err := s.Reserve(bg, name, 1); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// The Driver may say that nothing may be written, or nothing by operators, and who may reserve.
func TestClosedAndFixed(t *testing.T) {
	f := newFake()
	s := f.open(ledger.Traits{})
	define(t, s)
	b := reserve(t, s, 1)
	no := errors.New("no")
	f.edit = func(found *ledger.Found) { found.Fixed = no }
	for _, call := range []func() error{
		func() error { return failed(s.Raise(bg, "orders", 50)) },
		func() error { return failed(s.Retire(bg, "orders")) },
		func() error { return failed(s.Define(bg, counter.Sequence("items"))) },
	} {
		refused(t, call(), no)
	}
	reserve(t, s, 11)
	f.db.Damage("bad")
	_, err := s.Revive(bg, counter.Sequence("bad"), 5)
	refused(t, err, no)
	f.edit = nil
	if r, err := s.Revive(bg, counter.Sequence("bad"), 5); err != nil || r.Next != 5 || r.Floor != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	f.edit = func(found *ledger.Found) { found.Fault, found.Entry = counter.ErrUnusable, nil }
	_, err = s.Revive(bg, counter.Sequence("bad"), 5)
	refused(t, err, counter.ErrUnusable)
	f.edit = func(found *ledger.Found) { found.Closed = no }
	_, err = s.Reserve(bg, "orders", 10)
	refused(t, err, no)
	f.edit = nil
	f.edit = func(found *ledger.Found) { found.Waits = no }
	reserve(t, s, 21) // the Entry says it, if it is so
	_, err = s.Show(bg, "orders")
	refused(t, err, no)
	if list, err := s.List(bg); err != nil || !errors.Is(list[0].Fault, no) {
		t.Error(list, err)
	}
	f.edit = nil
	f.admit = func(fence ledger.Fence, found ledger.Found) error {
		if fence == nil && found.Name == "orders" {
			return counter.ErrOrder
		}
		return nil
	}
	_, err = s.Reserve(bg, "orders", 10)
	refused(t, err, counter.ErrOrder)
	refused(t, s.Return(bg, "orders", b, 1), counter.ErrOrder)
	for _, d := range []counter.Definition{{Name: "orders"}, {}} {
		_, err1 := s.Define(bg, d)
		_, err2 := s.Revive(bg, d, 1)
		if err1 == nil || err2 == nil || f.swaps > 6 {
			t.Errorf("%v, %v, %d swaps", err1, err2, f.swaps)
		}
	}
}

// What a server grants may be lost with it: a daemon drops what another one granted, and a list tells.
func TestHistories(t *testing.T) {
	f := newFake()
	history := "one"
	f.edit = func(found *ledger.Found) { found.History = history }
	s := f.open(ledger.Traits{})
	define(t, s)
	now, _, _ := s.Changes(bg, "")
	reserve(t, s, 1)
	floor := func() uint64 {
		list, err := s.List(bg)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Floor
	}
	if floor() != 0 {
		t.Error("of the same server")
	}
	history = "two"
	if floor() != 11 {
		t.Errorf("floor %d", floor())
	}
	if _, list, err := s.Changes(bg, ""); err != nil || len(list) != 1 || list[0].Floor != 11 {
		t.Errorf("since %s: %+v, %v", now, list, err)
	}
	reserve(t, s, 11)
	if floor() != 0 {
		t.Error("granted by the new one")
	}
}
