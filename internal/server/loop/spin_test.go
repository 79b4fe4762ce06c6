package loop

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A lonely is a loop with one client, as the policy sees it: what a turn and a sleep cost, and how long after an answer
// the next request comes.
type lonely struct {
	spin
	used       consumption
	turn       time.Duration // CPU of a turn
	sleep      time.Duration // CPU of a sleep and its end
	turns      int
	hits       int
	spent      time.Duration // looking
	looked     int           // turns that spun
	steals     bool          // each spin is preempted once
	neighbours bool          // there is always input at the first look
}

func newLonely(limit time.Duration) *lonely {
	l := &lonely{turn: 2 * time.Microsecond, sleep: 5 * time.Microsecond}
	l.spin = newSpin(limit, func(bool) consumption { return l.used })
	return l
}

// ask makes the loop answer, and then wait for a request that comes after gap.
func (l *lonely) ask(gap time.Duration) {
	l.used.cpu += l.turn
	l.turns++
	l.ends(true)
	limit := l.next()
	switch {
	case limit == 0 && !l.neighbours:
		l.used.cpu += l.sleep
		return
	case limit == 0:
		return
	case l.neighbours:
		l.busy()
		return
	}
	l.looked++
	if l.steals {
		l.used.preempted++
	}
	took := min(gap, limit)
	l.used.cpu += took
	l.spent += took
	l.took(took, gap <= limit)
	if gap <= limit {
		l.hits++
		return
	}
	l.used.cpu += l.sleep
}

// perTurn asks n times and returns the CPU of a turn.
func (l *lonely) perTurn(n int, gap func(i int) time.Duration) time.Duration {
	before := l.used.cpu
	for i := range n {
		l.ask(gap(i))
	}
	return (l.used.cpu - before) / time.Duration(n)
}

func every(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

const manyTurns = 100_000

func TestSpinningPays(t *testing.T) {
	for _, gap := range []time.Duration{time.Microsecond, 3 * time.Microsecond, 6 * time.Microsecond} {
		l := newLonely(server.SpinAuto)
		got := l.perTurn(manyTurns, every(gap))
		if hits := l.hits * 100 / manyTurns; hits < 98 || got > l.turn+gap+l.sleep/20 {
			t.Errorf("a request %v after each answer: %v of CPU a turn, %d %% of them found without a sleep", gap, got, hits)
		}
	}
}

// A sleep may cost less than half a turn. What the client gains is worth a sixth of a turn that slept, not more.
func TestSpinningAtTheBrink(t *testing.T) {
	for gap, share := range map[time.Duration]int{4600 * time.Nanosecond: 98, 5100 * time.Nanosecond: 0} {
		l := newLonely(server.SpinAuto)
		l.turn, l.sleep = 4500*time.Nanosecond, 3500*time.Nanosecond
		got := l.perTurn(manyTurns, every(gap))
		if hits := l.hits * 100 / manyTurns; hits < share || hits > share+2 {
			t.Errorf("a request %v after each answer: %v of CPU a turn, %d %% of them found without a sleep", gap, got, hits)
		}
	}
}

// The most that a client may cost more than if loops never spun.
func TestSpinningCostsLittle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	bursts := func(i int) time.Duration { return us([2]int{2000, 3}[min(i%64, 1)]) }
	for name, gap := range map[string]func(int) time.Duration{
		"9 us":          every(us(9)),
		"14 us":         every(us(14)),
		"20 us":         every(us(20)),
		"29 us":         every(us(29)),
		"31 us":         every(us(31)),
		"45 us":         every(us(45)),
		"1 s":           every(time.Second),
		"random":        func(int) time.Duration { return us(5 + rnd.IntN(495)) },
		"random, short": func(int) time.Duration { return us(5 + rnd.IntN(45)) },
		"alternating":   func(i int) time.Duration { return us([2]int{5, 500}[i%2]) },
		"one in four":   func(i int) time.Duration { return us([2]int{500, 5}[min(i%4, 1)]) },
		"bursts":        bursts,
		"changing":      func(i int) time.Duration { return us([2]int{3, 100}[i/1000%2]) },
		"changing fast": func(i int) time.Duration { return us([2]int{3, 100}[i/20%2]) },
	} {
		l := newLonely(server.SpinAuto)
		got, never := l.perTurn(manyTurns, gap), l.turn+l.sleep
		if got > never+never/10 {
			t.Errorf("%s: %v of CPU a turn, %v if it never spun", name, got, never)
		}
		t.Logf("%-13s %5v of CPU a turn, %.2fx, %3d %% hits", name, got, float64(got)/float64(never), l.hits*100/manyTurns)
	}
}

