package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// A layoutChoice is what the layout flags say: a layout by name, and what of it is to be different.
// nil = as the name has it.
type layoutChoice struct {
	base                     generator.Layout
	epoch, unit              *int64
	workerBits, sequenceBits *uint8
	datacenter               *uint64
}

// layoutSettings are the settings that say how an id is put together: the daemon's, and those of
// `inspect`.
func layoutSettings(o *options) []setting {
	var names []string
	for _, l := range generator.Layouts() {
		names = append(names, l.Name)
	}
	return []setting{
		{name: "layout", topic: topicLayout, def: names[0], field: "Layout",
			help: "`name` of the id layout: " + strings.Join(names, ", ") + "; or its segments, as in docs/LAYOUTS.md",
			set: value{func(v string) (err error) {
				o.layout.base, err = kinds.ParseLayout(v, "")
				return err
			}, names}},
		{name: "epoch", topic: topicLayout, field: "Layout",
			help: "`time` at which the time field is 0, Unix ms or 2015-01-01T00:00:00Z; default the layout's",
			set: value{set: func(v string) error {
				t, err := parseTime(v, "a time such as 2015-01-01T00:00:00Z, or Unix milliseconds, allowed")
				if err == nil {
					ms := t.UnixMilli()
					o.layout.epoch = &ms
				}
				return err
			}}},
		{name: "time-unit", topic: topicLayout, field: "Layout", help: "`length` of a tick; default the layout's",
			set: value{set: func(v string) error {
				d, err := time.ParseDuration(v)
				if err != nil || d%time.Millisecond != 0 {
					return errors.New("whole milliseconds such as 1ms, 10ms, 1s allowed")
				}
				ms := d.Milliseconds()
				o.layout.unit = &ms
				return nil
			}}},
		{name: "worker-bits", topic: topicLayout, field: "Layout",
			help: "`bits` of the worker id; the time field gets the rest; default the layout's",
			set:  bits(&o.layout.workerBits)},
		{name: "sequence-bits", topic: topicLayout, field: "Layout", help: "`bits` of the sequence; default the layout's",
			set: bits(&o.layout.sequenceBits)},
	}
}

// millisecond is how times are printed, in UTC.
const millisecond = "2006-01-02T15:04:05.000Z"

// leastTimeNumber is the least bare number, in Unix milliseconds, that is taken for a time, beside 0: 3 March 1973.
// Below it stand the years and the Unix seconds (until the year 5138) that people write by mistake.
const leastTimeNumber = 100_000_000_000

// parseTime takes a time, or Unix milliseconds. If it is neither, the error is what instead says; the one about a
// number that is too small says what was probably meant.
func parseTime(s string, instead string) (time.Time, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		t, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return t, errors.New(instead)
		}
		return t, nil
	case ms <= 0 || ms >= leastTimeNumber:
		return time.UnixMilli(ms), nil
	}
	meant := time.Unix(ms, 0)
	if len(s) == len("2015") {
		meant = time.Date(int(ms), 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return meant, fmt.Errorf("a number is Unix milliseconds, and this one is %s: %s was probably meant",
		time.UnixMilli(ms).UTC().Format(time.RFC3339), meant.UTC().Format(time.RFC3339))
}

func bits(field **uint8) value {
	return value{set: func(v string) error {
		n, err := strconv.ParseUint(v, 10, 8)
		if err != nil || n > 63 {
			return errors.New("0 to 63 allowed")
		}
		b := uint8(n)
		*field = &b
		return nil
	}}
}

// Twitter's worker id is in two parts of this many bits.
const twitterMachineBits = 5

func (o *options) setDatacenter(v string) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil || n >= 1<<twitterMachineBits {
		return fmt.Errorf("0 to %d allowed", 1<<twitterMachineBits-1)
	}
	o.layout.datacenter = &n
	return nil
}

// build is the layout that was chosen. The bits of an id stay as many as the named layout has: what
// worker id and sequence leave is the time's.
func (c layoutChoice) build() (generator.Layout, error) {
	l := c.base
	total := int(l.TimeBits) + int(l.WorkerBits) + int(l.SequenceBits)
	if c.epoch != nil {
		l.Epoch = *c.epoch
	}
	if c.unit != nil {
		l.Unit = *c.unit
	}
	if c.workerBits != nil {
		l.WorkerBits = *c.workerBits
	}
	if c.sequenceBits != nil {
		l.SequenceBits = *c.sequenceBits
	}
	left := total - int(l.WorkerBits) - int(l.SequenceBits)
	if left < 1 {
		return l, fmt.Errorf("%d worker and %d sequence bits leave none of %d for the time", l.WorkerBits, l.SequenceBits,
			total)
	}
	l.TimeBits = uint8(left)
	if l != c.base {
		l.Name = "" // no longer the one that people know by it
	}
	return l, l.Check()
}

// applyDatacenter puts the datacenter id above the machine's, as Twitter has it.
func (o *options) applyDatacenter() error {
	if o.layout.datacenter == nil {
		return nil
	}
	if o.layout.base.Name != "twitter" {
		return errors.New("only the twitter layout has one")
	}
	for i, id := range o.WorkerIDs {
		if id >= 1<<twitterMachineBits {
			return fmt.Errorf("together with a datacenter id, worker ids of 0 to %d are allowed, not %d",
				1<<twitterMachineBits-1, id)
		}
		o.WorkerIDs[i] = *o.layout.datacenter<<twitterMachineBits | id
	}
	return nil
}
