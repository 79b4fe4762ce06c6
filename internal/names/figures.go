package names

import (
	"slices"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// What operators see of the declared names: in `stats generators` and on /metrics.

// nameFigures emits the figures of a name at now, Unix ms.
func nameFigures(g *issuer.Generator, now int64, emit func(figure.Figure)) {
	refusal, _ := Refuses(g.From, now)
	emit(figure.Figure{Stat: "kind", Value: g.Kind})
	emit(figure.Figure{
		Stat: "issued", Metric: "generator_issued_total", Value: g.Issued(), Count: true,
		Help: "Ids issued under a declared name.",
	})
	emit(figure.Figure{
		Stat: "ready", Metric: "generator_ready", Value: refusal == nil,
		Help: "1 while a declared name issues ids; 0 also for a sequence that has ended.",
		Worry: "0 for more than a minute: clients of this name get errors, although `katsubushi_ready` may be 1; " +
			"`stats generators` says why",
	})
	if refusal != nil {
		emit(figure.Figure{Stat: "not_ready_reason", Value: refusal.Error()})
	}
	if r, ok := g.From.(issuer.Reporter); ok {
		r.Figures(emit)
	}
}

// Refuses returns why a name issues nothing at now, Unix ms, and whether that is for good: then no daemon could do
// better, and this one is ready without it.
func Refuses(k issuer.Kind, now int64) (why error, forGood bool) {
	if err := k.Ready(now); err != nil {
		return err, false
	}
	if over, ok := k.(interface{ Over() error }); ok {
		why = over.Over()
	}
	return why, why != nil
}

// Stats emits the statistics of each name at now, Unix ms. They are called NAME:FIGURE; a
// figure's name has no colon.
func (n *Names) Stats(now int64, emit func(figure.Figure)) {
	for _, g := range n.Catalog.Generators() {
		nameFigures(g, now, func(f figure.Figure) {
			if f.Stat != "" {
				f.Stat = g.Name + ":" + f.Stat
				emit(f)
			}
		})
	}
}

// maxGenerators is how many names have series of their own. Prometheus keeps every series that it ever
// saw, so the rest share those of the name others: their counts added up, and whether all are ready. Gauges of
// several names have no meaning together.
const (
	maxGenerators = 1000
	others        = "_other" // no generator has this name
)

// Metrics emits the metrics of each name at now, Unix ms, that whoever reads them may know.
func (n *Names) Metrics(now int64, emit func(figure.Figure)) {
	var sums []figure.Figure
	labels := []string{"generator", others, "kind", others}
	add := func(f figure.Figure) {
		at := slices.IndexFunc(sums, func(s figure.Figure) bool { return s.Metric == f.Metric })
		switch n, counts := f.Value.(uint64); {
		case !counts && f.Stat != "ready":
		case at < 0:
			f.Labels = labels
			sums = append(sums, f)
		case counts:
			sums[at].Value = sums[at].Value.(uint64) + n
		case f.Value == false:
			sums[at].Value = false
		}
	}
	for i, g := range n.Catalog.Generators() {
		show, own := add, []string{"generator", g.Name, "kind", g.Kind}
		if i < maxGenerators {
			show = func(f figure.Figure) {
				f.Labels = own
				emit(f)
			}
		}
		nameFigures(g, now, func(f figure.Figure) {
			if f.Metric != "" && (!n.given.Hidden || !issuer.TellsIDs(f.Stat)) {
				show(f)
			}
		})
	}
	for _, f := range sums {
		emit(f)
	}
}
