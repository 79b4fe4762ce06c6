package explore

import (
	_ "embed"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// How many seeds walk over each world, one with KATSUBUSHI_SOAK=1, and one for a mutant. -seed n is one seed alone.
const quickWalks, soakWalks, mutantWalks = 150, 25_000, 20_000

var onlySeed = flag.Int64("seed", -1, "one seed of the random walks alone")

// A stroll is what random walks over a world may have: faults of any number within the first two thirds of its time.
type stroll struct {
	world string
	time  int64 // ms
	calm  int64 // ms that pass then, and the daemons serve again
	but   []Kind
}

//go:embed testdata/walks.txt
var walks string

var strolls = read(walks, func(s *stroll) map[string]any {
	return map[string]any{"name": &s.world, "time": &s.time, "calm": &s.calm, "but": &s.but}
})

// walk carries out choices at random, some time of the default, and says whether daemons served within the last
// seconds. One seed gives one schedule.
func (s *stroll) walk(w World, seed uint64) (end World, all Schedule, served bool) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	often := []int{4, 8, 16, 32}[rnd.IntN(4)]
	var room []Choice
	for step := 0; w.Now() < s.time+s.calm; step++ {
		c := Choice{}
		if w.Now() < s.time*2/3 && rnd.IntN(often) == 0 {
			room = w.Choices(room[:0], true)
			c = s.pick(rnd, room)
		}
		next := w.Do(c)
		if next == nil { // it makes no difference
			c, next = Choice{}, w.Do(Choice{})
		}
		if w = next; c.Kind != Default {
			all = append(all, Deviation{step, c})
		}
		if x, is := w.(server); is && w.Now() > s.time+s.calm-12_000 {
			served = served || x.serves()
		}
	}
	return w, all, served
}

// pick is one of the choices: first of their kinds, so that those with many are no likelier.
func (s *stroll) pick(rnd *rand.Rand, all []Choice) Choice {
	var kinds []Kind
	for _, c := range all[1:] {
		if !slices.Contains(s.but, c.Kind) && !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	if len(kinds) == 0 {
		return Choice{}
	}
	kind := kinds[rnd.IntN(len(kinds))]
	all = slices.DeleteFunc(all, func(c Choice) bool { return c.Kind != kind })
	return all[rnd.IntN(len(all))]
}

// finds says whether a walk shows a mutant.
func finds(t *testing.T, x *setting, mutant string) bool {
	s := stroll{world: x.name, time: x.time}
	start := x.begin(t, mutant)
	for seed := range uint64(mutantWalks) {
		if end, all, _ := s.walk(start, seed); end.Err() != nil {
			t.Logf("seed %d: %q: %v", seed, Shorten(start, all, x.time), end.Err())
			return true
		}
	}
	return false
}

// No walk breaks a promise, and all is served again soon after the faults have ended.
func TestWalks(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("run without the race detector: it is one goroutine")
	}
	for n, s := range strolls {
		t.Run(fmt.Sprint(n, " ", s.world), func(t *testing.T) {
			t.Parallel()
			x := settingOf(s.world)
			start := x.begin(t, "")
			first, n := int64(0), int64(quickWalks)
			switch {
			case *onlySeed >= 0:
				first, n = *onlySeed, 1
			case soak:
				n = soakWalks
			}
			deviations := 0
			for seed := first; seed < first+n; seed++ {
				end, all, served := s.walk(start, uint64(seed))
				if deviations += len(all); end.Err() != nil {
					all = Shorten(start, all, s.time+s.calm)
					told, err := Replay(start, all, s.time+s.calm)
					t.Errorf("-seed %d: %v, %v\n%q: %v", seed, end.Err(), err, all, strings.Join(told, "\n"))
				} else if !served && s.calm > 0 {
					t.Errorf("-seed %d: nobody serves at the end: %q", seed, all)
				}
			}
			if deviations < int(n)*3 && n > 1 {
				t.Errorf("only %d faults and preemptions in %d walks", deviations, n)
			}
			t.Logf("%d walks with %d faults and preemptions", n, deviations)
		})
	}
}

// A seed gives one schedule.
func TestASeedGivesOneWalk(t *testing.T) {
	for _, s := range strolls {
		t.Run(s.world, func(t *testing.T) {
			start := settingOf(s.world).begin(t, "")
			one, all, _ := s.walk(start, 1)
			two, same, _ := s.walk(start, 1)
			if !slices.Equal(all, same) || one.Digest() != two.Digest() {
				t.Errorf("%q and %q", all, same)
			}
		})
	}
}
