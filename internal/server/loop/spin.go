package loop

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A spin decides whether a loop that has just answered looks for the next input for a while before it sleeps.
//
// # The problem
//
// A program with one connection asks, gets its answer 10 us later, and asks again 10 us after that. For each request
// the loop falls asleep and is woken: on a virtual machine that takes longer, and costs more of the thread's CPU, than
// everything else about the request. A loop that looks for the input instead has it at once. But a loop that looks in
// vain pays for the looking and for the sleep. A fixed limit of 50 us cost more than twice the CPU with clients that
// think for longer than that.
//
// # The policy
//
// The loop measures what a sleep costs it, and spins as long as that pays:
//
//   - A *rest* is a number of turns whose sleeps are ordinary. The last ones of a rest are measured: CPU time of the
//     thread per turn.
//   - Then comes a *trial* of up to trialSpins spins of at most mostSpin. CPU per turn again, without the time that was
//     spent looking, says what a turn costs that need not sleep. The difference is the cost of a sleep.
//   - A spin that found input gains that cost and a sixth of the CPU of a turn that slept, which is what we give for
//     the time that the client gains. Each spin costs what it took. The loop goes on while the mean gain is not
//     negative, with a limit that follows the hits: one and a half times their mean, and a little. Where a host keeps
//     the processor of a guest that sleeps for microseconds awake, a sleep costs hardly more than the spin: a quarter
//     of that cost left such a loop at the brink, where it slept through one window and spun through the next.
//   - After a run that did not last, the next rest is twice as long, up to longestRest turns.
//
// A turn counts only if it has answered and would sleep. If input is there at the first look the loop is busy, and
// neither gains nor loses: with many connections a loop hardly sleeps, and rests. An idle loop has no turns, so it does
// not spin. A thread that is preempted while it spins takes a processor that another one needs, perhaps the client's:
// it rests at once.
//
// The decisions need no clock of their own: whoever waits for the loop tells the time that each spin took.
type spin struct {
	limit time.Duration // server.Config.Spin
	usage usage

	phase spinPhase
	left  int // turns until the phase ends; in running, until the costs are measured again
	rest  int // length of the last rest, in turns

	slept    time.Duration // CPU per turn with a sleep
	cost     time.Duration // CPU of a sleep
	hit      time.Duration // mean time until a spin finds input
	gain     time.Duration // mean gain of a spin
	began    consumption   // when the turns that are measured began
	spins    int           // of the trial, or since the last look at preemptions
	hits     int
	spent    time.Duration // in these spins
	lasted   int           // spins of this run
	atOnce   int           // turns of the trial or run that had input at the first look
	answered bool          // this turn has answered something
}

// A spinPhase is what the loop does with the turns that would sleep.
type spinPhase uint8

const (
	resting   spinPhase = iota // sleep
	measuring                  // sleep, the last turns of a rest
	trying                     // spin, to learn
	running                    // spin, because it pays
)

// A consumption is what a thread has used so far.
type consumption struct {
	cpu       time.Duration
	preempted int64 // how often it lost its processor though it could run
}

// usage reads the consumption of the calling thread. preempted is only needed where asked for.
type usage func(preempted bool) consumption

const (
	trialSpins   = 16
	measuredRest = 16   // turns at the end of a rest whose CPU is measured
	shortestRest = 32   // turns
	longestRest  = 1024 // turns
	goodRun      = 64   // spins: a run that lasted this long makes the next rest short
	longestRun   = 8192 // spins: then a sleep is measured again
	checkEvery   = 64   // spins of a run between two looks at preemptions
	mostPreempts = 4    // in that time
	mostSpin     = 30 * time.Microsecond
	spareSpin    = 4 * time.Microsecond // beyond one and a half times the mean hit
)

func newSpin(limit time.Duration, usage usage) spin {
	s := spin{limit: limit, usage: usage}
	s.sleep(limit == server.SpinAuto)
	return s
}

