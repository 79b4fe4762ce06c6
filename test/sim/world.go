package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/eventqueue"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// The figures of every run, in ms. Leases are short, so that much happens in little time; what
// counts is their proportion.
const (
	lease     = 10_000
	heartbeat = 800
	timeout   = 1_000
	runAhead  = 1_000
	skew      = 750 // of clocks that are right
	epoch     = 1_420_070_400_000
	start     = 1_800_000_000_000
)

// Faults says what goes wrong with the store and its daemons.
type Faults int

// The kinds of faults.
const (
	// Outages, pauses, sessions that end, and an operator who takes worker ids away; each of the others adds something
	Outages  Faults = iota
	Restores        // of earlier states
	Clones          // copies of processes
	Clocks          // daemons' clocks are off by up to a year for a time
)

func (f Faults) String() string {
	return [...]string{"outages", "restores", "clones", "wild clocks"}[f]
}

// Weather says what may go wrong in a run.
type Weather int

// The kinds of weather.
const (
	Storm Weather = iota // everything
	// what a lease is there to bridge: stalls and outages of the store of less than half of it.
	// Nothing may be refused
	Bridged
)

func (w Weather) String() string { return [...]string{"storm", "bridged"}[w] }

// Config describes a run. Everything else about it follows from the seed.
type Config struct {
	Seed    uint64
	Minutes int // simulated
	Faults  Faults
	Weather Weather
	Mutant  Mutant
}

// A Report is what came of a run.
type Report struct {
	Config
	Daemons, Lanes, Workers int
	Unit                    int64
	Events, Happened        int // events, and faults among them
	IDs                     unique.Set
	Requests, Refused       int
	Regrants                int      // of windows to the daemon that had them before
	Lost                    int      // leases that were lost, or taken away
	Recovered               int64    // ms from the end of the faults until everybody issued for good
	Stuck                   []string // who did not issue again once the faults were over
}

// Err is what the run shows to be wrong, or nil.
func (r *Report) Err() error {
	switch {
	case r.IDs.Duplicates() > 0:
		return fmt.Errorf("seed %d: %v", r.Seed, &r.IDs)
	case r.Regrants > 0:
		return fmt.Errorf("seed %d: %d grants of what the daemon had before", r.Seed, r.Regrants)
	case len(r.Stuck) > 0:
		return fmt.Errorf("seed %d: the faults are over, and still: %q", r.Seed, r.Stuck)
	case r.Weather == Bridged && r.Lost > 0:
		return fmt.Errorf("seed %d: %d leases were lost", r.Seed, r.Lost)
	case r.Weather == Bridged && r.Refused > 0:
		return fmt.Errorf("seed %d: %d requests of %d were refused", r.Seed, r.Refused, r.Requests)
	case r.IDs.Len() == 0:
		return fmt.Errorf("seed %d: no ids at all", r.Seed)
	}
	return nil
}

// A world is one run. Its time is in ms since the run began; nobody in it knows that time.
type world struct {
	Report
	rand   *rand.Rand
	now    int64
	events eventqueue.Queue[event]
	layout generator.Layout

	store       *casPool
	unreachable int64 // until then no request reaches the store
	answersLost int64 // until then no answer reaches a daemon
	requestIDs  int

	daemons []*daemon
	calm    bool // the faults are over
}

// Run carries out a run.
func Run(c Config) Report {
	w := &world{Report: Report{Config: c}, rand: rand.New(rand.NewPCG(c.Seed, 0x6b617473756f))}
	w.Unit = []int64{1, 10, 1000}[w.rand.IntN(3)]
	// few ids a tick: they run out
	w.layout = generator.Layout{Epoch: epoch, Unit: w.Unit, TimeBits: 42, WorkerBits: 8, SequenceBits: 6}
	w.Daemons, w.Lanes = 1+w.rand.IntN(6), 1+w.rand.IntN(3)
	w.Workers = w.Daemons * w.Lanes
	if c.Weather == Storm {
		w.Workers += w.rand.IntN(4)
	}
	w.store = newPool(w)
	defer w.store.stop()
	for i := range w.Daemons {
		d := &daemon{w: w, name: "daemon " + strconv.Itoa(i)}
		d.offset = w.upTo(skew) - skew/2
		w.daemons = append(w.daemons, d)
		w.after(w.upTo(1000), d.boot)
	}
	end := int64(c.Minutes) * time.Minute.Milliseconds()
	w.after(5_000+w.upTo(5_000), w.fault)
	w.runUntil(end)
	w.calmDown()
	for w.now < end+4*lease {
		w.runUntil(w.now + 100)
		if w.Stuck = w.notReady(); len(w.Stuck) > 0 {
			w.Recovered = w.now - end
		}
	}
	return w.Report
}

// notReady tells of every daemon that has no ids, and why.
func (w *world) notReady() (all []string) {
	for _, d := range w.daemons {
		if err := d.issuer.Ready(d.clock()); err != nil && !isRate(err) {
			all = append(all, d.name+": "+err.Error())
		}
	}
	return all
}

func (w *world) runUntil(end int64) {
	for {
		at, e, ok := w.events.Next(end)
		if !ok {
			break
		}
		w.now = at
		w.Events++
		if e.of != nil {
			e.of.do(e)
		} else {
			e.do()
		}
	}
	w.now = end
}

// after does something ms from now.
func (w *world) after(ms int64, do func()) { w.push(ms, nil, do) }

func (w *world) push(ms int64, of *daemon, do func()) {
	e := event{of: of, do: do}
	if of != nil {
		e.life = of.life
	}
	w.events.Add(w.now+max(ms, 0), e)
}

// upTo is a random number of ms, 0 to n.
func (w *world) upTo(n int64) int64 { return w.rand.Int64N(n + 1) }

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rand.IntN(n) == 0 }

func (w *world) requestID() string {
	w.requestIDs++
	return strconv.Itoa(w.requestIDs)
}

// An event is something that is due: in this life of a daemon, or anyway.
type event struct {
	of   *daemon
	life int
	at   int64 // when it came to a daemon that was paused
	do   func()
}
