package generator

import (
	"strings"
	"testing"
	"time"
)

// One text for each layout: what is parsed is written shortest, and parsed again it is the same; segments of a named
// layout are that layout.
func TestSegments(t *testing.T) {
	for text, want := range map[string]struct {
		name string
		l    Layout
	}{
		"time:44,sequence:18": {"time:44,sequence:18", Layout{Unit: 1, TimeBits: 44, SequenceBits: 18}},
		"epoch:0,node:8,time:41,unit:1000us,sequence:14": {"node:8,time:41,sequence:14",
			Layout{Unit: 1, TimeBits: 41, WorkerBits: 8, SequenceBits: 14, WorkerHigh: true}},
		"time:32,node:10,sequence:20,unit:1000ms,epoch:1420070400000": {
			"time:32,node:10,sequence:20,epoch:1420070400000,unit:1s",
			Layout{Epoch: 1420070400000, Unit: 1000, TimeBits: 32, WorkerBits: 10, SequenceBits: 20}},
		"time:41,sequence:10,node:3": {"time:41,sequence:10,node:3",
			Layout{Unit: 1, TimeBits: 41, WorkerBits: 3, SequenceBits: 10, WorkerLow: true}},
		"time:41,node:10,sequence:12,epoch:1420070400000":             {"katsubushi", Katsubushi()},
		"time:39,sequence:8,node:16,epoch:1409529600000,unit:10ms":    {"sonyflake", Sonyflake()},
		"time:41,node:10,sequence:12,epoch:1420070400000,unit:0.001s": {"katsubushi", Katsubushi()},
		"js53": {"js53", JS53()},
	} {
		want.l.Name = want.name
		l, err := ParseLayout(text)
		if again, err := ParseLayout(l.Name); l != want.l || err != nil || again != l {
			t.Errorf("%s: %+v, and of its name %+v, %v", text, l, again, err)
		}
		if err != nil || l.Check() != nil {
			t.Errorf("%s: %v, %v", text, err, l.Check())
		}
	}
	for text, want := range map[string]string{
		"no-layout":                      "sonyflake, js53 are; or segments such as time:44",
		"time:44":                        "time and behind it sequence",
		"sequence:18,time:44":            "time and behind it sequence",
		"time:31,sequence:12,time:10":    `"time:10": segments such as`,
		"time:44,worker:10,sequence:10":  `"worker:10": segments such as`,
		"time:0,sequence:18":             `"time:0": segments such as`,
		"time:44,sequence:18,":           `"": segments such as`,
		"time:45,sequence:18":            "at most 62 together",
		"time:41,node:11,sequence:12":    "more than 63 bits",
		"time:41,sequence:18,epoch:2015": `"epoch:2015": segments such as`,
		"time:41,sequence:18,unit:2s":    `"unit:2s": segments such as`,
		"time:41,sequence:18,unit:1us":   `"unit:1us": segments such as`,
		"time:41,sequence:18,unit:0s":    `"unit:0s": segments such as`,
	} {
		if l, err := ParseLayout(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, without %q", text, l, err, want)
		}
	}
}

// A value of PD from 2021, with its time as pd-ctl says it, and the time of the same value of a March in seconds.
func TestTimestampsOfOthers(t *testing.T) {
	for text, c := range map[string]struct {
		id uint64
		Parts
	}{
		"time:44,sequence:18": {429164525386203142, Parts{Time: time.Date(2021, 11, 17, 7, 5, 41, 0, time.UTC)}},
		"node:4,time:32,sequence:20,unit:1s": {3<<52 | 1700000000<<20 | 77,
			Parts{Time: time.Unix(1700000000, 0), Worker: 3, Sequence: 77}},
	} {
		l, err := ParseLayout(text)
		p := l.Decompose(c.id)
		if err != nil || !p.Time.Truncate(time.Second).Equal(c.Time) || p.Worker != c.Worker {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
		if at := l.PositionOf(c.id); l.AtPosition(at, c.Worker) != c.id {
			t.Errorf("%s: %d is at %d", text, c.id, at)
		}
	}
}
