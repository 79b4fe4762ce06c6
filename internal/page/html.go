package page

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

const (
	maxNames = 100 // that the page shows; `stats generators` has all
	// MaxEvents is how many events the page shows, the newest first.
	MaxEvents = 20
)

// html writes the whole document, or what of it changes by itself.
func (d *document) html() {
	if d.live {
		d.raw("<!doctype html><title>katsubushi</title>")
		d.top()
		for _, part := range []func(){d.findingsSection, d.chartsSection, d.lanesSection, d.namesSection, d.detailsSection,
			d.eventsSection} {
			part()
		}
		return
	}
	d.raw("<!doctype html>\n",
		`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`,
		`<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">`)
	d.put(`<title>`, d.title(), `</title>`)
	d.put(`<link rel="icon" href="data:image/svg+xml;base64,`, base64.StdEncoding.EncodeToString([]byte(icon)), `">`)
	d.raw(`<style>`, css, `</style></head><body>`)
	d.raw(`<a class="skip" href="#inspector">Skip to the inspector</a>`)
	d.top()
	d.raw(`<main>`)
	d.raw(`<p id="silent" role="status" hidden></p>`)
	d.findingsSection()
	d.chartsSection()
	d.raw(`<div class="column">`)
	d.lanesSection()
	d.namesSection()
	d.raw(`</div><div class="column">`)
	d.inspector()
	d.detailsSection()
	d.raw(`</div>`)
	d.eventsSection()
	d.raw(
		`</main><footer><a href="metrics">Metrics</a><a href="stats">Statistics</a><a href="readyz">Readiness</a><span>` +
			`katsubushi `)
	d.put(``, d.v.Version, `</span></footer><script>`)
	d.raw(script, `</script></body></html>`, "\n")
}

func (d *document) title() string {
	text, _ := d.state()
	return text + " · katsubushi " + d.v.workers() + " · " + d.v.Host
}

// top is the line that says which daemon this is, and how it is.
func (d *document) top() {
	text, class := d.state()
	d.put(`<header id="top" data-live data-title="`, d.title(), `">`)
	d.raw(
		`<div class="name"><svg viewBox="0 0 32 32" aria-hidden="true"><path class="flake" d="M4 22C6 12 14 5 28 4c-1 5-4 ` +
			`8-8 9 3 0 5 0 7-1-3 6-8 9-14 9 2 1 4 2 7 2-5 4-11 4-16-1z"/><path class="vein" d="M7 21c4-7 9-11 17-14-6 5-10 ` +
			`9-14 14z"/></svg><h1>katsubushi</h1></div>`)
	d.raw(`<p class="pill `, class, `">`)
	d.put(``, text, `</p><dl class="facts">`)
	d.fact("worker id", d.v.workers())
	d.fact("host", d.v.Host)
	d.fact("version", d.v.Version)
	d.fact("engine", d.v.Engine+", "+loops(d.v.Loops))
	d.fact("up", span(d.v.Now.Sub(d.v.Started).Truncate(time.Second)))
	d.put(`</dl><p class="asof"><span>as of <time>`, d.v.Now.Format(clockTime),
		`</time></span><button type="button" id="pause" hidden>Pause</button></p></header>`)
}

func loops(n int) string {
	if n == 1 {
		return "1 loop"
	}
	return strconv.Itoa(n) + " loops"
}

func (d *document) fact(name, value string) {
	d.put(`<div><dt>`, name, `</dt>`)
	d.put(`<dd>`, value, `</dd></div>`)
}

func (d *document) findingsSection() {
	d.raw(`<section id="findings" data-live aria-label="What is wrong">`)
	if len(d.found) == 0 {
		d.raw(`<p class="fine"><span class="dot good" aria-hidden="true"></span>Nothing is wrong.</p>`)
	} else {
		d.raw(`<ol>`)
		for _, f := range d.found {
			d.finding(f)
		}
		d.raw(`</ol>`)
	}
	if d.more > 0 {
		d.put(`<p class="more">And `, strconv.Itoa(d.more), ` more of less urgency.</p>`)
	}
	d.raw(`</section>`)
}

// class is how a level looks.
func (l Level) class() markup { return [...]markup{"urgent", "soon", "note"}[l] }

func (d *document) finding(f Finding) {
	d.raw(`<li class="finding `, f.Level.class(), `"><p class="what"><span class="level">`)
	d.put(``, f.Level.String(), `</span> `)
	d.put(`<strong>`, f.What, `</strong></p>`)
	d.put(`<p>`, f.Means, ` `)
	d.put(`<span class="do">`, f.Do, `</span></p>`)
	if f.Command != "" {
		d.put(`<pre><code>`, f.Command, `</code></pre>`)
	}
	d.raw(`</li>`)
}

