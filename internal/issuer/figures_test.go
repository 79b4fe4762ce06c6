package issuer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
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
func (countedKind) Refused() uint64      { return 0 }
func (k countedKind) Figures(emit func(figure.Figure)) (c Condition) {
	emit(figure.Figure{Stat: "waits", Metric: "generator_waits_total", Help: "Waits.", Value: 2 * k.n, Count: true})
	emit(figure.Figure{Stat: "waited_ms", Metric: "generator_waited_seconds_total", Help: "Waited.", Count: true,
		Value: time.Duration(k.n) * time.Second})
	emit(figure.Figure{Stat: "block", Metric: "generator_block", Help: "Block.", Value: int64(3 * k.n)})
	return c
}

// TestNamesBeyondAThousandShareSeries: their counts are added up, they are ready while all are, and have no gauges.
func TestNamesBeyondAThousandShareSeries(t *testing.T) {
	c := NewCatalog(func() int64 { return 0 }, nil, false)
	declare := func(name string, k countedKind) {
		c.Declare([]Declared{
			{Definition: kinds.Definition{Definition: counter.Definition{Name: name}, Kind: "uuid7"}, From: k}})
		c.Names()[len(c.Names())-1].Took.Observe(time.Duration(k.n)*time.Millisecond, 2)
	}
	for i := range maxNames {
		declare(fmt.Sprint("name", i), countedKind{n: uint64(i)})
	}
	for _, step := range []struct {
		more string
		kind countedKind
		want []string
	}{
		{"", countedKind{}, nil},
		{"a", countedKind{n: 10}, []string{"generator_issued_total 10", "generator_ready true",
			"generator_request_duration_seconds {2 20ms}", "generator_waits_total 20",
			"generator_waited_seconds_total 10s"}},
		{"b", countedKind{7, errors.New("no")},
			[]string{"generator_issued_total 17", "generator_ready false",
				"generator_request_duration_seconds {4 34ms}", "generator_waits_total 34",
				"generator_waited_seconds_total 17s"}},
		{"c", countedKind{n: 5}, []string{"generator_issued_total 22", "generator_ready false",
			"generator_request_duration_seconds {6 44ms}", "generator_waits_total 44",
			"generator_waited_seconds_total 22s"}},
	} {
		if step.more != "" {
			declare(step.more, step.kind)
		}
		var got []string
		own := 0
		c.Metrics(time.Now().UnixMilli(), false, func(f figure.Figure) {
			if own++; f.Labels[1] == otherNames {
				own--
				got = append(got, fmt.Sprint(f.Metric, " ", f.Value))
			}
		})
		if !slices.Equal(got, step.want) || own != 6*maxNames {
			t.Errorf("after %q: %d series of names, and of others %q, want %q", step.more, own, got, step.want)
		}
	}
}

// TestARetiredNameHasNoGauges on /metrics, or its alerts would never end; `stats generators` has all.
func TestARetiredNameHasNoGauges(t *testing.T) {
	c := NewCatalog(func() int64 { return 0 }, nil, false)
	q := newSequenceBed()
	c.Declare([]Declared{{Definition: kinds.Definition{Definition: counter.Definition{Name: "orders"}, Kind: "sequence"},
		From: q}})
	series := func() (counts, gauges int) {
		c.Metrics(0, false, func(f figure.Figure) {
			if _, sum := f.Value.(figure.Sum); f.Count || sum {
				counts++
			} else {
				gauges++
			}
		})
		return counts, gauges
	}
	stats := func() (n int) {
		c.Stats(0, func(figure.Figure) { n++ })
		return n
	}
	all := stats()
	counts, gauges := series()
	q.Refuse(counter.ErrEnded)
	if n, more := series(); n != counts || more != gauges || gauges == 0 {
		t.Errorf("ended: %d counts, %d gauges, of %d and %d", n, more, counts, gauges)
	}
	q.Refuse(counter.ErrRetired)
	if n, more := series(); n != counts || more != 0 || stats() != all+1 { // and the reason
		t.Errorf("retired: %d counts of %d, %d gauges; %d statistics of %d", n, counts, more, stats(), all)
	}
}

// TestNoNameIsThatOfAllOthers: two series of one name would cost the whole answer of /metrics.
func TestNoNameIsThatOfAllOthers(t *testing.T) {
	if err := kinds.CheckName(otherNames); err == nil {
		t.Errorf("a generator may be called %s", otherNames)
	}
}