// A client that thinks for long costs next to nothing, in time as in CPU.
func TestRestsGrow(t *testing.T) {
	l := newLonely(server.SpinAuto)
	l.perTurn(10*longestRest, every(time.Millisecond))
	looked := l.looked
	l.perTurn(10*longestRest, every(time.Millisecond))
	if n := l.looked - looked; n == 0 || n > 10*trialSpins/4 {
		t.Errorf("%d spins in ten of the longest rests, want about %d", n, 10*trialSpins/4)
	}
	// It is noticed that another client asks at once.
	if l.perTurn(2*longestRest, every(time.Microsecond)); l.hits < longestRest/2 {
		t.Errorf("%d of %d requests found without a sleep", l.hits, 2*longestRest)
	}
	// The next rest after a good run is a short one.
	if l.perTurn(trialSpins, every(time.Second)); l.phase == running || l.left > shortestRest {
		t.Errorf("phase %d, %d turns left, after a run that had paid", l.phase, l.left)
	}
}

// The cost of a sleep may change, as on a host with new neighbours.
func TestTheCostOfASleepIsMeasuredAgain(t *testing.T) {
	l := newLonely(server.SpinAuto)
	l.perTurn(manyTurns, every(5*time.Microsecond))
	l.sleep = time.Microsecond
	l.perTurn(2*longestRun, every(5*time.Microsecond))
	if got, never := l.perTurn(manyTurns, every(5*time.Microsecond)), l.turn+l.sleep; got > never+never/8 {
		t.Errorf("%v of CPU a turn, %v if it never spun", got, never)
	}
}

func TestAThreadThatIsPreemptedRests(t *testing.T) {
	l := newLonely(server.SpinAuto)
	l.steals = true
	l.perTurn(20*longestRest, every(time.Microsecond))
	if share := l.looked * 100 / l.turns; share > 5 {
		t.Errorf("it spun in %d %% of the turns", share)
	}
	l = newLonely(server.SpinAuto)
	l.perTurn(1000, every(time.Microsecond))
	l.steals = true
	looked := l.looked
	if l.perTurn(10*checkEvery, every(time.Microsecond)); l.looked-looked > 3*checkEvery {
		t.Errorf("it spun %d times while it was preempted each time", l.looked-looked)
	}
}

func TestALoopThatIsBusyRests(t *testing.T) {
	l := newLonely(server.SpinAuto)
	l.neighbours = true
	l.perTurn(20*longestRest, every(time.Microsecond))
	if l.rest != longestRest || l.looked != 0 {
		t.Errorf("a rest has %d turns, %d spins", l.rest, l.looked)
	}
}

func TestWhatIsNoReasonToSpin(t *testing.T) {
	off := newLonely(0)
	off.perTurn(10*longestRest, every(time.Microsecond))
	if off.looked != 0 {
		t.Errorf("it spun %d times, and is off", off.looked)
	}
	fixed := newLonely(50 * time.Microsecond)
	fixed.perTurn(1000, every(time.Second))
	if fixed.looked != 1000 || fixed.spent != 1000*50*time.Microsecond {
		t.Errorf("%d spins of %v together, want 1000 of 50us", fixed.looked, fixed.spent)
	}
	for _, l := range []*lonely{off, fixed, newLonely(server.SpinAuto)} {
		for range 10 * longestRest {
			if l.ends(false); l.next() != 0 {
				t.Fatal("it spins after a turn that answered nothing")
			}
		}
	}
	fixed.ends(true)
	if fixed.next() == 0 || fixed.next() != 0 {
		t.Error("one answer is a reason for one spin")
	}
}
