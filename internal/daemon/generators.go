package daemon

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
)

// What operators see of the declared names: in `stats generators` and on /metrics.

// generatorStats adds the statistics of each name at now, Unix ms. They are called NAME:FIGURE; a
// figure's name has no colon.
func (d *Daemon) generatorStats(now int64, add func(name string, value any)) {
	for _, g := range d.catalog.Generators() {
		prefix := g.Name + ":"
		add(prefix+"kind", g.Kind)
		add(prefix+"issued", g.Issued())
		refusal, _ := refuses(g.From, now)
		add(prefix+"ready", refusal == nil)
		if refusal != nil {
			add(prefix+"not_ready_reason", refusal.Error())
		}
		if r, ok := g.From.(issuer.Reporter); ok {
			for _, f := range r.Facts() {
				add(prefix+f.Name, f.Value)
			}
		}
	}
}

// refuses returns why a name issues nothing at now, Unix ms, and whether that is for good: then no daemon could do
// better, and this one is ready without it.
func refuses(k issuer.Kind, now int64) (why error, forGood bool) {
	if err := k.Ready(now); err != nil {
		return err, false
	}
	if over, ok := k.(interface{ Over() error }); ok {
		why = over.Over()
	}
	return why, why != nil
}

// generators describes the declared names at now, Unix ms.
func (d *Daemon) generators(now int64) []metrics.Generator {
	var list []metrics.Generator
	for _, g := range d.catalog.Generators() {
		refusal, _ := refuses(g.From, now)
		m := metrics.Generator{Name: g.Name, Kind: g.Kind, Issued: g.Issued(), Ready: refusal == nil}
		if r, ok := g.From.(issuer.Reporter); ok {
			m.Facts = d.generatorFacts(r)
		}
		list = append(list, m)
	}
	return list
}

// generatorFacts returns the figures of a generator that are numbers, and that whoever reads /metrics may
// know.
func (d *Daemon) generatorFacts(r issuer.Reporter) (list []metrics.GeneratorFact) {
	for _, f := range r.Facts() {
		if d.logins != nil && issuer.TellsIDs(f.Name) {
			continue
		}
		value, count, ok := numeric(f.Value)
		if f.Name == "days_left" { // Prometheus has seconds
			f.Name, value = "time_left_seconds", value*(24*time.Hour).Seconds()
		}
		if ok {
			list = append(list, metrics.GeneratorFact{Name: f.Name, Help: f.Help, Value: value, Count: count})
		}
	}
	return list
}

// numeric returns a figure as metrics have it. A uint64 is a count, which only grows; texts are no
// numbers.
func numeric(figure any) (value float64, count, ok bool) {
	switch v := figure.(type) {
	case uint64:
		return float64(v), true, true
	case int64:
		return float64(v), false, true
	case float64:
		return v, false, true
	}
	return 0, false, false
}
