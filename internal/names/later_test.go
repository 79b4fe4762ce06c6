package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// An outOfReach store does not answer while it is down.
type outOfReach struct {
	memcounter.Store
	down    *atomic.Bool
	defines *atomic.Int64
}

func (s outOfReach) err() error {
	if s.down.Load() {
		return fmt.Errorf("%w: no route", counter.ErrUnavailable)
	}
	return nil
}

func (s outOfReach) List(ctx context.Context) ([]counter.Record, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx)
}

func (s outOfReach) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	s.defines.Add(1)
	if err := s.err(); err != nil {
		return counter.Record{}, err
	}
	return s.Store.Define(ctx, d)
}

func (s outOfReach) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	if err := s.err(); err != nil {
		return since, nil, err
	}
	return s.Store.Changes(ctx, since)
}

// A room opens although its store does not answer. Until it does no name that may be a sequence stands for the default
// kind; then all is served, and what differs from the record is refused, and told once.
func TestAStoreThatAnswersLater(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			db, log := memcounter.NewDatabase(), new(logbook)
			s := outOfReach{db.Open(), new(atomic.Bool), new(atomic.Int64)}
			s.down.Store(true)
			record(t, db.Open(), counter.Sequence("theirs"), counter.Sequence("differs"))
			n := room(t, Config{Counters: stores.Counters{Dir: "/"}, MaxWait: time.Second, RefuseUnknown: refuse,
				Definitions: "orders sequence batch=7; differs sequence start=2; u4 uuid4"}, inMemory(db), func(n *Names) {
				n.openStore = func() (stores.CounterStore, error) { return s, nil }
			}, log.of)
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
			s.down.Store(false)
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
			before := s.defines.Load()
			if after(5 * time.Second); s.defines.Load() != before {
				t.Error("what is recorded is recorded again")
			}
		})
	}
}

// A store that loses its connection between the list and the first definition, or cannot write, is waited for too.
func TestAStoreThatTakesNoWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db, log := memcounter.NewDatabase(), new(logbook)
		s := outOfReach{db.Open(), new(atomic.Bool), new(atomic.Int64)}
		n := room(t, Config{Counters: stores.Counters{Dir: "/"}, MaxWait: time.Second, Definitions: "a sequence; b sequence"},
			inMemory(db), func(n *Names) {
				n.openStore = func() (stores.CounterStore, error) {
					time.AfterFunc(time.Nanosecond, func() { s.down.Store(true) })
					return slow{s}, nil
				}
			}, log.of)
		if text := log.take(); strings.Count(text, "WARN a sequence is recorded once the counter store takes writes") != 2 {
			t.Error(text)
		}
		if got := n.next(t, "other"); len(got) != 19 {
			t.Error("what is recorded is known:", got)
		}
		s.down.Store(false)
		after(5 * time.Second)
		if got := n.next(t, "a") + n.next(t, "b"); got != "11" {
			t.Error(got)
		}
	})
}

// A slow store needs a while to list.
type slow struct{ outOfReach }

func (s slow) List(ctx context.Context) ([]counter.Record, error) {
	all, err := s.outOfReach.List(ctx)
	time.Sleep(time.Second)
	return all, err
}

// A store that cannot be opened, listed or closed says so.
func TestAStoreThatFails(t *testing.T) {
	broken := errors.New("broken")
	n := closed(t, Config{Counters: stores.Counters{Dir: "/"}})
	n.openStore = func() (stores.CounterStore, error) { return nil, broken }
	if err := n.Open(); err != broken {
		t.Error(err)
	}
	n.Stop()
	f := unlistable{memcounter.NewDatabase().Open(), broken}
	n.openStore = func() (stores.CounterStore, error) { return f, nil }
	if err := n.Open(); !errors.Is(err, broken) || strings.Count(err.Error(), "broken") != 2 {
		t.Error(err)
	}
}

// An unlistable store can neither be listed nor closed.
type unlistable struct {
	memcounter.Store
	err error
}

func (s unlistable) List(context.Context) ([]counter.Record, error) { return nil, s.err }
func (s unlistable) Close() error                                   { return s.err }
