package page

import (
	_ "embed" // the files beside this one
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clients"
	"github.com/katsubushi/katsubushi/v3/internal/fleet"
)

var (
	//go:embed page.html
	template string
	//go:embed page.css
	css markup
	//go:embed page.js
	script markup
	//go:embed icon.svg
	icon string
)

// MaxEvents is how many events the page shows, the newest first.
const MaxEvents = 20

// pageTemplate is page.html and what it includes, without the line breaks and the indentation, which are there for
// readers.
var pageTemplate = sync.OnceValue(func() string {
	whole := strings.NewReplacer("{{>fleet}}", fleetTemplate, "{{>clients}}", clientsTemplate).Replace(template)
	var b strings.Builder
	for line := range strings.SplitSeq(whole, "\n") {
		b.WriteString(strings.TrimLeft(line, " \t"))
	}
	return b.String()
})

// A document is the answer to one request.
type document struct {
	View
	samples []Sample
	found   []Finding
	more    int // findings that are left out
	live    bool
	asked   *answer       // nil = no id was asked for
	listed  listing       // of the names
	fleet   *fleet.Roster // nil = the daemons are not announced
	clients *clients.Top  // nil = they are not shown
}

// html returns the whole document, or what of it changes by itself.
func (d *document) html() []byte {
	f := fields{
		"whole": !d.live, "newline": markup("\n"), "css": css, "script": script,
		"icon":  base64.StdEncoding.EncodeToString([]byte(icon)),
		"title": d.title(), "now": d.Now.Format(clockTime), "version": d.Version,
		"identity": facts(d.identity()), "details": facts(d.details()),
		"findings": each(d.found, Finding.fields), "more": left(d.more),
		"charts": each(d.charts(), chart.fields),
		"lanes":  d.lanes(), "store": d.Store.name(), "of store": facts(d.Store.says()),
		"groups": each(d.Groups, Group.fields), "leading": strconv.Itoa(d.Leading),
		"events": each(d.lastEvents(), d.event),
	}
	f["state"], f["class"] = d.state()
	f["run"], f["began"] = strconv.FormatInt(d.Started.UnixNano(), 36), d.Started.Format(time.RFC3339)
	d.inspected(f)
	d.listed.fields(d, f)
	d.fleetFields(f)
	d.clientFields(f)
	var w writer
	w.fill(pageTemplate(), f)
	return w.b
}

// each returns the fields of each element of a list.
func each[T any](list []T, of func(T) fields) (all []fields) {
	for _, one := range list {
		all = append(all, of(one))
	}
	return all
}

func facts(list []fact) []fields {
	return each(list, func(f fact) fields { return fields{"name": f.name, "value": f.value} })
}

// left writes how many are not shown; empty = all are.
func left(n int) string {
	if n <= 0 {
		return ""
	}
	return number(uint64(n))
}

func (f Finding) fields() fields {
	return fields{"class": [...]string{"urgent", "soon", "note"}[f.Level], "level": f.Level.String(), "what": f.What,
		"means": f.Means, "do": f.Do, "command": f.Command, "entry": "runbook#" + anchor(f.Entry)}
}

func (d *document) lanes() (list []fields) {
	for i, l := range d.Lanes {
		f := fields{"worker": "–", "number": "", "class": l.class(), "state": l.State, "left": "–", "width": "",
			"ahead": "–", "for": span(l.For.Truncate(time.Second)), "reason": l.Reason}
		if len(d.Lanes) > 1 {
			f["number"] = strconv.Itoa(i)
		}
		if l.HasWorker {
			f["worker"], f["ahead"], f["left"] = number(l.Worker), span(max(0, l.RunAhead)), l.left()
			if !l.Open {
				f["width"] = d.width(l)
			}
		}
		list = append(list, f)
	}
	return list
}

// class is how the state of a lane looks.
func (l Lane) class() string {
	switch l.State {
	case "serving":
		return "good"
	case "degraded", "waiting", "acquiring":
		return "soon"
	}
	return "urgent"
}

// left is how long the window of a lane with a worker id still is.
func (l Lane) left() string {
	if l.Open {
		return "no end"
	}
	return span(l.Left.Truncate(100 * time.Millisecond))
}

