package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A value is a figure of a server.
type value func(r *results, server string) float64

// A bar is a figure that the daemon's engines are meant to reach.
type bar struct {
	what  string
	value value
	unit  string
	most  bool // the limit is the most that is good, not the least
	limit map[string]float64
}

// bars are the goals that the project has set itself, by engine.
func bars() []bar {
	better := func(mode, than string) value {
		return func(r *results, server string) float64 {
			return r.over(cell{mode, than}, cell{mode, server}, sample.cpuMicros)
		}
	}
	cost := func(mode, than, of string) value { // of = "": the server itself
		return func(r *results, server string) float64 {
			return r.over(cell{mode, server}, cell{than, orDefault(of, server)}, sample.cpuMicros)
		}
	}
	overFloor := func(mode string) value {
		return func(r *results, server string) float64 {
			_, kind, _ := strings.Cut(server, " ")
			return r.over(cell{mode, server}, cell{mode, "floor " + kind}, sample.cpuMicros)
		}
	}
	slower := func(of func(sample) time.Duration) value {
		return func(r *results, server string) float64 {
			return r.over(cell{"follower", server}, cell{"leader", server}, func(s sample) float64 { return of(s).Seconds() })
		}
	}
	limits := func(uring, epoll, net float64) map[string]float64 {
		return map[string]float64{"katsubushi uring": uring, "katsubushi epoll": epoll, "katsubushi net": net}
	}
	none := math.NaN()
	all := func(v float64) map[string]float64 { return limits(v, v, v) }
	atLeast := func(what string, value value, limit map[string]float64) bar {
		return bar{what: what, value: value, unit: "x", limit: limit}
	}
	atMost := func(what string, value value, limit map[string]float64) bar {
		return bar{what: what, value: value, unit: "x", most: true, limit: limit}
	}
	kind := func(k string) bar {
		return atMost(k+" pipelined, cost against own get id", cost(k, "pipelined", ""), all(2))
	}
	return []bar{
		atLeast("64 connections, against memcached", better("c64", reference), limits(1.25, 1.08, 0.9)),
		atLeast("1 connection, against memcached", better("c1", reference), limits(1, 1, none)),
		atLeast("pipelined, against memcached", better("pipelined", reference), limits(14, 12, 10)),
		// memcached answers a get by itself, and what mg asks for in one write.
		atLeast("mg pipelined, against memcached", better("meta-pipelined", reference), limits(1.3, 1.2, 1)),
		atLeast("pipelined, against redis INCR", better("pipelined", "redis"), limits(1.7, none, none)),
		atLeast("100-key get, against memcached", better("multiget", reference), limits(3, 2.6, 2.3)),
		atMost("64 connections, cost against a C server that does not look at its input", overFloor("c64"),
			limits(1.05, 1.08, none)),
		atMost("1,000 connections, cost against own at 64, divided by what that is for the C server",
			func(r *results, server string) float64 {
				return overFloor("c1000")(r, server) / overFloor("c64")(r, server)
			}, limits(1.03, 1.03, none)),
		{
			what:  "idle connection, RSS",
			value: func(r *results, server string) float64 { return median(r.idle[server]) },
			unit:  " B", most: true, limit: limits(200, 100, 5<<10),
		},
		atMost("100 names declared, 64 connections, cost against none", cost("names", "c64", ""), all(1.02)),
		atMost("100 names declared, pipelined, cost against none", cost("names-pipelined", "pipelined", ""), all(1.02)),
		atMost("100 names declared, 100-key get, cost against none", cost("names-multiget", "multiget", ""), all(1.02)),
		atMost("sequence pipelined, cost against own get id", cost("sequence", "pipelined", ""), all(1.6)),
		atMost("sequence 100 in a get, cost against own get id", cost("sequence100", "multiget", ""), all(1.4)),
		{
			what: "sequence 100 in a get, values a second of one core",
			value: func(r *results, server string) float64 {
				return multiKeys / r.of(cell{"sequence100", server}, sample.cpuMicros)
			},
			unit: " M", limit: all(5),
		},
		kind("uuid4"), kind("uuid7"), kind("ulid"), kind("objectid"),
		atMost("INCR of a sequence, 64 connections, cost against redis", cost("incr", "incr", "redis"),
			limits(0.85, none, none)),
		atMost("strict order pipelined on the leader, 64 connections, cost against a free sequence",
			cost("strict-pipelined", "free-pipelined", ""), all(1.05)),
		atMost("timestamps pipelined on the leader, 64 connections, cost against own get id",
			cost("timestamps-pipelined", "snowflake-pipelined", ""), all(1.15)),
		{
			what:  "strict order through a follower, 64 connections, thousands of requests a second",
			value: func(r *results, server string) float64 { return r.of(cell{"follower", server}, sample.rate) / 1000 },
			limit: all(100),
		},
		atMost("strict order through a follower, 64 connections, p50 against the leader's",
			slower(func(s sample) time.Duration { return s.p50 }), all(3)),
		atMost("strict order through a follower, 64 connections, p99 against the leader's",
			slower(func(s sample) time.Duration { return s.p99 }), all(3)),
		atMost("INCR of a sequence, pipelined, cost against redis", cost("incr-pipelined", "incr-pipelined", "redis"),
			limits(0.65, none, none)),
	}
}

// verdict writes what a server reached and what it should have, "" where nothing is asked or
// nothing was measured.
func (b bar) verdict(r *results, server string) string {
	limit, ok := b.limit[server]
	v := b.value(r, server)
	if !ok || math.IsNaN(limit) || math.IsNaN(v) {
		return ""
	}
	sign, reached := "≥", v >= limit
	if b.most {
		sign, reached = "≤", v <= limit
	}
	word := "short"
	if reached {
		word = "reached"
	}
	return fmt.Sprintf("%s%s, %s (%s %s)", number(v), b.unit, word, sign, number(limit))
}

// number writes three or four significant digits.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v == 0:
		return "0"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	case math.Abs(v) >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}
