package names

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// countedKind is a kind with a count and a gauge.
type countedKind struct {
	n   uint64
	why error // it is not ready
}

func (countedKind) Source(int) id.Source { return nil }
func (k countedKind) Ready(int64) error  { return k.why }
func (k countedKind) Issued() uint64     { return k.n }
func (k countedKind) Figures(emit func(figure.Figure)) (c issuer.Condition) {
	emit(figure.Figure{Stat: "waits", Metric: "generator_waits_total", Help: "Waits.", Value: 2 * k.n, Count: true})
	emit(figure.Figure{Stat: "block", Metric: "generator_block", Help: "Block.", Value: int64(3 * k.n)})
	return c
}

// TestNamesBeyondAThousandShareSeries: their counts are added up, they are ready while all are, and have no gauges.
func TestNamesBeyondAThousandShareSeries(t *testing.T) {
	n := room(t, Config{})
	declare := func(name string, k countedKind) {
		n.Catalog.Declare([]issuer.Declared{
			{Definition: kinds.Definition{Definition: counter.Definition{Name: name}, Kind: "uuid7"}, From: k}})
	}
	for i := range maxGenerators {
		declare(fmt.Sprint("name", i), countedKind{n: uint64(i)})
	}
	for _, step := range []struct {
		more string
		kind countedKind
		want []string
	}{
		{"", countedKind{}, nil},
		{"a", countedKind{n: 10}, []string{"generator_issued_total 10", "generator_ready true", "generator_waits_total 20"}},
		{"b", countedKind{7, errors.New("no")},
			[]string{"generator_issued_total 17", "generator_ready false", "generator_waits_total 34"}},
		{"c", countedKind{n: 5}, []string{"generator_issued_total 22", "generator_ready false", "generator_waits_total 44"}},
	} {
		if step.more != "" {
			declare(step.more, step.kind)
		}
		var got []string
		own := 0
		n.Metrics(time.Now().UnixMilli(), func(f figure.Figure) {
			if own++; f.Labels[1] == others {
				own--
				got = append(got, fmt.Sprint(f.Metric, " ", f.Value))
			}
		})
		if !slices.Equal(got, step.want) || own != 4*maxGenerators {
			t.Errorf("after %q: %d series of names, and of others %q, want %q", step.more, own, got, step.want)
		}
	}
}
