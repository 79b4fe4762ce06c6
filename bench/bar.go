package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A bar is a figure that the daemon's engines are meant to reach.
type bar struct {
	what  string
	value func(r *results, server string) float64
	unit  string
	most  bool // the limit is the most that is good, not the least
	limit map[string]float64
}

// bars are the goals that the project has set itself, by engine.
func bars() []bar {
	better := func(mode, than string) func(*results, string) float64 {
		return func(r *results, server string) float64 {
			return r.over(cell{mode, than}, cell{mode, server}, sample.cpuMicros)
		}
	}
	cost := func(mode, than, of string) func(*results, string) float64 { // of = "": the server itself
		return func(r *results, server string) float64 {
			return r.over(cell{mode, server}, cell{than, orDefault(of, server)}, sample.cpuMicros)
		}
	}
	overFloor := func(mode string) func(*results, string) float64 {
		return func(r *results, server string) float64 {
			_, kind, _ := strings.Cut(server, " ")
			return r.over(cell{mode, server}, cell{mode, "floor " + kind}, sample.cpuMicros)
		}
	}
	slower := func(of func(sample) time.Duration) func(*results, string) float64 {
		return func(r *results, server string) float64 {
			return r.over(cell{"follower", server}, cell{"leader", server}, func(s sample) float64 { return of(s).Seconds() })
		}
	}
	limits := func(uring, epoll, net float64) map[string]float64 {
		return map[string]float64{"katsubushi uring": uring, "katsubushi epoll": epoll, "katsubushi net": net}
	}
	none := math.NaN()
	all := func(v float64) map[string]float64 { return limits(v, v, v) }
	kind := func(k string) bar {
		return bar{what: k + " pipelined, cost against own get id", value: cost(k, "pipelined", ""), unit: "x", most: true,
			limit: all(2)}
	}
	return []bar{
		{what: "64 connections, against memcached", value: better("c64", reference), unit: "x",
			limit: limits(1.25, 1.08, 0.9)},
		{what: "1 connection, against memcached", value: better("c1", reference), unit: "x", limit: limits(1, 1, none)},
		{what: "pipelined, against memcached", value: better("pipelined", reference), unit: "x", limit: limits(14, 12, 10)},
		// memcached answers a get by itself, and what mg asks for in one write.
		{what: "mg pipelined, against memcached", value: better("meta-pipelined", reference), unit: "x",
			limit: limits(1.3, 1.2, 1)},
		{what: "pipelined, against redis INCR", value: better("pipelined", "redis"), unit: "x",
			limit: limits(1.7, none, none)},
		{what: "100-key get, against memcached", value: better("multiget", reference), unit: "x", limit: limits(3, 2.6, 2.3)},
		{what: "64 connections, cost against a C server that does not look at its input", value: overFloor("c64"), unit: "x",
			most: true, limit: limits(1.05, 1.08, none)},
		{
			what: "1,000 connections, cost against own at 64, divided by what that is for the C server",
			value: func(r *results, server string) float64 {
				return overFloor("c1000")(r, server) / overFloor("c64")(r, server)
			},
			unit: "x", most: true, limit: limits(1.03, 1.03, none),
		},
		{
			what:  "idle connection, RSS",
			value: func(r *results, server string) float64 { return median(r.idle[server]) },
			unit:  " B", most: true, limit: limits(200, 100, 5<<10),
		},
		{what: "100 names declared, 64 connections, cost against none", value: cost("names", "c64", ""), unit: "x",
			most: true, limit: all(1.02)},
		{what: "100 names declared, pipelined, cost against none", value: cost("names-pipelined", "pipelined", ""), unit: "x",
			most: true, limit: all(1.02)},
		{what: "100 names declared, 100-key get, cost against none", value: cost("names-multiget", "multiget", ""), unit: "x",
			most: true, limit: all(1.02)},
		{what: "sequence pipelined, cost against own get id", value: cost("sequence", "pipelined", ""), unit: "x", most: true,
			limit: all(1.6)},
		{what: "sequence 100 in a get, cost against own get id", value: cost("sequence100", "multiget", ""), unit: "x",
			most: true, limit: all(1.4)},
		{
			what: "sequence 100 in a get, values a second of one core",
			value: func(r *results, server string) float64 {
				return multiKeys / r.of(cell{"sequence100", server}, sample.cpuMicros)
			},
			unit: " M", limit: all(5),
		},
		kind("uuid4"), kind("uuid7"), kind("ulid"), kind("objectid"),
		{what: "INCR of a sequence, 64 connections, cost against redis", value: cost("incr", "incr", "redis"), unit: "x",
			most: true, limit: limits(0.85, none, none)},
		{what: "strict order pipelined on the leader, 64 connections, cost against a free sequence",
			value: cost("strict-pipelined", "free-pipelined", ""), unit: "x", most: true, limit: all(1.05)},
		{what: "timestamps pipelined on the leader, 64 connections, cost against own get id",
			value: cost("timestamps-pipelined", "snowflake-pipelined", ""), unit: "x", most: true, limit: all(1.15)},
		{
			what:  "strict order through a follower, 64 connections, thousands of requests a second",
			value: func(r *results, server string) float64 { return r.of(cell{"follower", server}, sample.rate) / 1000 },
			limit: all(100),
		},
		{what: "strict order through a follower, 64 connections, p50 against the leader's",
			value: slower(func(s sample) time.Duration {
				return s.p50
			}), unit: "x", most: true, limit: all(3)},
		{what: "strict order through a follower, 64 connections, p99 against the leader's",
			value: slower(func(s sample) time.Duration {
				return s.p99
			}), unit: "x", most: true, limit: all(3)},
		{what: "INCR of a sequence, pipelined, cost against redis", value: cost("incr-pipelined", "incr-pipelined", "redis"),
			unit: "x", most: true, limit: limits(0.65, none, none)},
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
