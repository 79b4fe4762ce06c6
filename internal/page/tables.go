package page

import (
	"fmt"
	"strconv"
	"time"
)

func (d *document) lanesSection() {
	d.raw(
		`<section id="lanes" data-live class="card"><h2>Worker ids</h2><table role="table"><thead role="rowgroup"><tr `+
			`role="row">`,
		`<th role="columnheader" scope="col">worker id</th><th role="columnheader" scope="col">lease</th><th `+
			`role="columnheader" scope="col">window left</th>`,
		`<th role="columnheader" scope="col">ahead of clock</th><th role="columnheader" scope="col">for</th></tr></thead>`+
			`<tbody role="rowgroup">`)
	for i, l := range d.v.Lanes {
		d.lane(i, l)
	}
	d.raw(`</tbody></table>`)
	d.put(`<h3>Store</h3><dl class="facts"><div><dt>windows are recorded in</dt><dd>`, d.v.Store.said(), `</dd></div>`)
	for _, f := range d.v.Store.says() {
		d.fact(f.name, f.value)
	}
	d.raw(`</dl></section>`)
}

func (s *Store) said() string {
	switch s.Kind {
	case stateDirectory:
		return s.Where
	case noStore:
		return "nothing"
	}
	return s.Kind
}

// class is how the state of a lane looks.
func (l *Lane) class() markup {
	switch l.State {
	case "serving":
		return "good"
	case "degraded", "waiting", "acquiring":
		return "soon"
	}
	return "urgent"
}

func (d *document) cell(label markup, value string) {
	d.raw(`<td role="cell" data-label="`, label, `">`)
	d.put(``, value, `</td>`)
}

func (d *document) lane(i int, l Lane) {
	worker, ahead := "–", "–"
	if l.HasWorker {
		worker, ahead = number(l.Worker), span(max(0, l.RunAhead))
	}
	d.put(`<tr role="row"><th role="rowheader" scope="row" data-label="worker id">`, worker, ``)
	if len(d.v.Lanes) > 1 {
		d.put(` <small>lane `, strconv.Itoa(i), `</small>`)
	}
	d.raw(`</th><td role="cell" data-label="lease"><span class="state `, l.class(), `">`)
	d.put(``, l.State, `</span></td><td role="cell" data-label="window left">`)
	switch {
	case !l.HasWorker:
		d.raw(`–`)
	case l.Open:
		d.raw(`no end`)
	default:
		d.bar(l)
	}
	d.raw(`</td>`)
	d.cell("ahead of clock", ahead)
	d.cell("for", span(l.For.Truncate(time.Second)))
	d.raw(`</tr>`)
	if l.Reason != "" {
		d.put(`<tr role="row" class="reason"><td role="cell" colspan="5">`, l.Reason, `</td></tr>`)
	}
}

// bar shows how much of a window is left.
func (d *document) bar(l Lane) {
	share := 100.0
	if d.v.Store.Full > 0 {
		share = 100 * min(1, max(0, float64(l.Left)/float64(d.v.Store.Full)))
	}
	d.put(`<span class="left">`, span(l.Left.Truncate(100*time.Millisecond)), `</span> <svg class="bar `)
	d.raw(l.class(),
		`" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="8"/>`+
			`<rect class="fill" height="8" width="`)
	d.put(``, strconv.FormatFloat(share, 'f', 1, 64), `"/></svg>`)
}

func (d *document) namesSection() {
	d.raw(`<section id="names" data-live class="card"><h2>Names</h2>`)
	if len(d.v.Names) == 0 {
		d.raw(`<p class="hint">None is declared: every key gets an id of the default kind.</p></section>`)
		return
	}
	d.raw(
		`<table role="table"><thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">name</th><th `+
			`role="columnheader" scope="col">kind</th>`,
		`<th role="columnheader" scope="col">issued</th><th role="columnheader" scope="col">last</th><th `+
			`role="columnheader" scope="col">left</th><th role="columnheader" scope="col">leader</th></tr></thead><tbody `+
			`role="rowgroup">`)
	for i, n := range d.v.Names {
		if i == maxNames {
			break
		}
		d.name(n)
	}
	d.raw(`</tbody></table>`)
	if more := len(d.v.Names) - maxNames; more > 0 {
		d.put(`<p class="more">And `, number(uint64(more)), ` more: <code>stats generators</code> has them all.</p>`)
	}
	if len(d.v.Groups) > 0 {
		d.groups()
	}
	d.raw(`</section>`)
}

func (d *document) name(n Name) {
	class := markup("good")
	if n.Refusal != "" {
		class = "urgent"
	}
	d.raw(`<tr role="row"><th role="rowheader" scope="row" data-label="name"><span class="state `, class, `">`)
	d.put(``, n.Name, `</span></th>`)
	kind, last, left, leader := n.Kind, "–", "–", "–"
	if q := n.Sequence; q != nil {
		kind, last, left = kind+", "+q.Order, q.last(), lasts(q)
		if q.Leader != "" {
			leader = q.Leader
		}
	}
	d.cell("kind", kind)
	d.cell("issued", number(n.Issued))
	d.cell("last", last)
	d.cell("left", left)
	d.cell("leader", leader)
	d.raw(`</tr>`)
	if n.Refusal != "" {
		d.put(`<tr role="row" class="reason"><td role="cell" colspan="6">`, n.Refusal, `</td></tr>`)
	}
}

// last is the last value of a sequence, if it is shown.
func (q *Sequence) last() string {
	if q.Hidden {
		return "–"
	}
	return signed(q.Last)
}

// lasts says how long a sequence lasts.
func lasts(q *Sequence) string {
	values := ", " + signed(q.Left) + " values"
	if q.Hidden {
		values = ""
	}
	switch {
	case q.DaysLeft == 0:
		return "–" // its leader knows
	case q.DaysLeft >= farAway:
		return "plenty"
	case q.DaysLeft < 2:
		return span(time.Duration(q.DaysLeft*24*float64(time.Hour)).Truncate(time.Minute)) + values
	}
	return amount(q.DaysLeft) + " d" + values
}

func (d *document) groups() {
	d.put(`<h3>Leaders of sequences in strict order</h3><p class="hint">This daemon leads `, strconv.Itoa(d.v.Leading),
		` of 16 groups. Those of its own names:</p><dl class="facts">`)
	for _, g := range d.v.Groups {
		leader := g.Leader
		switch {
		case g.Mine:
			leader = "this daemon"
		case leader == "":
			leader = "none"
		}
		d.fact(fmt.Sprintf("group %d, term %s", g.Number, number(g.Term)), leader)
	}
	d.raw(`</dl>`)
}
