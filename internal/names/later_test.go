package names

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
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
