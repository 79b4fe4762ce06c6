package explore

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/sim"
)

// A setting is a world, and the bounds within which it is explored.
type setting struct {
	name  string
	start func(mutant string) World
	stage string // what has happened at the start of the exploration
	time  int64  // ms
	once  Bound  // one fault of every kind, and one preemption,
	twice Bound  // and two of restricted kinds
	long  Bound  // in make explore
	early int64  // make test has faults before that alone, ms; 0 = all of these bounds
	short int64  // and schedules of this length, ms; 0 = time. All mutants are found there
}

var explored = []setting{
	{
		name: "files", start: func(m string) World { return Files(sim.Mutant(m), false) }, time: 9000,
		early: 5000,
		once:  Bound{Faults: 1, Preemptions: 1},
		twice: Bound{Faults: 2, Kinds: []Kind{Kill, Power, Fails, StopSend, Jump}},
		long: Bound{Faults: 2, Preemptions: 1,
			Kinds: []Kind{Kill, Power, Fails, StopSend, Delete, Lose, Copied, Overwrite, Backup}},
	},
	{ // with several worker ids, this is what one of them sees
		name: "files, a shared mark", start: func(m string) World { return Files(sim.Mutant(m), true) }, time: 9000,
		early: 5000,
		once:  Bound{Faults: 1, Preemptions: 1},
		twice: Bound{Faults: 2, Kinds: []Kind{Kill, Power, Fails, StopSend, Jump}},
		long: Bound{Faults: 2, Preemptions: 1,
			Kinds: []Kind{Kill, Power, Fails, StopSend, Delete, Lose, Copied, Overwrite, Backup}},
	},
	{
		name: "leases", start: func(m string) World { return Leases(sim.Mutant(m)) }, time: horizon,
		short: 14_000,
		once:  Bound{Faults: 1, Preemptions: 1},
		twice: Bound{Faults: 2, Kinds: []Kind{Kill, NoAnswer, Backup}, Last: []Kind{Kill}},
		long:  Bound{Faults: 2},
	},
	{ // windows that a raise does not know of
		name: "leases, clocks apart", start: func(m string) World { return Leases(sim.Mutant(m)) }, time: 17_000,
		stage: "0:16.1.0.1.0.1 2:16.1.0.0.0.0",
		long:  Bound{Faults: 2, Begin: 5000, Kinds: []Kind{Backup, StopSend}, Last: []Kind{StopSend}},
	},
	{ // a backup is at hand, and an operator has freed a worker id since
		name: "leases, a freed worker id", start: func(m string) World { return Leases(sim.Mutant(m)) }, time: 11_000,
		stage: "0:11.1.0.0.0.0 3:15.1.0.0.0.2",
		long:  Bound{Faults: 2, Begin: 4500, Kinds: []Kind{Kill}},
	},
	{ // it can be restored at any time from a watch later on
		name: "leases, a backup at hand", start: func(m string) World { return Leases(sim.Mutant(m)) }, time: 18_000,
		stage: "0:11.1.0.0.0.0", long: Bound{Faults: 1},
	},
	{ // of an acquisition, and the daemon is stopped until another one has the worker id
		name: "leases, a lost answer", start: func(m string) World { return Leases(sim.Mutant(m)) }, time: horizon,
		stage: "0:15.1.0.0.0.2 16:5.1.0.1.1.0 24:7.1.0.1.0.1",
		once:  Bound{Faults: 1, Kinds: []Kind{Backup}}, long: Bound{Faults: 1, Preemptions: 1},
	},
	{
		name: "strict", start: func(m string) World { return Strict(few, m) }, time: strictTime,
		once:  Bound{Faults: 1, Preemptions: 1, Begin: strictFaults},
		twice: Bound{Faults: 2, Begin: strictFaults, Kinds: []Kind{Pause, Kill, NoAnswer, Demote}},
		long:  Bound{Faults: 2, Preemptions: 1, Begin: strictFaults, Kinds: []Kind{Pause, Kill, NoAnswer, Demote, Cut}},
	},
	{
		name: "strict, long blocks", start: func(m string) World { return Strict(many, m) }, time: strictTime,
		long: Bound{Faults: 2, Preemptions: 1, Begin: strictFaults, Kinds: []Kind{Pause, LateAnswer, Cut}},
	},
	{name: "strict, two groups", start: Watched, time: strictTime}, // only walks go there
	{
		name: "timestamps", start: Timestamps, time: strictTime,
		early: strictFaults / 2,
		once:  Bound{Faults: 1, Preemptions: 1, Begin: strictFaults},
		twice: Bound{Faults: 2, Begin: strictFaults, Kinds: []Kind{Jump, Demote, Kill}},
		long:  Bound{Faults: 2, Preemptions: 1, Begin: strictFaults, Kinds: []Kind{Pause, Kill, NoAnswer, Demote, Jump}},
	},
	{
		name: "redis", start: func(m string) World { return Redis(false, m) }, time: redisTime,
		once: Bound{Faults: 1, Preemptions: 1}, long: losses,
	},
	{
		name: "redis, with a replica", start: func(m string) World { return Redis(true, m) }, time: redisTime,
		once: Bound{Faults: 1, Preemptions: 1, Begin: 6000}, long: losses,
	},
	{
		name: "lines, a fail-over", start: func(m string) World { return Lines(FailOver, m) }, time: lineTime,
		once: Bound{Faults: 2}, long: Bound{Faults: 3, Preemptions: 1},
	},
	{
		name: "lines, two masters", start: func(m string) World { return Lines(TwoMasters, m) }, time: lineTime,
		once: Bound{Faults: 2}, long: Bound{Faults: 3, Preemptions: 1},
	},
	{
		name: "lines, a restart", start: func(m string) World { return Lines(Restart, m) }, time: lineTime,
		once: Bound{Faults: 2}, long: Bound{Faults: 3, Preemptions: 1},
	},
}

