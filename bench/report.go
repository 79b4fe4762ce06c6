package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// write writes the report as Markdown. chart is the name of the drawing beside it, or "".
func (r *results) write(w io.Writer, chart string) error {
	var b strings.Builder
	b.WriteString("# Id servers side by side\n\n")
	b.WriteString("Written by `go run ./bench`; see `go doc ./bench` for what is measured and how to repeat it. " +
		"Figures hold for this run on this machine: " +
		"compare within a row, never with another run.\n\n")
	if chart != "" {
		fmt.Fprintf(&b, "![Server CPU time per request, by mode and server](%s)\n\n", chart)
	}
	r.writeBars(&b)
	r.writeCPU(&b)
	r.writeIdle(&b)
	r.writeTLS(&b)
	r.writeDetails(&b)
	r.writeNotes(&b)
	b.WriteString("## Machine\n\n| | |\n|---|---|\n")
	for _, kv := range r.machine {
		row(&b, kv[0], kv[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func row(b *strings.Builder, cells ...string) {
	for i, c := range cells {
		if c == "" {
			cells[i] = " "
		}
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// header writes a table's first row and the rule under it; all columns but the first are numbers.
func header(b *strings.Builder, cells ...string) {
	row(b, cells...)
	b.WriteString("|---" + strings.Repeat("|---:", len(cells)-1) + "|\n")
}

// writeBars compares the daemon with what it is meant to reach.
func (r *results) writeBars(b *strings.Builder) {
	if len(r.ours) == 0 {
		return
	}
	b.WriteString("## The bar\n\nServer CPU time per request; 1.25x against memcached means that memcached takes 1.25 " +
		"times as much.\n\n")
	header(b, append([]string{""}, r.ours...)...)
	for _, bar := range bars() {
		cells := []string{bar.what}
		for _, s := range r.ours {
			cells = append(cells, bar.verdict(r, s))
		}
		if slices.ContainsFunc(cells[1:], func(s string) bool { return s != "" }) {
			row(b, cells...)
		}
	}
	b.WriteString("\n")
}

// writeCPU is the table that matters most.
func (r *results) writeCPU(b *strings.Builder) {
	fmt.Fprintf(b, "## Server CPU, microseconds per request\n\nMedians over %d rounds of %v windows; in brackets how "+
		"many times less than memcached, "+
		"the median over the rounds.\n\n", r.rounds, r.window)
	header(b, append([]string{""}, r.servers...)...)
	for _, m := range r.modes {
		if m.client != rawClient {
			continue
		}
		cells := []string{m.title}
		for _, s := range r.servers {
			c := cell{m.name, s}
			text := number(r.of(c, sample.cpuMicros))
			if q := r.over(cell{m.name, reference}, c, sample.cpuMicros); s != reference && !math.IsNaN(q) {
				text += fmt.Sprintf(" (%sx)", number(q))
			}
			cells = append(cells, text)
		}
		row(b, cells...)
	}
	b.WriteString("\nA redis is asked for INCR, but in the row of GET over RESP. Each katsubushi has four lanes. " +
		"memcached answers each `get` of a pipeline by itself, and all its `mg` at once.\n\n")
}

func (r *results) writeIdle(b *strings.Builder) {
	if len(r.idle) == 0 {
		return
	}
	i := slices.IndexFunc(r.modes, func(m mode) bool { return m.client == idleClient })
	fmt.Fprintf(b, "## Memory of an idle connection\n\nResident bytes for each of %d connections that asked once and "+
		"then kept still, in a fresh process.\n\n", r.modes[i].conns)
	header(b, "", "bytes")
	for _, s := range r.servers {
		if v, ok := r.idle[s]; ok {
			row(b, s, number(median(v)))
		}
	}
	b.WriteString("\n")
}

// writeTLS says what TLS costs, both sides through the same client.
func (r *results) writeTLS(b *strings.Builder) {
	begun := false
	for _, s := range r.servers {
		plain, tls := cell{"plain", s}, cell{"tls", s}
		q := r.over(tls, plain, sample.cpuMicros)
		if math.IsNaN(q) {
			continue
		}
		if !begun {
			begun = true
			b.WriteString("## TLS\n\nBoth columns through a client of one goroutine per connection, which costs more than " +
				"the server: compare these rows only with each other.\n\n")
			header(b, "64 connections, server CPU microseconds per request", "plain", "TLS", "TLS / plain")
		}
		row(b, s, number(r.of(plain, sample.cpuMicros)), number(r.of(tls, sample.cpuMicros)), number(q)+"x")
	}
	if begun {
		b.WriteString("\n")
	}
}

// writeDetails has a row for every server and mode.
func (r *results) writeDetails(b *strings.Builder) {
	b.WriteString("## All figures\n\nThroughput and latency are of a closed loop. ‡ the generator was the bottleneck, " +
		"so throughput and latency say nothing of the server. " +
		"\"Clean\" counts the windows in which nothing else ran on the two cores; if three or more are, the others are " +
		"left out of the medians.\n\n")
	header(b, "", "requests/s", "of memcached's", "CPU µs", "p50", "p99", "p99.9", "server busy", "generator waits",
		"clean")
	for _, m := range r.modes {
		for _, s := range r.servers {
			c := cell{m.name, s}
			if !r.measured(c) {
				continue
			}
			all := len(r.windows[c])
			rate := fmt.Sprintf("%.0f", r.of(c, sample.rate))
			if 2*r.count(c, sample.limited) > all {
				rate += " ‡"
			}
			busy, waits := percent(r.of(c, sample.busy)), percent(r.of(c, func(s sample) float64 { return s.waiting }))
			if m.client == goClient {
				waits = ""
			}
			relative := ""
			if s != reference {
				relative = percent(r.over(c, cell{m.name, reference}, sample.rate))
			}
			clean := all - r.count(c, sample.disturbed)
			row(b, m.title+": "+s, rate, relative, number(r.of(c, sample.cpuMicros)), r.latency(c, func(s sample) time.Duration {
				return s.p50
			}),
				r.latency(c, func(s sample) time.Duration { return s.p99 }), r.latency(c, func(s sample) time.Duration {
					return s.p999
				}),
				busy, waits, fmt.Sprintf("%d/%d", clean, all))
		}
	}
	b.WriteString("\n")
}

func percent(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*v)
}

// latency is the median of a quantile, in microseconds.
func (r *results) latency(c cell, f func(sample) time.Duration) string {
	return number(r.of(c, func(s sample) float64 { return f(s).Seconds() * 1e6 })) + " µs"
}

func (r *results) writeNotes(b *strings.Builder) {
	windows, disturbed := 0, 0
	for c := range r.windows {
		windows += len(r.windows[c])
		disturbed += r.count(c, sample.disturbed)
	}
	notes := r.notes
	if disturbed > 0 {
		notes = append(notes, fmt.Sprintf("In %d of %d windows something else ran on the two cores. Ratios between "+
			"neighbours survive that better than absolute figures, latencies hardly at all.", disturbed, windows))
	}
	if len(notes) == 0 {
		return
	}
	b.WriteString("## Notes\n\n")
	for _, n := range notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	b.WriteString("\n")
}
