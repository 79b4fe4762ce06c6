package stores

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// TestStatesOfRecordsThatCannotBeRead: a damaged one wants to be raised, and no other one.
func TestStatesOfRecordsThatCannotBeRead(t *testing.T) {
	for want, err := range map[string]error{
		"damaged": fmt.Errorf("a: %w", counter.ErrDamaged), "not readable": syscall.EROFS,
	} {
		r := counter.Unread("a", err)
		if s := Show(r); s.State != want || s.Name != "a" {
			t.Errorf("%v: %+v", err, s)
		}
	}
}

// A recorded store has one record.
type recorded struct {
	counter.Admin
	r counter.Record
}

func (s recorded) Show(context.Context, string) (counter.Record, error) { return s.r, nil }

// TestFarAhead: a day ahead of the clock is near enough, for a clock that is a little wrong, and a tick more is not.
func TestFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		time.Sleep(time.Until(now))
		def, err := Counters{URL: "file:///d"}.ParseSequence("tx snowflake layout=twitter order=strict node=1000")
		if err != nil {
			t.Fatal(err)
		}
		for ahead, far := range map[time.Duration]bool{
			-time.Hour: false, 24 * time.Hour: false, 24*time.Hour + time.Millisecond: true,
		} {
			id, err := kinds.IDLayout(def.Definition).Compose(generator.Parts{Time: now.Add(ahead), Worker: 1000})
			if err != nil {
				t.Fatal(err)
			}
			s := recorded{r: counter.NewRecord(def.Definition, "token")}
			err = FarAhead(t.Context(), s, "tx", id, "-force")
			if c := (Conflict{}); errors.As(err, &c) != far || (err != nil) != far {
				t.Errorf("%v ahead: %v", ahead, err)
			}
			if s.r.Retired = true; FarAhead(t.Context(), s, "tx", id, "-force") != nil {
				t.Errorf("%v ahead: a retired name is not raised, and not asked about", ahead)
			}
		}
	})
}
