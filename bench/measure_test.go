package main

import (
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	var h, half histogram
	var all []int64
	for range 20000 {
		ns := int64(math.Exp(rng.Float64() * 24)) // up to 26 s, each magnitude as often
		all = append(all, ns)
		if len(all)%2 == 0 {
			h.add(ns, 1)
		} else {
			half.add(ns, 1)
		}
	}
	h.merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := float64(all[min(int(q*float64(len(all))), len(all)-1)])
		if got := float64(h.quantile(q)); math.Abs(got-want) > want/64+1 {
			t.Errorf("seed %d: quantile %v is %v, want about %v", seed, q, got, want)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	for i := range buckets {
		if low := lowest(i); bucket(low) != i || (i > 0 && bucket(low-1) != i-1) {
			t.Fatalf("bucket %d does not begin at %d", i, low)
		}
	}
	if bucket(-1) != 0 || bucket(math.MaxInt64) != buckets-1 {
		t.Error("a latency outside the range is not put at its end")
	}
}

// windowOf makes a sample with the given CPU microseconds per request.
func windowOf(micros float64) sample {
	return sample{answers: 1000, elapsed: 10 * time.Millisecond, cpu: time.Duration(micros * 1e6), generator: 1,
		waiting: 0.5,
		p50:     time.Microsecond, p99: 2 * time.Microsecond, p999: 3 * time.Microsecond}
}

// drifting is a run in which the machine doubled its speed halfway, and one window was disturbed.
func drifting() *results {
	r := &results{
		rounds: 6, window: 10 * time.Millisecond, servers: []string{"memcached", "redis", "katsubushi uring"},
		ours:    []string{"katsubushi uring"},
		windows: map[cell]map[int]sample{},
		idle:    map[string][]float64{"memcached": {600}, "katsubushi uring": {190, 210, 150}},
		machine: [][2]string{{"kernel", "of a test"}},
	}
	r.modes, _ = chooseModes("c64,pipelined,plain,tls,idle")
	for _, m := range []string{"c64", "pipelined", "plain", "tls"} {
		for i, s := range r.servers {
			r.windows[cell{m, s}] = map[int]sample{}
			for round := range 6 {
				speed := []float64{1, 1, 1, 2, 2, 2}[round]
				r.windows[cell{m, s}][round] = windowOf([]float64{8, 6, 5}[i] * speed)
			}
		}
	}
	return r
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	r := drifting()
	a, b := cell{"c64", "memcached"}, cell{"c64", "katsubushi uring"}
	delete(r.windows[b], 0) // no pair in this round
	if got := r.over(a, b, sample.cpuMicros); math.Abs(got-1.6) > 1e-9 {
		t.Errorf("ratio %v, want 1.6 whatever the machine did", got)
	}
	bad := windowOf(500)
	bad.foreign = 0.5
	r.windows[a][1], r.windows[a][2] = bad, bad
	if got := r.over(a, b, sample.cpuMicros); math.Abs(got-1.6) > 1e-9 {
		t.Errorf("ratio %v with disturbed windows, want 1.6", got)
	}
	if got := r.of(a, sample.cpuMicros); got != 16 {
		t.Errorf("median %v of the clean windows, want 16", got)
	}
	if got := r.over(a, cell{"c64", "nobody"}, sample.cpuMicros); !math.IsNaN(got) {
		t.Errorf("ratio to nothing is %v", got)
	}
}

func TestReportSaysWhatWasFound(t *testing.T) {
	var b strings.Builder
	if err := drifting().write(&b, "results.svg"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 64 connections, against memcached | 1.60x, reached (≥ 1.25) |",
		"| pipelined, against memcached | 1.60x, short (≥ 14.0) |",
		"| idle connection, RSS | 190 B, reached (≤ 200) |",
		"| get, 64 connections | 12.0 | 9.00 (1.33x) | 7.50 (1.60x) |",
		"| katsubushi uring | 7.50 | 7.50 | 1.00x |",
		"| get, 64 connections: memcached | 100000 |   | 12.0 | 1.00 µs | 2.00 µs | 3.00 µs |",
		"| kernel | of a test |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "NaN") {
		t.Errorf("NaN in\n%s", b.String())
	}
}

func TestAGeneratorAtItsLimitIsMarked(t *testing.T) {
	r := drifting()
	for round, s := range r.windows[cell{"c64", "memcached"}] {
		s.waiting, s.cpu = 0.01, s.elapsed/2
		r.windows[cell{"c64", "memcached"}][round] = s
	}
	var b strings.Builder
	r.write(&b, "")
	if !strings.Contains(b.String(), "get, 64 connections: memcached | 100000 ‡ |") {
		t.Errorf("not marked in\n%s", b.String())
	}
}

func TestChartIsXML(t *testing.T) {
	r := drifting()
	r.servers = append(r.servers, "a<b&c:11211")
	var b strings.Builder
	if err := r.writeChart(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	bars := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 1+2*3 { // the ground, and three servers in two modes
		t.Errorf("%d rectangles in\n%s", bars, b.String())
	}
}

func TestChooseModes(t *testing.T) {
	if _, err := chooseModes("c64,nonesuch"); err == nil || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("an unknown mode gave %v", err)
	}
	got, err := chooseModes("idle,c1")
	if err != nil || len(got) != 2 || got[0].name != "c1" {
		t.Errorf("got %v, %v", got, err)
	}
}
