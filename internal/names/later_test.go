package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

// As long as a definition cannot be recorded, or is not what is recorded, nothing is reserved of it, within a
// term of leadership neither.
func TestNothingIsReservedOfWhatIsNotRecorded(t *testing.T) {
	db := memcounter.NewDatabase()
	ctx := context.Background()
	record(t, db.Open(), parse(t, "orders sequence step=2 offset=2").Definition)
	l := newLaterStore(db.Open(), slog.New(slog.DiscardHandler))
	l.pending["orders"] = parse(t, "orders sequence step=2 offset=1")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before := db.Writes()
	for what, s := range map[string]counter.Store{"the store": l, "a term's": l.within(db.Open())} {
		for how, reserve := range map[string]func(context.Context) (counter.Block, error){
			"reserve": func(ctx context.Context) (counter.Block, error) { return s.Reserve(ctx, "orders", 10) },
			"advance": func(ctx context.Context) (counter.Block, error) {
				return s.(counter.Timekeeper).Advance(ctx, "orders", counter.Span{})
			},
		} {
			if b, err := reserve(ended); !errors.Is(err, context.Canceled) || b != (counter.Block{}) {
				t.Errorf("%s of %s, when it does not answer: %+v, %v", how, what, b, err)
			}
			if b, err := reserve(ctx); !errors.As(err, new(*kinds.DifferentError)) || b != (counter.Block{}) ||
				db.Writes() != before {
				t.Errorf("%s of %s, of another definition: %+v, %v", how, what, b, err)
			}
		}
	}
	l.pending["orders"] = parse(t, "orders sequence step=2 offset=2")
	if b, err := l.Reserve(ctx, "orders", 1); err != nil || b.Lo != 2 || len(l.pending) > 0 {
		t.Errorf("of the recorded one: %+v, %v, %v", b, err, l.pending)
	}
	plain := l.within(struct{ counter.Store }{db.Open()}).(counter.Timekeeper)
	if _, err := plain.Advance(ctx, "orders", counter.Span{}); !errors.Is(err, counter.ErrOrder) {
		t.Errorf("of a store without timestamps: %v", err)
	}
}

// A faulty store fails in the calls for which err returns an error.
type faulty struct {
	memcounter.Store
	err func(call string) error
}

// open makes the store that of a room.
func (s faulty) open(n *Names) {
	n.openStore = func() (stores.CounterStore, error) { return s, s.err("Open") }
}

func (s faulty) List(ctx context.Context) ([]counter.Record, error) {
	all, err := s.Store.List(ctx)
	return all, cmp.Or(s.err("List"), err)
}

func (s faulty) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := s.err("Define"); err != nil {
		return counter.Record{}, err
	}
	return s.Store.Define(ctx, d)
}

func (s faulty) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	if err := s.err("Changes"); err != nil {
		return since, nil, err
	}
	return s.Store.Changes(ctx, since)
}

func (s faulty) Close() error { return s.err("Close") }

