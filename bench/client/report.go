//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

var dialer net.Dialer

// The section of the report begins and ends with these lines. bench keeps what is between them.
const (
	begin = "<!-- clients: written by bench/client -->\n"
	end   = "<!-- end of clients -->\n"
)

func rate(s sample) float64      { return s.rate }
func clientCPU(s sample) float64 { return s.client }
func serverCPU(s sample) float64 { return s.server }
func both(s sample) float64      { return s.client + s.server }

// A bar is what a figure has to reach.
type bar struct {
	what  string
	value float64
	unit  string
	limit float64
	most  bool
}

func (r results) bars() []bar {
	ratio := func(a, b string, of func(sample) float64) float64 { return r.median(a, of) / r.median(b, of) }
	ours, ours100, ours1 := key("client, ids", 1000), key("client, ids", 100), key("client, ids", 1)
	return []bar{
		{"1,000 goroutines, ids a second", r.median(ours, rate), "", 1_000_000, false},
		{"1,000 goroutines, client's CPU per id, ns", r.median(ours, clientCPU), "", 450, true},
		{"1,000 goroutines, server's CPU per id, ns", r.median(ours, serverCPU), "", 100, true},
		{"1,000 goroutines, CPU of both sides: rueidis INCR against ours", ratio(key("rueidis INCR", 1000), ours, both), "x", 10, false},
		{"1,000 goroutines, CPU of both sides: gomemcache against ours", ratio(key("gomemcache", 1000), ours, both), "x", 40, false},
		{"100 goroutines, CPU of both sides: rueidis INCR against ours", ratio(key("rueidis INCR", 100), ours100, both), "x", 7, false},
		{"1 goroutine, client's CPU: ours against rueidis INCR", ratio(ours1, key("rueidis INCR", 1), clientCPU), "x", 1.1, true},
		{"1 goroutine, server's CPU: ours against rueidis INCR", ratio(ours1, key("rueidis INCR", 1), serverCPU), "x", 1.1, true},
		{"1,000 goroutines, prefetch, ids a second", r.median(key("client, ids, prefetch", 1000), rate), "", 6_000_000, false},
		{"1 goroutine, prefetch, ids a second", r.median(key("client, ids, prefetch", 1), rate), "", 12_000_000, false},
	}
}

// report writes the section.
func (r results) report(rounds int, length time.Duration, ownCPU, theirCPU int) string {
	var b strings.Builder
	b.WriteString(begin)
	b.WriteString("## Go clients\n\nA program whose goroutines each take one id after the other: the package client, gomemcache (as many connections as goroutines), and rueidis with\n" +
		"INCR on a redis that writes nothing. \"Prefetch\" is 10,000. CPU time is ns per id, of each side; the daemon has four lanes.\n" +
		"`cd bench/client && go run . -into ../RESULTS.md` measures it.\n\n")
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Fprintf(&b, "Medians of %d rounds of %v, %s; client on CPU %d, servers on CPU %d; load average at the end %s.\n\n", rounds, length, time.Now().UTC().Format("2006-01-02 15:04 UTC"), ownCPU, theirCPU, strings.TrimSpace(string(load)))
	b.WriteString("| goroutines | client | ids/s | client's CPU | server's CPU |\n|---|---|---|---|---|\n")
	for _, c := range cases() {
		name, _, _ := strings.Cut(c.name, fmt.Sprintf(", %d", c.goroutines))
		fmt.Fprintf(&b, "| %d | %s | %.0f | %.0f | %.0f |\n", c.goroutines, name, r.median(c.name, rate), r.median(c.name, clientCPU), r.median(c.name, serverCPU))
	}
	b.WriteString("\n| bar | figure | |\n|---|---|---|\n")
	for _, x := range r.bars() {
		sign, reached := "≥", x.value >= x.limit
		if x.most {
			sign, reached = "≤", x.value <= x.limit
		}
		word := "short"
		if reached {
			word = "reached"
		}
		fmt.Fprintf(&b, "| %s | %s%s | %s (%s %s) |\n", x.what, number(x.value), x.unit, word, sign, number(x.limit))
	}
	b.WriteString(end)
	return b.String()
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// replace puts the section into a file, in the place of the one that is there or at the end.
func replace(path, section string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(begin))
	if found {
		_, rest, _ = bytes.Cut(rest, []byte(end))
	} else {
		before = append(before, '\n')
	}
	return os.WriteFile(path, append(append(before, section...), rest...), 0o644)
}
