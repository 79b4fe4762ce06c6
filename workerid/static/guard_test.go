package static

import "testing"

// TestGuard: marks follow small gains of the wall clock at once, and a larger one after it has lasted.
func TestGuard(t *testing.T) {
	const s = 1000
	type look struct {
		boot, gain int64 // since the start: of Boot, and of the wall clock on that; ms
		follow     bool
	}
	for name, looks := range map[string][]look{
		"small gains add up": {
			{0, 10 * s, true}, {0, 20 * s, true}, {0, 30 * s, true},
		},
		"a step": {
			{0, 10*s + 1, false}, {50*s - 1, 10*s + 1, false}, {50 * s, 10*s + 1, true},
		},
		"a step that is taken back": {
			{0, 20 * s, false}, {9 * s, 0, true}, {10 * s, 20 * s, false}, {59 * s, 20 * s, false},
		},
		"a step that goes on rising": {
			{0, 20 * s, false}, {9 * s, 30 * s, false}, {50 * s, 25 * s, true},
		},
		"a second one": {
			{0, 20 * s, false}, {9 * s, 30*s + 1, false}, {50 * s, 30*s + 1, false}, {59 * s, 30*s + 1, true},
		},
		"a step that sinks": {
			{0, 25 * s, false}, {9 * s, 15 * s, false}, {50 * s, 15 * s, true},
		},
		"one that sinks by more": {
			{0, 25 * s, false}, {9 * s, 15*s - 1, false}, {50 * s, 15*s - 1, false},
		},
		"the next after one that was": {
			{0, 25 * s, false}, {50 * s, 15 * s, true}, {50 * s, 26 * s, false}, {99 * s, 26 * s, false},
		},
		"steps back change nothing": {
			{0, -60 * s, true}, {0, 10 * s, true}, {0, -60 * s, true}, {0, 20*s + 1, false},
		},
	} {
		const wall, boot = 1_700_000_000_000, 90 * s
		var g guard
		g.start(Clocks{Wall: wall, Boot: boot}, nil)
		for i, l := range looks {
			c := Clocks{Wall: wall + l.boot + l.gain, Boot: boot + l.boot}
			if err := g.check(c, c.Wall); (err == nil) != l.follow {
				t.Errorf("%s, look %d: %v", name, i, err)
			}
		}
	}
	var g guard
	g.start(Clocks{Wall: 500 * s, Boot: 100 * s}, nil)
	for ahead, follow := range map[int64]bool{10 * s: true, 10*s + 1: false} { // the id clock's run-ahead
		if err := g.check(Clocks{Wall: 500 * s, Boot: 100 * s}, 500*s+ahead); (err == nil) != follow {
			t.Errorf("an id clock %d ms ahead: %v", ahead, err)
		}
	}
}

// TestGuardBegins where the run before left off, in the same boot.
func TestGuardBegins(t *testing.T) {
	for _, c := range []struct {
		recorded, now string // boots; empty = not known
		follow        bool
	}{{"this", "this", false}, {"other", "this", true}, {"", "this", true}, {"", "", true}} {
		var g guard
		clocks := Clocks{Wall: 1_000_000, Boot: 100_000, BootID: c.now}
		g.start(clocks, &record{Boot: c.recorded, Offset: 800_000})
		if err := g.check(clocks, clocks.Wall); (err == nil) != c.follow {
			t.Errorf("boot %q after a run of boot %q: %v", c.now, c.recorded, err)
		}
	}
}
