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
	v := &d.v
	text, _ := d.state()
	line("katsubushi %s: %s", v.Version, text)
	line("worker id %s, host %s, engine %s, %s, up %s", v.workers(), v.Host, v.Engine, loops(v.Loops),
		span(v.Now.Sub(v.Started).Truncate(time.Second)))
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
	for i, l := range v.Lanes {
		worker, left := "-", "-"
		if l.HasWorker {
			worker, left = number(l.Worker), span(l.Left.Truncate(100*time.Millisecond))
		}
		if l.HasWorker && l.Open {
			left = "no end"
		}
		line("%-6d %-10s %-10s %-12s %-10s %s", i, worker, l.State, left, span(l.For.Truncate(time.Second)), l.Reason)
	}
	line("windows are recorded in %s", v.Store.said())
	for _, f := range v.Store.says() {
		line("  %s %s", f.name, f.value)
	}
	d.plainNames(line)
	line("")
	for _, f := range d.details() {
		line("%-22s %s", f.name, f.value)
	}
	if len(v.Events) > 0 {
		line("")
	}
	for i, e := range v.Events {
		if i == MaxEvents {
			break
		}
		line("%s %-5s %s", eventTime(e.At.In(v.Now.Location()), v.Now), e.Level, e.Text)
	}
	return []byte(b.String())
}

func (d *document) plainNames(line func(format string, args ...any)) {
	if len(d.v.Names) == 0 {
		return
	}
	line("")
	line("%-24s %-18s %14s %20s %s", "NAME", "KIND", "ISSUED", "LAST", "LEFT, LEADER")
	for i, n := range d.v.Names {
		if i == maxNames {
			line("and %d more", len(d.v.Names)-maxNames)
			break
		}
		kind, last, rest := n.Kind, "-", ""
		if q := n.Sequence; q != nil {
			kind, last, rest = kind+", "+q.Order, q.last(), strings.TrimSpace(lasts(q)+" "+q.Leader)
		}
		line("%-24s %-18s %14s %20s %s", n.Name, kind, number(n.Issued), last, strings.TrimSpace(rest+" "+n.Refusal))
	}
	for _, g := range d.v.Groups {
		leader := g.Leader
		switch {
		case g.Mine:
			leader = "this daemon"
		case leader == "":
			leader = "none"
		}
		line("group %d, term %d: leader %s", g.Number, g.Term, leader)
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
		line("  here       %s", r.Time.In(d.v.Now.Location()).Format(zoned))
		line("  age        %s", r.age(d.v.Now))
		line("  worker id  %d%s", *r.WorkerID, d.v.owner(*r.WorkerID))
		line("  sequence   %d", *r.Sequence)
		if r.Doubt != "" {
			line("  %s", r.Doubt)
		}
	}
	for _, name := range a.Values {
		line("It may also be a value of the sequence %s.", name)
	}
}