// settingOf returns the setting of a name.
func settingOf(name string) *setting {
	return &explored[slices.IndexFunc(explored, func(s setting) bool { return s.name == name })]
}

// begin returns the start of an exploration.
func (s *setting) begin(mutant string) (World, error) {
	stage, err := ParseSchedule(s.stage)
	if err != nil {
		return nil, err
	}
	if len(stage) == 0 {
		return s.start(mutant), nil
	}
	return Stage(s.start(mutant), stage)
}

// explore explores a world, and tells of a failing schedule in plain sentences.
func (s *setting) explore(t *testing.T, mutant string, e Explorer) Report {
	t.Helper()
	e.Bound.Time = s.time
	start, err := s.begin(mutant)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := e.Run(start)
	took := time.Since(began)
	t.Logf("%d points, %d states, %v, %.0f points a second", r.Points, r.States, took, float64(r.Points)/took.Seconds())
	if r.Err == nil {
		return r
	}
	short := Shorten(start, r.Schedule, e.Bound.Time)
	told, err := Replay(start, short, e.Bound.Time)
	t.Logf("%s\n%q: %v", strings.Join(told, "\n"), short, err)
	r.Schedule = short
	return r
}

// No schedule with one fault of any kind and one preemption, or with two of some kinds, breaks a promise. In make test
// the faults of some worlds are early, or the schedules short; make explore has all of them.
func TestEverySchedule(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("run without the race detector: it is one goroutine, and has half a million states")
	}
	for _, s := range explored {
		if os.Getenv("KATSUBUSHI_EXPLORE") == "" {
			s.time = cmp.Or(s.short, s.time)
			s.once.Begin, s.twice.Begin = cmp.Or(s.early, s.once.Begin), cmp.Or(s.early, s.twice.Begin)
		}
		for n, b := range []Bound{s.once, s.twice} {
			if b.Faults == 0 {
				continue
			}
			t.Run(s.name+[]string{"/once", "/twice"}[n], func(t *testing.T) {
				t.Parallel()
				if r := s.explore(t, "", Explorer{Bound: b}); r.Err != nil || !r.Complete {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// A mutant is a rule that is missing, and where that is found: in a world, within a bound.
type mutant struct {
	world, name string
	bound       Bound
	schedule    string // the shortest that is known
}

// Each mutant is found by its schedule, which does no harm without it. With KATSUBUSHI_SOAK=1 they are searched for.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.world+"/"+m.name, func(t *testing.T) {
			s := settingOf(m.world)
			schedule, err := ParseSchedule(m.schedule)
			if err != nil || schedule.String() != m.schedule {
				t.Fatalf("%q is read as %q: %v", m.schedule, schedule, err)
			}
			mutated, err := s.begin(m.name)
			if err != nil {
				t.Fatal(err)
			}
			sound, err := s.begin("")
			if err != nil {
				t.Fatal(err)
			}
			_, found := Replay(mutated, schedule, s.time)
			if _, err := Replay(sound, schedule, s.time); err != nil && err != ErrOther {
				t.Errorf("without the mutant: %v", err)
			}
			if found != nil && found != ErrOther && !soak {
				return
			}
			if underRace {
				t.Skip("it is searched for without the race detector")
			}
			if m.bound.Faults == 0 {
				if !finds(t, s, m.name) {
					t.Error("not found")
				}
				return
			}
			if r := s.explore(t, m.name, Explorer{Bound: m.bound}); r.Err == nil {
				t.Error("not found")
			} else if r.Schedule.String() != m.schedule {
				t.Errorf("list this schedule: %q", r.Schedule)
			}
		})
	}
}

var soak = os.Getenv("KATSUBUSHI_SOAK") == "1"

// make explore: raised bounds. KATSUBUSHI_EXPLORE is the directory of what it goes on from, KATSUBUSHI_WORLD the world.
func TestLong(t *testing.T) {
	dir := os.Getenv("KATSUBUSHI_EXPLORE")
	if dir == "" {
		t.Skip("make explore does it")
	}
	for _, s := range explored {
		if only := os.Getenv("KATSUBUSHI_WORLD"); only == "" || only == s.name {
			t.Run(s.name, func(t *testing.T) { long(t, &s, dir+"/"+s.name) })
		}
	}
}

func long(t *testing.T, s *setting, file string) {
	e := Explorer{Bound: s.long, Every: 5_000_000, Most: 1 << 26}
	text, _ := os.ReadFile(file)
	for word := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		e.Resume = append(e.Resume, n)
	}
	e.Tell = func(r Report) {
		t.Logf("%d points, %d states", r.Points, r.States)
		var b strings.Builder
		for _, n := range e.Path() {
			b.WriteString(strconv.Itoa(n) + " ")
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.explore(t, "", e); r.Err != nil {
		t.Error("a promise is broken")
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}

// Every choice has a sentence.
func TestSay(t *testing.T) {
	for _, s := range explored {
		w := s.start("")
		for range 30 {
			for _, c := range w.Choices(nil, true) {
				if said := w.Say(c); said == "" || strings.ContainsAny(said, "[]") {
					t.Errorf("%s: %v is %q", s.name, c, said)
				}
			}
			w = w.Do(Choice{})
		}
	}
}
