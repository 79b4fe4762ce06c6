package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestProblemsKeepTheirFieldsThroughEveryJoin(t *testing.T) {
	var none, inner, outer List
	if none.Err() != nil || Plain(nil) != nil || len(Of(nil)) != 0 {
		t.Error("no problem is an error")
	}
	inner.Add("Lease", "%d is too long", 7)
	inner.Add("URL", "%w", fs.ErrNotExist)
	outer.Add("Port", "taken")
	outer.Add("Port", "taken")
	outer.Include("Store.", errors.Join(inner.Err(), none.Err()))
	outer.Include("", errors.New("of no field"))
	// A part that joins errors under a text of its own is one problem, whose text stays whole.
	outer.Include("", fmt.Errorf("both: %w, %w", errors.New("a"), errors.New("b")))
	err := errors.Join(outer.Err(), nil)
	want := "Port: taken\nStore.Lease: 7 is too long\nStore.URL: file does not exist\nof no field\nboth: a, b"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if got := Of(err); len(got) != 5 || got[2].Field != "Store.URL" || !errors.Is(got[2].Err, fs.ErrNotExist) {
		t.Errorf("%v", got)
	}
	if want := "taken\n7 is too long\nfile does not exist\nof no field\nboth: a, b"; Plain(err).Error() != want ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, want %q", Plain(err), want)
	}
}