// ends is told that a turn has ended, and whether it has answered.
func (s *spin) ends(answered bool) { s.answered = answered && s.limit != 0 }

// next returns for how long to look for input before this sleep; 0 = not at all.
func (s *spin) next() time.Duration {
	if !s.answered {
		return 0
	}
	s.answered = false
	if s.limit > 0 {
		return s.limit
	}
	if s.phase == resting || s.phase == measuring {
		s.rests()
	}
	switch s.phase {
	case trying:
		return mostSpin
	case running:
		return min(mostSpin, s.hit+s.hit/2+spareSpin)
	}
	return 0
}

// rests counts a turn of a rest.
func (s *spin) rests() {
	if s.left--; s.left > 0 {
		return
	}
	if s.phase == resting {
		s.phase, s.left, s.began = measuring, measuredRest, s.usage(false)
		return
	}
	now := s.usage(true)
	s.slept = (now.cpu - s.began.cpu) / measuredRest
	s.begin(trying, now)
	s.lasted = 0
}

// begin starts a phase with spins.
func (s *spin) begin(p spinPhase, now consumption) {
	s.phase, s.began = p, now
	s.spins, s.hits, s.spent, s.atOnce = 0, 0, 0, 0
}

// busy is told that input was there at the first look.
func (s *spin) busy() {
	if s.limit > 0 {
		return
	}
	if s.atOnce++; s.atOnce > trialSpins {
		s.sleep(true) // many connections: nothing to learn here
	}
}

// took is told how long a spin took, and whether it found input.
func (s *spin) took(d time.Duration, found bool) {
	if s.limit > 0 {
		return
	}
	s.spins++
	s.lasted++
	s.spent += d
	gain := -d
	if found {
		s.hits++
		gain += s.saves()
		s.hit += (d - s.hit) / 8
	}
	if s.phase == trying {
		s.tried(d, found)
		return
	}
	s.gain += (gain - s.gain) / trialSpins
	switch {
	case s.gain < 0:
		s.sleep(s.lasted < goodRun)
	case s.lasted >= longestRun:
		s.sleep(false)
	case s.spins >= checkEvery:
		if now := s.usage(true); now.preempted-s.began.preempted > mostPreempts {
			s.sleep(true)
		} else {
			s.begin(running, now)
		}
	}
}

// saves returns what a spin may take that finds input, so that it pays.
func (s *spin) saves() time.Duration { return s.cost + s.slept/6 }

// tried decides whether to go on with a trial, to run, or to rest.
func (s *spin) tried(d time.Duration, found bool) {
	if s.hits == 1 && found {
		s.hit = d
	}
	if s.spins >= trialSpins/4 && s.hits == 0 {
		s.sleep(true)
		return
	}
	if s.spins < trialSpins {
		return
	}
	now := s.usage(true)
	// Between the first spin and the end of the last one lie one turn and one sleep less than there were spins. A spin
	// in vain was followed by its sleep. So the hits alone have saved one each.
	saving := s.hits
	if found {
		saving--
	}
	if saving >= trialSpins/4 {
		saved := time.Duration(s.spins+s.atOnce-1)*s.slept - (now.cpu - s.began.cpu - s.spent)
		s.cost = min(max(saved/time.Duration(saving), 0), s.slept)
	}
	s.gain = (time.Duration(s.hits)*s.saves() - s.spent) / time.Duration(s.spins)
	if s.gain < 0 || now.preempted-s.began.preempted > mostPreempts {
		s.sleep(true)
		return
	}
	s.begin(running, now)
}

// sleep begins a rest, a longer one than the last if spinning has not paid.
func (s *spin) sleep(longer bool) {
	s.phase = resting
	if longer {
		s.rest = min(max(2*s.rest, shortestRest), longestRest)
	} else {
		s.rest = shortestRest
	}
	s.left = s.rest - measuredRest
}
