package static_test

import (
	"errors"
	"testing"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

const year = int64(365 * 24 * 3600 * 1000)

// While it runs: the id clock follows a step forward only after a minute, and by then the file does
// too; a clock that jumps to and fro is never followed; what goes ahead by drifting is.
func TestClockWhileServing(t *testing.T) {
	w := newWorld(t)
	s := w.open(t, 7)
	g := mustAcquire(t, s, one)
	extend := func() error {
		t.Helper()
		longer, err := extendOne(s, g)
		g = longer
		return err
	}
	w.clocks.Wall += 3_600_000 // an hour forward, which the id clock does not follow yet
	for range 60 {
		w.pass(1000)
		if err := extend(); err != nil {
			t.Fatal(err)
		}
	}
	w.id += 3_600_000 // now it does
	if err := extend(); err != nil || g.Hi != w.id+2000 {
		t.Fatalf("%v, %+v", err, g)
	}
	for range 100 { // back and forth
		w.clocks.Wall += year
		w.pass(500)
		if err := extend(); err != nil {
			t.Fatal(err)
		}
		w.id += year // somebody's clock that follows at once
		if err := extend(); !errors.Is(err, workerid.ErrSkew) {
			t.Fatalf("the file followed to %d: %v", g.Hi, err)
		}
		w.id -= year
		w.clocks.Wall -= year
		w.pass(500)
		if err := extend(); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 { // a clock that gains 10 % by being set often
		w.pass(500)
		w.clocks.Wall += 50
		w.id += 50
		if err := extend(); err != nil {
			t.Fatal(err)
		}
	}
	w.clocks.Wall -= year // far back, and the id clock stays where its ids are
	for range 200 {
		w.pass(500)
		if err := extend(); err != nil {
			t.Fatal(err)
		}
	}
	if g.Hi != w.id+2000 {
		t.Errorf("%+v at %d", g, w.id)
	}
}
