package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A sample is what one window found.
type sample struct {
	answers        uint64
	elapsed        time.Duration
	cpu            time.Duration // of the server; -1 if unknown
	p50, p99, p999 time.Duration
	waiting        float64 // share of the window in which the generator had nothing to read
	generator      float64 // share of the window in which the generator's threads had their cores
	foreign        float64 // share of the server's core that went to others, or to nobody's account
}

func (s sample) String() string {
	cpu := "server CPU unknown"
	if s.cpu >= 0 {
		cpu = fmt.Sprintf("server %.3f us/request, %.0f %% busy", s.cpuMicros(), 100*s.busy())
	}
	return fmt.Sprintf("%.0f requests/s, p50 %v, p99 %v, p99.9 %v, %s, generator waited %.0f %%", s.rate(), s.p50, s.p99,
		s.p999, cpu, 100*s.waiting)
}

// rate is in answers per second.
func (s sample) rate() float64 { return float64(s.answers) / s.elapsed.Seconds() }

// cpuMicros is the server's CPU time for one answer, NaN if unknown.
func (s sample) cpuMicros() float64 {
	if s.cpu < 0 {
		return math.NaN()
	}
	return s.cpu.Seconds() * 1e6 / float64(s.answers)
}

// busy is the share of the window in which the server had its core, NaN if unknown.
func (s sample) busy() float64 {
	if s.cpu < 0 {
		return math.NaN()
	}
	return s.cpu.Seconds() / s.elapsed.Seconds()
}

// disturbed tells that something else ran on the cores.
func (s sample) disturbed() bool { return s.generator < 0.95 || s.foreign > 0.15 }

// limited tells that the generator was the bottleneck: it had hardly a moment with nothing to do,
// and the server had many.
func (s sample) limited() bool { return s.waiting < 0.05 && s.busy() < 0.9 }

// Results are what a comparison found.
type results struct {
	machine [][2]string // what is known of the machine and the programs, by name
	modes   []mode
	servers []string
	ours    []string // those of the servers that are the daemon's
	window  time.Duration
	rounds  int
	// windows has a sample for each round in which a server's window was measured. Windows of one
	// round are neighbours in time.
	windows map[cell]map[int]sample
	idle    map[string][]float64 // bytes for a connection
	notes   []string
}

// A cell is one mode of one server.
type cell struct{ mode, server string }

const (
	reference = "memcached" // what everything is compared to
	enough    = 3           // undisturbed windows that make the others dispensable
)

// A figure is something that a sample tells, such as sample.rate.
type figure func(sample) float64

// median is NaN for nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// of is the median of a figure over a cell's windows, without those that were disturbed if enough
// others are left.
func (r *results) of(c cell, f figure) float64 {
	var clean, all []float64
	for _, s := range r.windows[c] {
		all = append(all, f(s))
		if !s.disturbed() {
			clean = append(clean, f(s))
		}
	}
	if len(clean) >= enough {
		return median(clean)
	}
	return median(all)
}

// over is the median of the figure of a divided by that of b, each pair from one round.
func (r *results) over(a, b cell, f figure) float64 {
	var clean, all []float64
	for round, sa := range r.windows[a] {
		sb, ok := r.windows[b][round]
		if !ok {
			continue
		}
		q := f(sa) / f(sb)
		all = append(all, q)
		if !sa.disturbed() && !sb.disturbed() {
			clean = append(clean, q)
		}
	}
	if len(clean) >= enough {
		return median(clean)
	}
	return median(all)
}

// count is how many of a cell's windows have a property.
func (r *results) count(c cell, is func(sample) bool) (n int) {
	for _, s := range r.windows[c] {
		if is(s) {
			n++
		}
	}
	return n
}

// measured tells whether a cell has any window.
func (r *results) measured(c cell) bool { return len(r.windows[c]) > 0 }