func (d *document) chartsSection() {
	d.raw(`<section id="charts" data-live aria-label="The last 10 minutes">`)
	for _, c := range d.charts() {
		d.chart(c)
	}
	d.raw(`</section>`)
}

// charts returns what is drawn.
func (d *document) charts() []chart {
	ids := rates(d.samples, d.v.Now, func(s *Sample) uint64 { return s.IDs })
	requests := rates(d.samples, d.v.Now, func(s *Sample) uint64 { return s.Requests })
	connections := levels(d.samples, d.v.Now, func(s *Sample) float64 { return float64(s.Connections) })
	last := func(p []point) string {
		if len(p) == 0 {
			return "–"
		}
		return amount(p[len(p)-1].value)
	}
	refused := uint64(0)
	for t, n := range growth(d.samples, &d.v.Sample, time.Minute) {
		if Trouble(t) <= NamesRefused {
			refused += n
		}
	}
	limit := "no limit"
	if d.v.ConnectionsLimit > 0 {
		limit = "limit " + signed(d.v.ConnectionsLimit)
	}
	all := []chart{
		{id: "ids", title: "ids a second", now: last(ids), detail: number(d.v.IDs) + " since the start", points: ids,
			show: amount},
		{id: "requests", title: "requests a second", now: last(requests),
			detail: number(refused) + " refused in the last minute", points: requests, show: amount},
		{id: "connections", title: "connections", now: signed(d.v.Connections), detail: limit, points: connections,
			show: whole},
	}
	return append(all, d.latency())
}

// latency charts the time until a request was answered.
func (d *document) latency() chart {
	c := chart{id: "latency", title: "latency, p99", now: "–", detail: "no requests in the last minute", show: seconds}
	// Where there were no answers the line is at 0: without a point it would lead from the last answers to
	// the next ones, however long ago those were.
	if n := len(d.samples); n > 0 && d.samples[n-1].Latency != nil {
		c.points = levels(d.samples[1:], d.v.Now, func(s *Sample) float64 { return s.p99.Seconds() })
	}
	s := lastMinute(d.samples, &d.v.Sample)
	switch {
	case s == nil:
		c.detail = "not measured yet"
	case s.Count() > 0:
		c.now = span(s.Quantile(0.99))
		c.detail = "p50 " + span(s.Quantile(0.5)) + " · p99.9 " + span(s.Quantile(0.999)) + ", last minute"
	}
	return c
}

// whole writes a value of a chart that is a whole number.
func whole(v float64) string { return signed(int64(v)) }

// seconds writes a value of a chart that is a duration.
func seconds(v float64) string { return span(time.Duration(v * float64(time.Second))) }

func (d *document) inspector() {
	d.raw(`<section id="inspector" class="card"><h2>Inspector</h2><form method="get" action="?" role="search">`,
		`<label for="id">What an id says</label><div class="row"><input id="id" name="id" type="text" inputmode="text" `+
			`autocomplete="off" autocapitalize="off" spellcheck="false" maxlength="64" aria-describedby="hint" value="`)
	if d.asked != nil {
		d.text(d.asked.Text)
	}
	d.raw(
		`"><button type="submit">Inspect</button></div><p id="hint" class="hint">A snowflake, UUID, ULID or ObjectID of ` +
			`this daemon.</p></form>`)
	if a := d.asked; a != nil {
		d.raw(`<div id="answer" role="status">`)
		if a.Problem != "" {
			d.put(`<p class="problem">`, a.Problem, `</p>`)
		}
		for i := range a.Readings {
			d.reading(a, &a.Readings[i])
		}
		for _, name := range a.Values {
			d.put(`<p class="hint">The number may also be a value of the sequence <strong>`, name,
				`</strong>, which says no time.</p>`)
		}
		d.raw(`</div>`)
	}
	d.raw(`</section>`)
}

func (d *document) reading(a *answer, r *reading) {
	if len(a.Readings) > 1 {
		d.put(`<h3>In the layout `, r.Layout, `</h3>`)
	}
	d.raw(`<dl class="facts wide">`)
	kind := r.Kind
	if r.Kind == "snowflake" {
		kind += ", layout " + r.Layout
	}
	if r.Time == nil {
		d.fact("kind", kind+": random, it says no time")
		d.raw(`</dl>`)
		return
	}
	if r.Layout == d.v.Layout.String() {
		d.fact("kind", kind)
	}
	d.put(`<div><dt>time</dt><dd><time datetime="`, r.Time.Format(time.RFC3339Nano), `">`)
	d.put(``, r.Time.Format(utc), `</time></dd></div>`)
	if r.Layout == d.v.Layout.String() { // once is enough
		d.fact("on this host", r.Time.In(d.v.Now.Location()).Format(zoned))
		d.raw(`<div class="local" hidden><dt>in this browser</dt><dd></dd></div>`)
		d.fact("age", r.age(d.v.Now))
	}
	d.fact("worker id", number(*r.WorkerID)+d.v.owner(*r.WorkerID))
	d.fact("sequence", number(*r.Sequence))
	d.raw(`</dl>`)
	if r.Kind == "snowflake" {
		d.bits(r)
	}
	if r.Doubt != "" {
		d.put(`<p class="problem">`, r.Doubt, `</p>`)
	}
}

