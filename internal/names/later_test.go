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
	recorded := counter.Sequence("orders")
	recorded.Step, recorded.Offset = 2, 2
	if _, err := db.Open().Define(ctx, recorded); err != nil {
		t.Fatal(err)
	}
	l := newLaterStore(db.Open(), slog.New(slog.DiscardHandler))
	def, err := kinds.Parse("orders sequence step=2 offset=1")
	if err != nil {
		t.Fatal(err)
	}
	l.pending["orders"] = def
	ended, cancel := context.WithCancel(ctx)
	cancel()
	before := db.Writes()
	for what, s := range map[string]counter.Store{"the store": l, "a term's": l.within(db.Open())} {
		if b, err := s.Reserve(ended, "orders", 10); !errors.Is(err, context.Canceled) || b != (counter.Block{}) {
			t.Errorf("%s, when the store does not answer: %+v, %v", what, b, err)
		}
		if b, err := s.Reserve(ctx, "orders", 10); err == nil || b != (counter.Block{}) || db.Writes() != before {
			t.Errorf("%s, of another definition: %+v, %v", what, b, err)
		}
	}
	if def, err = kinds.Parse("orders sequence step=2 offset=2"); err != nil {
		t.Fatal(err)
	}
	l.pending["orders"] = def
	if b, err := l.Reserve(ctx, "orders", 1); err != nil || b.Lo != 2 || len(l.pending) > 0 {
		t.Errorf("of the recorded one: %+v, %v, %v", b, err, l.pending)
	}
}
