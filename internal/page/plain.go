package page

import (
	"fmt"
	"strings"
	"time"
)

// plain returns the page as plain text, for curl.
func (d *document) plain() []byte {
	var b strings.Builder
	line := func(format string, args ...any) {
		for i, a := range args {
			if s, ok := a.(string); ok {
				args[i] = clean(s)
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	if d.asked != nil {
		d.plainAnswer(line)
		return []byte(b.String())
	}
	text, _ := d.state()
	line("katsubushi %s: %s", d.Version, text)
	line("worker id %s, host %s, engine %s, %s, up %s", d.workers(), d.Host, d.Engine, d.loops(), d.up())
	line("")
	if len(d.found) == 0 {
		line("Nothing is wrong.")
	}
	for _, f := range d.found {
		line("%s: %s", strings.ToUpper(f.Level.String()), f.What)
		line("  %s %s", f.Means, f.Do)
		if f.Command != "" {
			line("  $ %s", f.Command)
		}
		line("  /runbook#%s", anchor(f.Entry))
	}
	if d.more > 0 {
		line("And %d more of less urgency.", d.more)
	}
	line("")
	for _, c := range d.charts() {
		line("%-22s %12s   %s", c.title, c.now, c.detail)
	}
	line("")
	line("%-6s %-10s %-10s %-12s %-10s %s", "LANE", "WORKER ID", "LEASE", "WINDOW LEFT", "FOR", "REASON")
	for i, l := range d.Lanes {
		worker, left := "-", "-"
		if l.HasWorker {
			worker, left = number(l.Worker), l.left()
		}
		line("%-6d %-10s %-10s %-12s %-10s %s", i, worker, l.State, left, span(l.For.Truncate(time.Second)), l.Reason)
	}
	line("windows are recorded in %s", d.Store.name())
	for _, f := range d.Store.says() {
		line("  %s %s", f.name, f.value)
	}
	d.plainNames(line)
	d.plainFleet(line)
	d.plainClients(line)
	line("")
	for _, f := range d.details() {
		line("%-22s %s", f.name, f.value)
	}
	if len(d.Events) > 0 {
		line("")
	}
	for _, e := range d.lastEvents() {
		line("%s %-5s %s", d.when(e), e.Level, e.Text)
	}
	return []byte(b.String())
}

func (d *document) plainNames(line func(format string, args ...any)) {
	if len(d.Names) == 0 {
		return
	}
	line("")
	line("%-24s %-18s %14s %10s %8s %18s %20s %s", "NAME", "KIND", "ISSUED", "A SECOND", "REFUSED", "LATENCY", "LAST",
		"LEFT, LEADER")
	for _, n := range d.listed.names {
		last, rest := "-", ""
		if q := n.Sequence; q != nil {
			last, rest = q.last(), strings.TrimSpace(q.lasts()+" "+q.Leader)
		}
		line("%-24s %-18s %14s %10s %8s %18s %20s %s", n.Name, n.described(), number(n.Issued), d.rate(n), n.refused(),
			n.latency(), last, strings.TrimSpace(rest+" "+n.Refusal))
	}
	if text := d.listed.says(len(d.Names)); text != "" {
		line("%s (?q=part, ?sort=rate, ?page=2)", text)
	}
	for _, g := range d.Groups {
		line("group %d, term %d: leader %s", g.Number, g.Term, g.led())
	}
}

func (d *document) plainAnswer(line func(format string, args ...any)) {
	a := d.asked
	if a.Problem != "" {
		line("%s", a.Problem)
		return
	}
	for i := range a.Readings {
		r := &a.Readings[i]
		if r.Time == nil {
			line("%s: %s, random", r.Text, r.Kind)
			continue
		}
		line("%s: %s, layout %s", r.Text, r.Kind, r.Layout)
		line("  time       %s", r.Time.Format(utc))
		line("  here       %s", r.Time.In(d.Now.Location()).Format(zoned))
		line("  age        %s", r.age(d.Now))
		line("  worker id  %d%s", *r.WorkerID, d.owner(*r.WorkerID))
		line("  sequence   %d", *r.Sequence)
		if r.Doubt != "" {
			line("  %s", r.Doubt)
		}
	}
	for _, name := range a.Values {
		line("It may also be a value of the sequence %s.", name)
	}
}