// A room opens although its store does not answer. Until it does no name that may be a sequence stands for the default
// kind; then all is served, and what differs from the record is refused, and told once.
func TestAStoreThatAnswersLater(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			db, log := memcounter.NewDatabase(), new(logbook)
			var up atomic.Bool
			var defines atomic.Int64
			s := faulty{db.Open(), func(call string) error {
				if call == "Define" {
					defines.Add(1)
				}
				if up.Load() || call == "Open" {
					return nil
				}
				return fmt.Errorf("%w: no route", counter.ErrUnavailable)
			}}
			record(t, db.Open(), counter.Sequence("theirs"), counter.Sequence("differs"))
			n := room(t, Config{Counters: stores.Counters{Dir: "/"}, MaxWait: time.Second, RefuseUnknown: refuse,
				Definitions: "orders sequence batch=7; differs sequence start=2; u4 uuid4"}, inMemory(db), s.open, log.of)
			for _, name := range []string{"theirs", "other"} {
				if got := n.next(t, name); !strings.Contains(got, errUnsure.Error()) {
					t.Errorf("%s: %s", name, got)
				}
			}
			for _, name := range []string{"orders", "differs"} {
				if got := n.next(t, name); !strings.Contains(got, "no route") {
					t.Errorf("%s: %s", name, got)
				}
			}
			if got := n.next(t, "u4"); len(got) != 36 || len(n.next(t, "id")) != 19 {
				t.Error(got)
			}
			if _, _, err := n.Create(t.Context(), parse(t, "orders sequence start=5")); !errors.As(err,
				new(*kinds.DifferentError)) {
				t.Error("another definition beside the one that waits:", err)
			}
			if _, created, err := n.Create(t.Context(), parse(t, "evens sequence")); created ||
				!errors.Is(err, counter.ErrUnavailable) {
				t.Error(created, err)
			}
			if text := log.take(); strings.Count(text, "WARN the counter store does not answer: sequences, and names that are "+
				"not declared here, wait for it") != 1 || strings.Contains(text, "cannot be served") ||
				strings.Contains(text, "is recorded") {
				t.Error(text)
			}
			up.Store(true)
			after(5 * time.Second)
			for name, want := range map[string]string{"orders": "1", "theirs": "1", "differs": "is not what is recorded",
				"other": errUnsure.Error()} { // a record may be missing as long as one differs
				if got := n.next(t, name); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			if status, _ := n.sequences.keeper.Status("orders"); status.Block != 7 {
				t.Errorf("a block has %d values", status.Block)
			}
			text := log.take()
			for line, times := range map[string]int{
				"INFO a sequence is recorded sequence=orders": 1, "ERROR a sequence cannot be served sequence=differs": 1,
				"INFO the counter store answers: its sequences are served": 1,
			} {
				if strings.Count(text, line) != times {
					t.Errorf("not %d times: %s\n%s", times, line, text)
				}
			}
			db.SetBack(counter.NewRecord(n.Served("differs").Definition, "as it should be"))
			after(5 * time.Second)
			if got := n.next(t, "differs"); got != "2" {
				t.Error(got)
			}
			if got := n.next(t, "other"); refuse != strings.HasPrefix(got, "no such generator") {
				t.Error(got)
			}
			before := defines.Load()
			if after(5 * time.Second); defines.Load() != before {
				t.Error("what is recorded is recorded again")
			}
		})
	}
}

// A store that takes no writes is waited for too.
func TestAStoreThatTakesNoWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var writes atomic.Bool
		var tries atomic.Int64
		db, log := memcounter.NewDatabase(), new(logbook)
		s := faulty{db.Open(), func(call string) error {
			if call != "Define" || writes.Load() {
				return nil
			}
			tries.Add(1)
			return counter.ErrUnavailable
		}}
		n := room(t, Config{Counters: stores.Counters{Dir: "/"}, MaxWait: time.Second, Definitions: "a sequence; b sequence"},
			inMemory(db), s.open, log.of)
		if text := log.take(); strings.Count(text, "WARN a sequence is recorded once the counter store takes writes") != 2 {
			t.Error(text)
		}
		if got := n.next(t, "other"); len(got) != 19 {
			t.Error("what is recorded is known:", got)
		}
		tries.Store(0)
		if after(5 * time.Second); tries.Load() < 4 || tries.Load() > 6 {
			t.Errorf("%d attempts in five seconds: only the first one of each matters", tries.Load())
		}
		writes.Store(true)
		after(5 * time.Second)
		if got := n.next(t, "a") + n.next(t, "b"); got != "11" {
			t.Error(got)
		}
	})
}

// A store that cannot be opened, or neither listed nor closed, says so; and one that cannot be closed at the end.
func TestAStoreThatFails(t *testing.T) {
	broken := errors.New("broken")
	for calls, errs := range map[string]int{"Open": 1, "List Close": 2, "Close": 0} {
		n, log := closed(t, Config{Counters: stores.Counters{Dir: "/"}}), new(logbook)
		log.of(n)
		faulty{memcounter.NewDatabase().Open(), func(call string) error {
			if slices.Contains(strings.Fields(calls), call) {
				return broken
			}
			return nil
		}}.open(n)
		err := n.Open()
		if errors.Is(err, broken) != (errs > 0) || err != nil && strings.Count(err.Error(), "broken") != errs {
			t.Errorf("%s: %v", calls, err)
		}
		n.Stop()
		if text := log.take(); strings.Contains(text, "WARN the counter store was not closed error=broken") != (errs == 0) {
			t.Errorf("%s: %s", calls, text)
		}
	}
}
