package generator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Segments says what ParseLayout takes beside names, with examples.
const Segments = "segments such as time:44,sequence:18 or node:10,time:41,sequence:12,epoch:1420070400000,unit:1ms"

// leastEpoch is the least epoch beside 0 that counts as Unix milliseconds: people write years and seconds by mistake.
const leastEpoch = 100_000_000_000

// ParseLayout reads the name of one of Layouts, or a layout's segments, the most significant bits first:
//
//	time:44,sequence:18                               no worker id
//	node:10,time:41,sequence:12,epoch:1420070400000   the worker id in front, epoch in Unix ms, by default 0
//	time:31,node:10,sequence:22,unit:1s               whole ms up to 1s, by default 1ms
//
// Such ids have at most 63 bits. The layout's Name is the text, as segments are written shortest; that of segments that
// are those of a named layout is that name. So there is one text for each layout.
func ParseLayout(text string) (Layout, error) {
	if !strings.Contains(text, ":") {
		l, err := LayoutByName(text)
		if err != nil {
			err = fmt.Errorf("%w; or %s", err, Segments)
		}
		return l, err
	}
	l := Layout{Unit: 1}
	var order []string
	for segment := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(segment, ":")
		if slices.Contains(order, name) || !l.set(name, value) {
			return Layout{}, fmt.Errorf("generator: %.70q: %s allowed, each once", segment, Segments)
		}
		order = append(order, name)
	}
	var bits []string
	for _, name := range order {
		if name == "time" || name == "node" || name == "sequence" {
			bits = append(bits, name)
		}
	}
	switch strings.Join(bits, ",") {
	case "time,sequence", "time,node,sequence":
	case "time,sequence,node":
		l.WorkerLow = true
	case "node,time,sequence":
		l.WorkerHigh = true
	default:
		return Layout{}, fmt.Errorf("generator: %.70q: time and behind it sequence are needed; node may come before, "+
			"between or behind them, or not at all", text)
	}
	if err := l.Check(); err != nil {
		return Layout{}, err
	}
	if l.TimeBits+l.WorkerBits+l.SequenceBits > 63 {
		return Layout{}, errors.New("generator: more than 63 bits: ids would be negative")
	}
	l.Name = l.segments()
	for _, named := range Layouts() {
		if named.Fingerprint() == l.Fingerprint() {
			return named, nil
		}
	}
	return l, nil
}

// set sets what a segment says, and reports whether it is one.
func (l *Layout) set(name, value string) bool {
	if name == "unit" {
		d, err := time.ParseDuration(value)
		l.Unit = d.Milliseconds()
		return err == nil && d%time.Millisecond == 0 && d > 0 && d <= time.Second
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if name == "epoch" {
		l.Epoch = n
		return err == nil && (n == 0 || n >= leastEpoch && n < lastTime)
	}
	field := map[string]*uint8{"time": &l.TimeBits, "node": &l.WorkerBits, "sequence": &l.SequenceBits}[name]
	if field == nil || err != nil || n < 1 || n > 63 {
		return false
	}
	*field = uint8(n)
	return true
}

// segments returns the shortest text of segments.
func (l Layout) segments() string {
	list := []string{fmt.Sprint("time:", l.TimeBits), fmt.Sprint("sequence:", l.SequenceBits)}
	if l.WorkerBits > 0 {
		at := 1
		switch {
		case l.WorkerLow:
			at = 2
		case l.WorkerHigh:
			at = 0
		}
		list = slices.Insert(list, at, fmt.Sprint("node:", l.WorkerBits))
	}
	if l.Epoch != 0 {
		list = append(list, fmt.Sprint("epoch:", l.Epoch))
	}
	if l.Unit != 1 {
		list = append(list, fmt.Sprint("unit:", time.Duration(l.Unit)*time.Millisecond))
	}
	return strings.Join(list, ",")
}