// owner says whether a worker id is one of this daemon's.
func (v *View) owner(worker uint64) string {
	for _, l := range v.Lanes {
		if l.HasWorker && l.Worker == worker {
			return " (this daemon has it now)"
		}
	}
	return ""
}

// bits shows the 64 bits, each part in its colour.
func (d *document) bits(r *reading) {
	d.raw(`<p class="bits" aria-hidden="true">`)
	classes := [4]markup{"rest", "tick", "worker", "sequence"}
	for _, l := range append(d.v.Others, d.v.Layout) {
		if l.String() == r.Layout && l.WorkerLow {
			classes[2], classes[3] = classes[3], classes[2]
		}
	}
	for i, part := range r.Bits {
		d.raw(`<span class="`, classes[i], `">`)
		d.put(``, part, `</span>`)
	}
	d.raw(
		`</p><p class="legend" aria-hidden="true"><span class="tick">time</span><span class="worker">worker id</span>` +
			`<span class="sequence">sequence</span></p>`)
}

func (d *document) detailsSection() {
	d.raw(`<section id="details" data-live class="card"><h2>Clock, layout, process</h2><dl class="facts wide">`)
	for _, f := range d.details() {
		d.fact(f.name, f.value)
	}
	d.raw(`</dl></section>`)
}

// details are the figures without a table of their own.
func (d *document) details() []fact {
	v := &d.v
	l := v.Layout
	left := time.UnixMilli(l.End()).Sub(v.Now)
	list := []fact{
		{"wall clock − id clock", ms(v.ClockDifference)},
		{"layout", l.String() + ": bits of " + bitsOf(l)},
		{"epoch", time.UnixMilli(l.Epoch).UTC().Format(time.RFC3339)},
		{"time field",
			number(uint64(max(0, left/(24*time.Hour)))) + " days left, until " +
				time.UnixMilli(l.End()).UTC().Format(time.DateOnly)},
		{"started", v.Started.In(v.Now.Location()).Format(fullTime)},
		{"buffers", size(v.Buffers) + buffersLimit(v.BuffersLimit)},
	}
	for _, p := range v.Ports {
		list = append(list, fact{p.Name + " port", p.Address})
	}
	if !v.Certificate.IsZero() {
		list = append(list, fact{"certificate", "valid until " + v.Certificate.UTC().Format(time.DateOnly)})
	}
	if v.Peers > 0 {
		list = append(list,
			fact{"other daemons",
				fmt.Sprintf("%d announced, %d of %d answered the check of clocks", v.Peers, v.Told, v.PeersAsked)})
	}
	return list
}

// bitsOf says how many bits the parts of an id have, in their order.
func bitsOf(l generator.Layout) string {
	if l.WorkerLow {
		return fmt.Sprintf("time %d, sequence %d, worker %d", l.TimeBits, l.SequenceBits, l.WorkerBits)
	}
	return fmt.Sprintf("time %d, worker %d, sequence %d", l.TimeBits, l.WorkerBits, l.SequenceBits)
}

// ms writes the difference of two clocks, with its sign.
func ms(d time.Duration) string {
	d = d.Round(time.Millisecond)
	switch {
	case d == 0:
		return "0 ms"
	case d > 0:
		return "+" + span(d)
	}
	return span(d)
}

func buffersLimit(n int64) string {
	if n == 0 {
		return ", no limit"
	}
	return " of " + size(n)
}

func (d *document) eventsSection() {
	d.raw(`<section id="events" data-live class="card"><h2>Last events</h2>`)
	if len(d.v.Events) == 0 {
		d.raw(`<p class="hint">Nothing has happened since the start.</p></section>`)
		return
	}
	d.raw(`<ol>`)
	for i, e := range d.v.Events {
		if i == MaxEvents {
			break
		}
		class := markup("info")
		switch e.Level {
		case "WARN":
			class = "soon"
		case "ERROR":
			class = "urgent"
		}
		d.raw(`<li class="`, class, `">`)
		d.put(`<time datetime="`, e.At.Format(time.RFC3339Nano), `">`)
		d.put(``, eventTime(e.At.In(d.v.Now.Location()), d.v.Now), `</time> `)
		d.put(`<span class="level">`, e.Level, `</span> `)
		d.put(`<span class="said">`, e.Text, `</span></li>`)
	}
	d.raw(`</ol></section>`)
}

// eventTime leaves the date out if it is today's.
func eventTime(at, now time.Time) string {
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(clockTime)
	}
	return at.Format("01-02 " + clockTime)
}
