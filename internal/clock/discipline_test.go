package clock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A world is a machine whose wall clock, suspension and id traffic a script moves; it applies what Discipline says as
// Clock does.
type world struct {
	d                     Discipline
	mono, suspended       time.Duration
	wall, clock, position int64
	issued                time.Duration // the last id, before each comparison
	idle                  bool          // none is issued
	times                 [NumKinds]int // adjusted
	moved                 [NumKinds]time.Duration
}

// pass lets time go by, and returns what is logged.
func (w *world) pass(span time.Duration) string {
	var said strings.Builder
	w.times, w.moved = [NumKinds]int{}, [NumKinds]time.Duration{}
	for end := w.mono + span; w.mono < end; {
		w.mono += Interval
		w.wall += int64(Interval)
		w.clock += int64(Interval)
		if !w.idle {
			w.position = max(w.position, w.clock-int64(w.issued))
		}
		a := w.d.Step(Sample{w.mono, w.suspended, w.wall, w.clock, w.position})
		w.clock += int64(a.By)
		if a.By != 0 {
			w.times[a.Kind]++
			w.moved[a.Kind] += a.By
		}
		if a.Note != "" || a.Step {
			fmt.Fprintf(&said, "%v %s%s: %s\n", w.mono, map[bool]string{true: "step "}[a.Step], a.Kind, a.Note)
		}
	}
	return said.String()
}

// moves says how the clock was adjusted in the last pass, and what is left.
func (w *world) moves() string {
	var said strings.Builder
	for k, n := range w.times {
		if n > 0 {
			fmt.Fprintf(&said, "%v %d times by %v, ", Kind(k), n, w.moved[k])
		}
	}
	off := time.Duration(w.wall - w.clock)
	if off.Abs() < noise {
		off = 0
	}
	fmt.Fprintf(&said, "%v off", off)
	return said.String()
}

// TestDiscipline: how the id clock follows, in testdata/discipline.txt.
func TestDiscipline(t *testing.T) {
	steps.Run(t, "testdata/discipline.txt", func(*testing.T) steps.Calls {
		const start = 1_800_000_000 * int64(time.Second)
		w := &world{wall: start, clock: start, position: start}
		return steps.Calls{
			"wall":         func(by time.Duration) { w.wall += int64(by) },
			"asleep":       func(by time.Duration) { w.wall, w.suspended = w.wall+int64(by), w.suspended+by },
			"slept-before": func(by time.Duration) { w.suspended = by },
			"idle":         func() { w.idle = true },
			"issued":       func(before time.Duration) { w.issued = before },
			"none-issued":  func() { w.idle, w.position = true, 0 },
			"first-issued": func() { w.position = 1 },
			"pass":         func(span time.Duration) (said, moves string) { return w.pass(span), w.moves() },
			"nights": func(n int, wall, awake time.Duration) string {
				var sum time.Duration
				for range n {
					w.wall += int64(wall)
					w.pass(awake)
					sum += w.moved[Forward]
				}
				return fmt.Sprintf("in all %v, in the last one %s", sum, w.moves())
			},
		}
	})
}

func TestNowIsThePresent(t *testing.T) {
	before := time.Now().UnixMilli()
	c := New()
	now := c.Now()
	if after := time.Now().UnixMilli(); now < before || now > after {
		t.Fatalf("%d is not between %d and %d", now, before, after)
	}
	if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Now()
	}
}