// width is that of the bar that shows how much of a window is left, in percent.
func (d *document) width(l Lane) string {
	share := 100.0
	if d.Store.Full > 0 {
		share = 100 * min(1, max(0, float64(l.Left)/float64(d.Store.Full)))
	}
	return strconv.FormatFloat(share, 'f', 1, 64)
}

func (g Group) fields() fields {
	return fields{"name": fmt.Sprintf("group %d, term %s", g.Number, number(g.Term)), "value": g.led()}
}

func (d *document) event(e Event) fields {
	class := "info"
	switch e.Level {
	case "WARN":
		class = "soon"
	case "ERROR":
		class = "urgent"
	}
	return fields{"class": class, "exactly": e.At.Format(time.RFC3339Nano), "at": d.when(e), "level": e.Level,
		"said": e.Text}
}

// inspected adds what was asked of the inspector, and what it says.
func (d *document) inspected(f fields) {
	a := d.asked
	f["answer"] = a != nil
	if a == nil {
		a = new(answer)
	}
	f["asked"], f["problem"] = a.Text, a.Problem
	f["values"] = each(a.Values, func(name string) fields { return fields{"name": name} })
	f["readings"] = each(a.Readings, func(r reading) fields {
		heading := ""
		if len(a.Readings) > 1 {
			heading = r.Layout
		}
		return r.fields(d, heading)
	})
}

