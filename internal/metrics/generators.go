package metrics

import "github.com/prometheus/client_golang/prometheus"

// A Generator is a declared name and its figures.
type Generator struct {
	Name, Kind string
	Issued     uint64
	Ready      bool            // it would issue now
	Facts      []GeneratorFact // figures that only some kinds have
}

// A GeneratorFact is a figure of a Generator.
type GeneratorFact struct {
	Name, Help string // Name is without katsubushi_generator_, and without _total
	Value      float64
	Count      bool // it only grows; otherwise it is a gauge
}

// MaxGenerators is how many names have series of their own. Prometheus keeps every series that it ever
// saw, so the rest share those of the name Others.
const (
	MaxGenerators = 1000
	Others        = "_other" // no generator has this name
)

// generators writes the figures of the first names, in their order, and the sums of all others.
func (w writer) generators(list []Generator) {
	for _, g := range foldGenerators(list) {
		labels := []string{"generator", g.Name, "kind", g.Kind}
		w.write(prometheus.CounterValue, "generator_issued_total", "Ids issued under a declared name.", float64(g.Issued),
			labels...)
		w.gauge("generator_ready", "1 while a declared name issues ids; 0 also for a sequence that has ended.",
			bit(g.Ready), labels...)
		for _, f := range g.Facts {
			if f.Count {
				w.write(prometheus.CounterValue, "generator_"+f.Name+"_total", f.Help, f.Value, labels...)
			} else {
				w.gauge("generator_"+f.Name, f.Help, f.Value, labels...)
			}
		}
	}
}

// foldGenerators adds up all generators beyond MaxGenerators: their counts, and whether all are ready.
// Gauges of several names have no meaning together.
func foldGenerators(list []Generator) []Generator {
	if len(list) <= MaxGenerators {
		return list
	}
	other := Generator{Name: Others, Kind: Others, Ready: true}
	at := map[string]int{} // in other.Facts, by name
	for _, g := range list[MaxGenerators:] {
		other.Issued += g.Issued
		other.Ready = other.Ready && g.Ready
		for _, f := range g.Facts {
			if !f.Count {
				continue
			}
			i, ok := at[f.Name]
			if !ok {
				i = len(other.Facts)
				at[f.Name] = i
				other.Facts = append(other.Facts, GeneratorFact{Name: f.Name, Help: f.Help, Count: true})
			}
			other.Facts[i].Value += f.Value
		}
	}
	return append(list[:MaxGenerators:MaxGenerators], other)
}
