// Package figure says what a figure of the daemon is. Each is made at one place, by the part that knows it;
// the statistics, /metrics and docs/METRICS.md are renderings.
package figure

import (
	"slices"
	"strings"
	"time"
)

// A Figure is one value at one moment, with all that operators are told of it.
type Figure struct {
	Stat   string   // its name in the statistics; empty = it is not there
	Metric string   // its name on /metrics, without katsubushi_; empty = it is not there
	Help   string   // one sentence, for the metrics
	Worry  string   // when to worry, for docs/METRICS.md; empty = nobody need
	Count  bool     // it only grows
	Labels []string // on /metrics: name, value, name, value

	// Value is a bool, a string, a time.Duration or a number. A Duration is in ms in the statistics and in
	// seconds on /metrics. A string has no Metric. A Sum is its mean in µs in the statistics. Only /metrics has a
	// *latency.Snapshot.
	Value any
}

// A Sum is how long several things took together.
type Sum struct {
	N    uint64
	Took time.Duration
}

// Info emits texts that belong together: each alone in the statistics, and all as labels of one metric.
// A text is its name, its label and its value.
func Info(emit func(Figure), name, help, worry string, texts ...string) {
	var labels []string
	for text := range slices.Chunk(texts, 3) {
		emit(Figure{Stat: name + "_" + text[0], Value: text[2]})
		labels = append(labels, text[1:]...)
	}
	emit(Figure{Metric: name + "_info", Value: 1, Labels: labels, Help: help, Worry: worry})
}

// Mean is how long one of them took; 0 if there is none.
func (s Sum) Mean() time.Duration { return s.Took / time.Duration(max(s.N, 1)) }

// Name returns the name in the statistics as people read it: without the unit of a Duration.
func (f Figure) Name() string {
	if _, ok := f.Value.(time.Duration); ok {
		return strings.TrimSuffix(f.Stat, "_ms")
	}
	return f.Stat
}

// Shown returns the value as the statistics have it.
func (f Figure) Shown() any {
	switch v := f.Value.(type) {
	case time.Duration:
		return v.Milliseconds()
	case Sum:
		return v.Mean().Microseconds()
	}
	return f.Value
}

// Number returns the value as /metrics has it.
func (f Figure) Number() float64 {
	switch v := f.Value.(type) {
	case bool:
		if v {
			return 1
		}
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return v.Seconds()
	}
	return 0
}
