package generator

import (
	"fmt"
	"strings"
)

// Layouts returns all layouts that have a name, the default first.
func Layouts() []Layout {
	return []Layout{Katsubushi(), Twitter(), Instagram(), Sonyflake(), JS53()}
}

// LayoutByName finds one of Layouts. The error lists their names.
func LayoutByName(name string) (Layout, error) {
	var names []string
	for _, l := range Layouts() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Layout{}, fmt.Errorf("generator: no layout is called %q: %s are", name, strings.Join(names, ", "))
}

// Katsubushi is the layout of kayac/go-katsubushi. It lasts until 2084-09-06.
//
//	 63 62                                       22 21         12 11           0
//	┌──┬───────────────────────────────────────────┬─────────────┬─────────────┐
//	│ 0│ 41: milliseconds since 2015-01-01T00Z     │ 10: worker  │ 12: sequence│
//	└──┴───────────────────────────────────────────┴─────────────┴─────────────┘
func Katsubushi() Layout {
	return Layout{Name: "katsubushi", Epoch: 1420070400000, Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// Twitter is the layout of Twitter's snowflake. The worker id is datacenter<<5 | machine, 5 bits each.
// It lasts until 2080-07-10.
//
//	 63 62                                       22 21         12 11           0
//	┌──┬───────────────────────────────────────────┬──────┬──────┬─────────────┐
//	│ 0│ 41: milliseconds since 2010-11-04T01:42Z  │ 5: dc│ 5: m.│ 12: sequence│
//	└──┴───────────────────────────────────────────┴──────┴──────┴─────────────┘
func Twitter() Layout {
	return Layout{Name: "twitter", Epoch: 1288834974657, Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12}
}

// Instagram is the layout of Instagram's database ids. The worker id is their logical shard. Ids use
// all 64 bits: from 2046-06-27 on they are negative for readers that use signed integers. It lasts
// until 2081-04-30.
//
//	 63                                       23 22           10 9            0
//	┌───────────────────────────────────────────┬───────────────┬──────────────┐
//	│ 41: milliseconds since 2011-08-24T21:07Z  │ 13: worker    │ 10: sequence │
//	└───────────────────────────────────────────┴───────────────┴──────────────┘
func Instagram() Layout {
	return Layout{Name: "instagram", Epoch: 1314220021721, Unit: 1, TimeBits: 41, WorkerBits: 13, SequenceBits: 10}
}

// Sonyflake is the layout of sony/sonyflake v1; v2 can be configured with the same epoch. It has ticks
// of 10 ms, few ids per tick, many worker ids, and the worker id in the lowest bits. It lasts until
// 2188-11-16.
//
//	 63 62                                       24 23         16 15           0
//	┌──┬───────────────────────────────────────────┬─────────────┬─────────────┐
//	│ 0│ 39: units of 10 ms since 2014-09-01T00Z   │ 8: sequence │ 16: worker  │
//	└──┴───────────────────────────────────────────┴─────────────┴─────────────┘
func Sonyflake() Layout {
	return Layout{Name: "sonyflake", Epoch: 1409529600000, Unit: 10, TimeBits: 39, WorkerBits: 16, SequenceBits: 8,
		WorkerLow: true}
}

// JS53 makes ids that a JavaScript number holds exactly, at most 2^53−1: 32 worker ids with 128 ids
// per millisecond each. It lasts until 2084-09-06.
//
//	 63         53 52                            12 11          7 6            0
//	┌─────────────┬────────────────────────────────┬─────────────┬─────────────┐
//	│ 0           │ 41: ms since 2015-01-01T00Z    │ 5: worker   │ 7: sequence │
//	└─────────────┴────────────────────────────────┴─────────────┴─────────────┘
func JS53() Layout {
	return Layout{Name: "js53", Epoch: 1420070400000, Unit: 1, TimeBits: 41, WorkerBits: 5, SequenceBits: 7}
}
