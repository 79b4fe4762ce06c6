package explore

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/sim"
)

// horizon is how long a schedule of the world of leases is, ms.
const horizon = 22_000

// once is one fault of every kind, and one preemption.
var once = Bound{Faults: 1, Preemptions: 1, Time: horizon}

// explore explores the world of leases, and tells of a failing schedule in plain sentences.
func explore(t *testing.T, m sim.Mutant, e Explorer) Report {
	t.Helper()
	began := time.Now()
	r := e.Run(Leases(m))
	took := time.Since(began)
	t.Logf("%d points, %d states, %v, %.0f points a second", r.Points, r.States, took, float64(r.Points)/took.Seconds())
	if r.Err == nil {
		return r
	}
	s := Shorten(Leases(m), r.Schedule, e.Bound.Time)
	told, err := Replay(Leases(m), s, e.Bound.Time)
	t.Logf("%s\n%q: %v", strings.Join(told, "\n"), s, err)
	return r
}

// No schedule with one fault of any kind and one preemption lets two daemons issue from one window.
func TestEveryScheduleOfLeases(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("run without the race detector: it is one goroutine, and has half a million states")
	}
	if r := explore(t, sim.None, Explorer{Bound: once}); r.Err != nil || !r.Complete {
		t.Errorf("%+v", r)
	}
}

// A schedule is the same run each time, and its text is read again.
func TestReplay(t *testing.T) {
	const m = sim.Mutant("the record is not compared")
	r := (&Explorer{Bound: once}).Run(Leases(m))
	s, err := ParseSchedule(r.Schedule.String())
	if err != nil || !slices.Equal(s, r.Schedule) || r.Err == nil {
		t.Fatalf("%v, %v instead of %v: %v", err, s, r.Schedule, r.Err)
	}
	for range 2 {
		if _, err := Replay(Leases(m), s, horizon); err == nil || err.Error() != r.Err.Error() {
			t.Errorf("%v instead of %v", err, r.Err)
		}
	}
	if _, err := Replay(Leases(sim.None), s, horizon); err != nil {
		t.Error("without the mutant:", err)
	}
}

// An exploration that was stopped goes on from its path, and visits what is left.
func TestResume(t *testing.T) {
	b := Bound{Faults: 1, Time: horizon}
	whole := (&Explorer{Bound: b}).Run(Leases(sim.None))
	var path []int
	e := &Explorer{Bound: b, Every: 1000}
	e.Tell = func(Report) {
		path = e.Path()
		panic("stop")
	}
	func() {
		defer func() { _ = recover() }()
		e.Run(Leases(sim.None))
	}()
	rest := (&Explorer{Bound: b, Resume: path}).Run(Leases(sim.None))
	if !rest.Complete || rest.Err != nil || rest.Points < whole.Points-1000 {
		t.Errorf("%d points after 1000 of %d: %+v", rest.Points, whole.Points, rest)
	}
}

// make explore: raised bounds. KATSUBUSHI_EXPLORE is the file that it goes on from.
func TestLong(t *testing.T) {
	file := os.Getenv("KATSUBUSHI_EXPLORE")
	if file == "" {
		t.Skip("make explore does it")
	}
	e := Explorer{Bound: Bound{Faults: 2, Time: horizon}, Every: 5_000_000, Most: 1 << 26}
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
	if r := explore(t, sim.None, e); r.Err != nil {
		t.Error("a promise is broken")
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}
