//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

var dialer net.Dialer

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
	all, hundred, one := key("client, ids", 1000), key("client, ids", 100), key("client, ids", 1)
	return []bar{
		{"1,000 goroutines, ids a second", r.median(all, rate), "", 1_000_000, false},
		{"1,000 goroutines, client's CPU per id, ns", r.median(all, clientCPU), "", 450, true},
		{"1,000 goroutines, server's CPU per id, ns", r.median(all, serverCPU), "", 100, true},
		{"1,000 goroutines, CPU of both sides: rueidis INCR against ours", ratio(key("rueidis INCR", 1000), all, both), "x",
			10, false},
		{"1,000 goroutines, CPU of both sides: gomemcache against ours", ratio(key("gomemcache", 1000), all, both), "x", 40,
			false},
		{"100 goroutines, CPU of both sides: rueidis INCR against ours", ratio(key("rueidis INCR", 100), hundred, both), "x",
			7, false},
		{"1 goroutine, client's CPU: ours against rueidis INCR", ratio(one, key("rueidis INCR", 1), clientCPU), "x", 1.1,
			true},
		{"1 goroutine, server's CPU: ours against rueidis INCR", ratio(one, key("rueidis INCR", 1), serverCPU), "x", 1.1,
			true},
		{"1,000 goroutines, prefetch, ids a second", r.median(key("client, ids, prefetch", 1000), rate), "", 6_000_000,
			false},
		{"1 goroutine, prefetch, ids a second", r.median(key("client, ids, prefetch", 1), rate), "", 12_000_000, false},
	}
}

// reportClients writes the section about clients.
func (r results) reportClients(how string) string {
	var b strings.Builder
	b.WriteString("## Go clients\n\nA program whose goroutines each take one id after the other: the package client, " +
		"gomemcache (as many connections as goroutines), and rueidis with\n" +
		"INCR on a redis that writes nothing. \"Prefetch\" is 10,000. CPU time is ns per id, of each side; the daemon has " +
		"four lanes.\n" +
		"`cd bench/client && go run . -into ../RESULTS.md` measures it.\n\n" + how)
	b.WriteString("| goroutines | client | ids/s | client's CPU | server's CPU |\n|---|---|---|---|---|\n")
	for _, c := range cases() {
		name, _, _ := strings.Cut(c.name, fmt.Sprintf(", %d", c.goroutines))
		fmt.Fprintf(&b, "| %d | %s | %.0f | %.0f | %.0f |\n", c.goroutines, name, r.median(c.name, rate),
			r.median(c.name, clientCPU), r.median(c.name, serverCPU))
	}
	writeBars(&b, r.bars())
	return b.String()
}

func writeBars(b *strings.Builder, bars []bar) {
	b.WriteString("\n| bar | figure | |\n|---|---|---|\n")
	for _, x := range bars {
		sign, reached := "≥", x.value >= x.limit
		if x.most {
			sign, reached = "≤", x.value <= x.limit
		}
		word := "short"
		if reached {
			word = "reached"
		}
		fmt.Fprintf(b, "| %s | %s%s | %s (%s %s) |\n", x.what, number(x.value), x.unit, word, sign, number(x.limit))
	}
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// replace puts a section into a file, in the place of the one that is there or at the end.
func replace(path string, s section, section string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(s.begin))
	if found {
		_, rest, _ = bytes.Cut(rest, []byte(s.end))
	} else {
		before = append(before, '\n')
	}
	return os.WriteFile(path, slices.Concat(before, []byte(s.begin+section+s.end), rest), 0o644)
}
