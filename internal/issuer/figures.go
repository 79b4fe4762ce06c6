package issuer

import (
	"errors"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// What operators see of the declared names: in `stats generators` and on /metrics.

// nameFigures emits the figures of a name at now, Unix ms.
func nameFigures(g *Name, now int64, emit func(figure.Figure)) {
	refusal, _ := Refuses(g.From, now)
	if IsRetirement(refusal) {
		emit = onlyCounts(emit)
	}
	emit(figure.Figure{Stat: "kind", Value: g.Kind})
	emit(figure.Figure{
		Stat: "issued", Metric: "generator_issued_total", Value: g.Issued(), Count: true,
		Help: "Ids issued under a declared name.",
	})
	emit(figure.Figure{
		Stat: "ready", Metric: "generator_ready", Value: refusal == nil,
		Help: "1 while a declared name issues ids; 0 also for a sequence that has ended. One that is retired has none.",
		Worry: "0 for more than a minute: clients of this name get errors, although `katsubushi_ready` may be 1; " +
			"`stats generators` says why",
	})
	if refusal != nil {
		emit(figure.Figure{Stat: "not_ready_reason", Value: refusal.Error()})
	}
	n, took := g.Took.Total()
	emit(figure.Figure{
		Stat: "request_duration_us", Metric: "generator_request_duration_seconds", Value: figure.Sum{N: n, Took: took},
		Help: "Time that answers took, estimated.",
	})
	if r, ok := g.From.(Reporter); ok {
		r.Figures(emit)
		return
	}
	emit(Refusals(g.Refused()))
}

// onlyCounts leaves out the gauges of /metrics: no alert tells an operator for ever of what one has wanted.
func onlyCounts(emit func(figure.Figure)) func(figure.Figure) {
	return func(f figure.Figure) {
		if _, sum := f.Value.(figure.Sum); !f.Count && !sum {
			f.Metric, f.Help, f.Worry = "", "", ""
		}
		emit(f)
	}
}

// Refuses returns why a name issues nothing at now, Unix ms, and whether that is for good: then no daemon could do
// better, and this one is ready without it.
func Refuses(k Kind, now int64) (why error, forGood bool) {
	if err := k.Ready(now); err != nil {
		return err, false
	}
	if over, ok := k.(interface{ Over() error }); ok {
		why = over.Over()
	}
	return why, why != nil
}

// IsRetirement reports whether what Refuses returned is what an operator wanted.
func IsRetirement(why error) bool { return errors.Is(why, counter.ErrRetired) }

// Stats emits the statistics of each name at now, Unix ms. They are called NAME:FIGURE; a
// figure's name has no colon.
func (c *Catalog) Stats(now int64, emit func(figure.Figure)) {
	for _, g := range c.Names() {
		nameFigures(g, now, func(f figure.Figure) {
			if f.Stat != "" {
				f.Stat = g.Name + ":" + f.Stat
				emit(f)
			}
		})
	}
}

// maxNames is how many names have series of their own. Prometheus keeps every series that it ever
// saw, so the rest share those of the name otherNames: their counts added up, and whether all are ready. Gauges of
// several names have no meaning together.
const (
	maxNames   = 1000
	otherNames = "_other" // nothing has this name
)

// Metrics emits the metrics of each name at now, Unix ms. hidden leaves out those that tell ids.
func (c *Catalog) Metrics(now int64, hidden bool, emit func(figure.Figure)) {
	var sums []figure.Figure
	labels := []string{"generator", otherNames, "kind", otherNames}
	add := func(f figure.Figure) {
		at := slices.IndexFunc(sums, func(s figure.Figure) bool { return s.Metric == f.Metric })
		if at < 0 {
			if _, sum := f.Value.(figure.Sum); f.Count || sum || f.Stat == "ready" {
				f.Labels = labels
				sums = append(sums, f)
			}
			return
		}
		switch sum := sums[at].Value.(type) {
		case uint64:
			sums[at].Value = sum + f.Value.(uint64)
		case time.Duration:
			sums[at].Value = sum + f.Value.(time.Duration)
		case figure.Sum:
			more := f.Value.(figure.Sum)
			sums[at].Value = figure.Sum{N: sum.N + more.N, Took: sum.Took + more.Took}
		case bool:
			sums[at].Value = sum && f.Value == true
		}
	}
	for i, g := range c.Names() {
		show := add
		if i < maxNames {
			own := []string{"generator", g.Name, "kind", g.Kind}
			show = func(f figure.Figure) {
				f.Labels = own
				emit(f)
			}
		}
		nameFigures(g, now, func(f figure.Figure) {
			if f.Metric != "" && (!hidden || !TellsIDs(f.Stat)) {
				show(f)
			}
		})
	}
	for _, f := range sums {
		emit(f)
	}
}
