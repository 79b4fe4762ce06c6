package names

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// What is created is served at once, by this daemon, and stays what it is.
func TestCreate(t *testing.T) {
	settings, admin := files(t)
	n := room(t, Config{Counters: settings, MaxWait: patience, Definitions: "u7 uuid7"})
	create := func(line string, want bool) error {
		t.Helper()
		def := parse(t, line)
		r, created, err := n.Create(t.Context(), def)
		if created != want || err == nil && r.Name != def.Name {
			t.Errorf("%s: %v, %+v, %v", line, created, r, err)
		}
		return err
	}
	if err := create("orders sequence start=100", true); err != nil || n.next(t, "orders") != "100" {
		t.Error(err)
	}
	if err := create("orders sequence start=100", false); err != nil || n.next(t, "orders") != "101" {
		t.Error(err)
	}
	record(t, admin, counter.Sequence("before"))
	if err := create("before sequence", false); err != nil || n.next(t, "before") != "1" {
		t.Error(err)
	}
	var different *kinds.DifferentError
	if err := create("orders sequence start=7", false); !errors.As(err, &different) {
		t.Error(err)
	}
	if err := create("u7 sequence", false); !errors.As(err, new(stores.Conflict)) ||
		!strings.Contains(err.Error(), `"u7 sequence start=1": the name is served as "u7 uuid7"`) {
		t.Error(err)
	}
	if _, err := admin.Show(t.Context(), "u7"); !errors.Is(err, counter.ErrUnknown) { // it is not recorded
		t.Error(err)
	}
	if _, err := n.Elector(); err != stores.ErrNoElection {
		t.Error(err)
	}
	if _, err := n.Users(); err == nil || err.Error() != "the counter store keeps no users" {
		t.Error(err)
	}
	if e, err := newBoard().room(t, Config{}).Elector(); err != nil || e == nil {
		t.Error(err)
	}
	none := room(t, Config{})
	if _, _, err := none.Create(t.Context(), parse(t, "a sequence")); !errors.As(err, new(stores.Conflict)) ||
		err.Error() != stores.ErrNoPlace.Error() {
		t.Error(err)
	}
}
