package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	d, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.windows.Stop(true)
	declare := func(name string, k countedKind) {
		d.catalog.Declare([]issuer.Declared{
			{Definition: kinds.Definition{Definition: counter.Definition{Name: name}, Kind: "uuid7"}, From: k}})
	}
	for i := range maxGenerators {
		declare(fmt.Sprint("name", i), countedKind{n: uint64(i)})
	}
	const l = `{generator="_other",kind="_other"} `
	for _, step := range []struct {
		more string
		kind countedKind
		want []string
	}{
		{"", countedKind{}, nil},
		{"a", countedKind{n: 10}, []string{"issued_total" + l + "10", "ready" + l + "1", "waits_total" + l + "20"}},
		{"b", countedKind{7, errors.New("no")},
			[]string{"issued_total" + l + "17", "ready" + l + "0", "waits_total" + l + "34"}},
		{"c", countedKind{n: 5}, []string{"issued_total" + l + "22", "ready" + l + "0", "waits_total" + l + "44"}},
	} {
		if step.more != "" {
			declare(step.more, step.kind)
		}
		var got []string
		own := 0
		for _, line := range d.metricLines() {
			if line, ok := strings.CutPrefix(line, "katsubushi_generator_"); ok {
				if own++; strings.Contains(line, "_other") {
					own--
					got = append(got, line)
				}
			}
		}
		if !slices.Equal(got, step.want) || own != 4*maxGenerators {
			t.Errorf("after %q: %d series of names, and of others %q, want %q", step.more, own, got, step.want)
		}
	}
}
