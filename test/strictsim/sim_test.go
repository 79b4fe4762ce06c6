package strictsim

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/test/order"
)

var (
	firstSeed = flag.Uint64("seed", 0, "first seed")
	seeds     = flag.Uint64("seeds", 0, "number of seeds; 0 = as many as there is time for")
)

// The number of seeds that are run by default, and with KATSUBUSHI_SOAK=1.
const (
	quickSeeds, raceSeeds, soakSeeds = 300, 15, 25_000

	mutantSeeds = 10_000
)

var soak = os.Getenv("KATSUBUSHI_SOAK") == "1"

func run(t *testing.T, seed uint64, m Mutant) (w *World, err error) {
	if m >= StartAtNow {
		return runTimed(t, seed, m)
	}
	synctest.Test(t, func(*testing.T) { w, err = Run(seed, m) })
	return w, err
}

func runTimed(t *testing.T, seed uint64, m Mutant) (w *World, err error) {
	synctest.Test(t, func(*testing.T) { w, err = RunTimestamps(seed, m) })
	return w, err
}

// The same of timestamps, whose clocks jump, drift and lie: their time is right too.
func TestTimestampsInASimulatedWorld(t *testing.T) {
	var s Stats
	n := wanted(quickSeeds / 2)
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		w, err := runTimed(t, seed, None)
		if err == nil {
			err = order.Twice(w.Requests)
		}
		if err != nil {
			t.Fatalf("-seed %d -seeds 1: %v", seed, err)
		}
		s.add(w)
	}
	if s.Terms < int(n)*10 || s.Values < int(n)*200 || s.Clocks < int(n) {
		t.Errorf("too little has happened: %+v", s)
	}
	t.Logf("%d seeds: none twice, no inversion, all served again, in time: %+v", n, s)
}

// wanted returns how many seeds to run.
func wanted(quick uint64) uint64 {
	switch {
	case *seeds > 0:
		return *seeds
	case soak:
		return soakSeeds
	case underRace:
		return raceSeeds
	}
	return quick
}

func TestStrictOrderInASimulatedWorld(t *testing.T) {
	n := wanted(quickSeeds)
	var s Stats
	for seed := *firstSeed; seed < *firstSeed+n; seed++ {
		w, err := run(t, seed, None)
		if err != nil {
			t.Fatalf("-seed %d -seeds 1: %v", seed, err)
		}
		if err := order.Twice(w.Requests); err != nil {
			t.Fatalf("-seed %d -seeds 1: %v", seed, err)
		}
		s.add(w)
	}
	if s.Terms < int(n)*20 || s.Values < int(n)*200 || s.Forwards < int(n)*20 || s.Moved < int(n)*20 || n > 100 &&
		s.Demotes < int(n)/4 {
		t.Errorf("too little has happened: %+v", s)
	}
	t.Logf("%d seeds: none twice, no inversion, all served again: %+v", n, s)
}

func (s *Stats) add(w *World) {
	s.Events, s.Terms, s.Demotes, s.Values, s.Answered = s.Events+w.Events, s.Terms+w.Terms, s.Demotes+w.Demotes,
		s.Values+w.Values, s.Answered+len(w.Requests)
	s.Faults, s.Pauses, s.Forwards, s.Moved, s.Refused = s.Faults+w.Faults, s.Pauses+w.Pauses, s.Forwards+w.Forwards,
		s.Moved+w.Moved, s.Refused+w.Refused
	s.Clocks, s.Misled = s.Clocks+w.Clocks, s.Misled+w.Misled
	if !w.misled {
		s.Furthest = max(s.Furthest, w.Furthest)
	}
}

// found are seeds at which mutants were noticed, so that it does not take long to see it again. After a
// change of what is simulated they may be others: if this test takes long, put in what it logs.
var found = map[Mutant]uint64{
	ReserveAfterUse: 1, ResumeBlock: 0, WriteNumber: 6, ReturnAfterTerm: 254, NoFence: 116, NoLeaseCheck: 1,
	TurnsClock: 1, TimedFromAnswer: 529, FullTTL: 692, NoSeal: 432, UnsealAfterDemote: 7506, LateAppended: 19,
	LateForward: 175, AnswerBeforeReserve: 1, UntilOfAll: 240, NoNodeCompare: 3058,
	StartAtNow: 2, NoClamp: 2, FollowersClock: 2, Ratchet: 0,
}

// Each rule is needed: without it some seed fails. With KATSUBUSHI_SOAK=1 all seeds are tried from 0 on.
func TestStrictMutantsAreNoticed(t *testing.T) {
	if underRace {
		t.Skip("run without the race detector")
	}
	for m := None + 1; m < numMutants; m++ {
		t.Run(m.String(), func(t *testing.T) {
			if seed := found[m]; !soak && noticed(t, seed, m) {
				return
			}
			for seed := range uint64(mutantSeeds) {
				if noticed(t, seed, m) {
					return
				}
			}
			t.Error("survived")
		})
	}
}

// noticed reports whether a value came twice or in the wrong order. To be stuck does not count.
func noticed(t *testing.T, seed uint64, m Mutant) bool {
	_, err := run(t, seed, m)
	if err == nil || errors.Is(err, ErrStuck) {
		return false
	}
	t.Logf("seed %d, %v", seed, err)
	return true
}

func TestASeedGivesOneRun(t *testing.T) {
	for seed := range uint64(3) {
		a, _ := run(t, seed, None)
		b, _ := run(t, seed, None)
		if a.Stats != b.Stats || len(a.Requests) != len(b.Requests) {
			t.Errorf("seed %d: %+v and %+v", seed, a.Stats, b.Stats)
		}
	}
}

func TestWhatIsPlantedIsFound(t *testing.T) {
	w, err := run(t, 1, None)
	if err != nil {
		t.Fatal(err)
	}
	r := w.Requests[len(w.Requests)/2]
	r.Begin, r.End = length, length+1
	all := append(w.Requests, r) // the same value, to somebody who asked much later
	if err := order.Twice(all); err == nil || !strings.Contains(err.Error(), "issued twice") {
		t.Error(err)
	}
	if err := order.Inverted(all); !errors.As(err, &order.Inversion{}) {
		t.Error(err)
	}
}
