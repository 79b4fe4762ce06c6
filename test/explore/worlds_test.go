package explore

import (
	"cmp"
	_ "embed"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
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

//go:embed testdata/worlds.txt
var worlds string

var explored = read(worlds, func(s *setting) map[string]any {
	s.start = starts[s.name]
	return map[string]any{"name": &s.name, "stage": &s.stage, "time": &s.time, "early": &s.early, "short": &s.short,
		"once": &s.once, "twice": &s.twice, "long": &s.long}
})

var starts = map[string]func(mutant string) World{
	"files": Files(false), "files, a shared mark": Files(true),
	"leases": Leases, "leases, clocks apart": Leases, "leases, a freed worker id": Leases,
	"leases, a backup at hand": Leases, "leases, a lost answer": Leases,
	"strict": Strict(few), "strict, long blocks": Strict(many), "strict, two groups": Watched,
	"timestamps":         Timestamps,
	"lines, a fail-over": Lines(FailOver), "lines, two masters": Lines(TwoMasters), "lines, a restart": Lines(Restart),
}

// settingOf returns the setting of a name.
func settingOf(name string) *setting {
	return &explored[slices.IndexFunc(explored, func(s setting) bool { return s.name == name })]
}

// begin returns the start of an exploration.
func (s *setting) begin(t *testing.T, mutant string) World {
	t.Helper()
	stage, err := ParseSchedule(s.stage)
	if err != nil {
		t.Fatal(err)
	}
	w := s.world(t, mutant)
	if len(stage) > 0 {
		if w, err = Stage(w, stage); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (s *setting) world(t *testing.T, mutant string) World {
	if s.start != nil {
		return s.start(mutant)
	}
	return newRedis(scripts(t, mutant), s.name != "redis", mutant)
}

// scripts returns a carrier: those that ship, but for what a mutant changes, in a Redis of the test's own.
func scripts(t *testing.T, name string) carrier {
	p := scripted.New(redistest.Start(t).Client(), "explored")
	for _, m := range mutants {
		if m.name == name && m.old != "" {
			p.Edit = func(text string) string { return strings.Replace(text, m.old, m.new, 1) }
		}
	}
	return func(s *scripted.Server, c script.Call, now int64) (any, error) {
		answer, err := p.Carry(s, c, now)
		if err != nil && !errors.As(err, &script.Refusal{}) {
			t.Fatal(err)
		}
		return answer, err
	}
}

// explore explores a world, and tells of a failing schedule in plain sentences.
func (s *setting) explore(t *testing.T, mutant string, e Explorer) Report {
	t.Helper()
	e.Bound.Time = s.time
	start := s.begin(t, mutant)
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
	old, new    string // in the scripts of Redis
}

//go:embed testdata/mutants.txt
var listed string

// Mutants without a bound are what random walks find.
var mutants = read(listed, mutantFields)

func mutantFields(m *mutant) map[string]any {
	return map[string]any{"name": &m.name, "world": &m.world, "bound": &m.bound, "schedule": &m.schedule,
		"old": &m.old, "new": &m.new}
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
			_, found := Replay(s.begin(t, m.name), schedule, s.time)
			if _, err := Replay(s.begin(t, ""), schedule, s.time); err != nil && err != ErrOther {
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
		t.Run(s.name, func(t *testing.T) {
			w := s.world(t, "")
			for range 30 {
				for _, c := range w.Choices(nil, true) {
					if said := w.Say(c); said == "" || strings.ContainsAny(said, "[]") {
						t.Errorf("%v is %q", c, said)
					}
				}
				w = w.Do(Choice{})
			}
		})
	}
}