func (r reading) fields(d *document, heading string) fields {
	f := fields{"heading": heading, "kind": r.Kind, "time": "", "here": "", "doubt": r.Doubt, "bits": facts(r.Bits)}
	if r.Time == nil {
		f["kind"] = r.Kind + ": random, it says no time"
		return f
	}
	f["exactly"], f["time"] = r.Time.Format(time.RFC3339Nano), r.Time.Format(utc)
	f["worker"], f["sequence"] = number(*r.WorkerID)+d.owner(*r.WorkerID), number(*r.Sequence)
	switch {
	case r.Layout != d.Layout.String(): // once is enough
		f["kind"] = ""
		return f
	case r.Bits != nil:
		f["kind"] = r.Kind + ", layout " + r.Layout
	}
	f["here"], f["age"] = r.Time.In(d.Now.Location()).Format(zoned), r.age(d.Now)
	return f
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

// state says in two or three words what the daemon does, and how a reader should take it.
func (d *document) state() (text, class string) {
	switch {
	case d.Stopping:
		return "shutting down", "note"
	case d.NotReady != "":
		return "not issuing ids", "urgent"
	case d.NoStrict != "" || d.Restart != "":
		return "not ready", "urgent"
	}
	return "issuing ids", "good"
}

func (d *document) title() string {
	text, _ := d.state()
	return text + " · katsubushi " + d.workers() + " · " + d.Host
}

// identity says which daemon this is.
func (d *document) identity() []fact {
	return []fact{{"worker id", d.workers()}, {"host", d.Host}, {"version", d.Version},
		{"engine", d.Engine + ", " + d.loops()}, {"up", d.up()}}
}

func (d *document) loops() string { return counted(uint64(d.Loops), "loop", "loops") }

func (d *document) up() string { return span(d.Now.Sub(d.Started).Truncate(time.Second)) }

// charts returns what is drawn.
func (d *document) charts() []chart {
	ids := rates(d.samples, d.Now, func(s *Sample) uint64 { return s.IDs })
	requests := rates(d.samples, d.Now, func(s *Sample) uint64 { return s.Requests })
	connections := levels(d.samples, d.Now, func(s *Sample) float64 { return float64(s.Connections) })
	last := func(p []point) string {
		if len(p) == 0 {
			return "–"
		}
		return amount(p[len(p)-1].value)
	}
	refused := uint64(0)
	for t, n := range growth(d.samples, &d.Sample, time.Minute) {
		if Trouble(t) <= NamesRefused {
			refused += n
		}
	}
	limit := "no limit"
	if d.ConnectionsLimit > 0 {
		limit = "limit " + signed(d.ConnectionsLimit)
	}
	return []chart{
		{id: "ids", title: "ids a second", now: last(ids), detail: number(d.IDs) + " since the start", points: ids,
			show: amount},
		{id: "requests", title: "requests a second", now: last(requests),
			detail: number(refused) + " refused in the last minute", points: requests, show: amount},
		{id: "connections", title: "connections", now: signed(d.Connections), detail: limit, points: connections,
			show: func(v float64) string { return signed(int64(v)) }},
		d.latency(),
	}
}

// latency charts the time until a request was answered.
func (d *document) latency() chart {
	c := chart{id: "latency", title: "latency, p99", now: "–", detail: "no requests in the last minute",
		show: func(v float64) string { return span(time.Duration(v * float64(time.Second))) }}
	// Where there were no answers the line is at 0: without a point it would lead from the last answers to
	// the next ones, however long ago those were.
	if n := len(d.samples); n > 0 && d.samples[n-1].Latency != nil {
		c.points = levels(d.samples[1:], d.Now, func(s *Sample) float64 { return s.p99.Seconds() })
	}
	s := lastMinute(d.samples, &d.Sample)
	switch {
	case s == nil:
		c.detail = "not measured yet"
	case s.Count() > 0:
		c.now = span(s.Quantile(0.99))
		c.detail = "p50 " + span(s.Quantile(0.5)) + " · p99.9 " + span(s.Quantile(0.999)) + ", last minute"
	}
	return c
}

func (d *document) lastEvents() []Event { return d.Events[:min(len(d.Events), MaxEvents)] }

// when says when an event was. The date is left out if it is today's.
func (d *document) when(e Event) string {
	at := e.At.In(d.Now.Location())
	if at.Format(time.DateOnly) == d.Now.Format(time.DateOnly) {
		return at.Format(clockTime)
	}
	return at.Format("01-02 " + clockTime)
}

// details are the figures without a table of their own.
func (d *document) details() []fact {
	l := d.Layout
	end := time.UnixMilli(l.End())
	buffers := size(d.Buffers) + ", no limit"
	if d.BuffersLimit > 0 {
		buffers = size(d.Buffers) + " of " + size(d.BuffersLimit)
	}
	list := []fact{
		{"wall clock − id clock", ms(d.ClockDifference)},
		{"layout", l.String() + ": bits of " + bitsOf(l)},
		{"epoch", time.UnixMilli(l.Epoch).UTC().Format(time.RFC3339)},
		{"time field",
			number(uint64(max(0, end.Sub(d.Now)/(24*time.Hour)))) + " days left, until " + end.UTC().Format(time.DateOnly)},
		{"started", d.Started.In(d.Now.Location()).Format("2006-01-02 15:04:05 MST")},
		{"buffers", buffers},
	}
	list = append(list, d.processFacts()...)
	for _, p := range d.Ports {
		list = append(list, fact{p.Name + " port", p.Address})
	}
	if !d.Certificate.IsZero() {
		list = append(list, fact{"certificate", "valid until " + d.Certificate.UTC().Format(time.DateOnly)})
	}
	if d.Peers > 0 {
		list = append(list,
			fact{"other daemons",
				fmt.Sprintf("%d announced, %d of %d answered the check of clocks", d.Peers, d.Told, d.PeersAsked)})
	}
	return list
}

// bitsOf says how many bits the parts of an id have, in their order.
func bitsOf(l generator.Layout) string {
	switch {
	case l.WorkerLow:
		return fmt.Sprintf("time %d, sequence %d, worker %d", l.TimeBits, l.SequenceBits, l.WorkerBits)
	case l.WorkerHigh:
		return fmt.Sprintf("worker %d, time %d, sequence %d", l.WorkerBits, l.TimeBits, l.SequenceBits)
	}
	return fmt.Sprintf("time %d, worker %d, sequence %d", l.TimeBits, l.WorkerBits, l.SequenceBits)
}

// ms writes the difference of two clocks, with its sign.
func ms(d time.Duration) string {
	switch d = d.Round(time.Millisecond); {
	case d == 0:
		return "0 ms"
	case d > 0:
		return "+" + span(d)
	}
	return span(d)
}
