package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A transport is the kind of listener that a mode needs.
type transport string

const (
	overTCP  transport = "tcp"
	overUnix transport = "unix"
	overTLS  transport = "tls"
	overHTTP transport = "http"
)

// A client is what drives the connections of a mode.
type client int

const (
	rawClient  client = iota // the busy-polling loop
	goClient                 // a goroutine for each connection, through net or crypto/tls
	idleClient               // connections that say one get and then nothing
)

// A mode is one way to load a server.
type mode struct {
	name    string // what -modes takes
	title   string
	dialect string // text, meta, binary, http, incr or get; the last two are RESP's. A redis gets incr instead of text
	key     string // what is asked for: id, or a name that the daemon declares
	conns   int
	depth   int  // requests that a connection sends at once
	keys    int  // of one get
	greedy  int  // further connections that ask for ten thousand ids at a time; their answers do not count
	names   int  // how many names the daemon declares
	scraped bool // meanwhile somebody asks for /metrics ten times a second
	via     transport
	client  client
	role    role
	think   []time.Duration // before each request, in turn, by a client that sleeps for its answer; nil = it polls
}

// A role is what the daemon of a mode is in a fleet.
type role int

const (
	alone   role = iota
	leads        // the sequences in strict order
	follows      // asks the leader for their values; the CPU time of both counts
)

// manyNames is how many names a daemon declares where the question is what names cost other keys.
const manyNames = 100

// scrapedNames is how many there are where it is what /metrics costs other clients.
const scrapedNames = 10_000

// kinds are the names that a daemon declares where a mode asks for one of them, each with the rest
// of its definition.
var kinds = [][2]string{
	{"orders", "sequence"},
	{"uuid4", "uuid4"}, {"uuid7", "uuid7"}, {"ulid", "ulid"}, {"objectid", "objectid"},
}

// textLength is the length of a kind's ids that are not numbers.
var textLength = map[string]int{"uuid4": 36, "uuid7": 36, "ulid": 26, "objectid": 24}

// multiKeys is how many keys a multi-get asks for.
const multiKeys = 100

// modes are all there are, in the order of the report.
func modes() []mode {
	closed := func(n int) mode {
		return mode{name: fmt.Sprintf("c%d", n), title: fmt.Sprintf("get, %d connections", n), conns: n}
	}
	one := closed(1)
	one.title = "get, 1 connection"
	pipelinedKind := func(kind string) mode {
		return mode{name: kind, title: "get of a " + kind + ", 16 pipelined x 16 connections", conns: 16, depth: 16,
			key: kind}
	}
	all := []mode{
		one, closed(16), closed(64), closed(256), closed(1000),
		{name: "pipelined", title: "get, 16 pipelined x 16 connections", conns: 16, depth: 16},
		{name: "multiget", title: "get of 100 keys x 16 connections", conns: 16, keys: multiKeys},
		{name: "beside-one", title: "get, 64 connections, beside one that asks for 10,000 ids at a time", greedy: 1},
		{name: "beside-four", title: "get, 64 connections, beside four that ask for 10,000 ids at a time", greedy: 4},
		{name: "many-names", title: "get, 64 connections, 10,000 names declared", names: scrapedNames},
		{name: "beside-metrics", title: "get, 64 connections, 10,000 names, beside ten scrapes of /metrics a second",
			names: scrapedNames, scraped: true},
		{name: "http", title: "HTTP GET /id, 64 connections", dialect: "http", via: overHTTP},
		{name: "binary", title: "binary GET, 64 connections", dialect: "binary"},
		{name: "meta", title: "meta get (mg), 64 connections", dialect: "meta"},
		{name: "meta-pipelined", title: "meta get (mg), 16 pipelined x 16 connections", dialect: "meta", conns: 16,
			depth: 16},
		{name: "unix", title: "get, unix socket, 64 connections", via: overUnix},
		{name: "plain", title: "get, plain, crypto/tls client, 64 connections", client: goClient},
		{name: "tls", title: "get, TLS, crypto/tls client, 64 connections", client: goClient, via: overTLS},
		{name: "names", title: "get id, 64 connections, 100 names declared", names: manyNames},
		{name: "names-pipelined", title: "get id, 16 pipelined x 16 connections, 100 names", conns: 16, depth: 16,
			names: manyNames},
		{name: "names-multiget", title: "get of 100 undeclared keys x 16 connections, 100 names", conns: 16, keys: multiKeys,
			names: manyNames},
		{name: "sequence", title: "get of a sequence, 16 pipelined x 16 connections", conns: 16, depth: 16, key: "orders"},
		{name: "sequence100", title: "get of a sequence 100 times x 16 connections", conns: 16, keys: multiKeys,
			key: "orders"},
		pipelinedKind("uuid4"), pipelinedKind("uuid7"), pipelinedKind("ulid"), pipelinedKind("objectid"),
		{name: "incr", title: "INCR of a sequence, 64 connections", dialect: "incr", key: "orders"},
		{name: "incr-pipelined", title: "INCR of a sequence, 16 pipelined x 16 connections", dialect: "incr", key: "orders",
			conns: 16, depth: 16},
		{name: "resp", title: "GET over RESP, 64 connections", dialect: "get"},
		{name: "free-pipelined", title: "get of a sequence, 16 pipelined x 64 connections", depth: 16, key: "orders",
			role: leads},
		{name: "strict-pipelined", title: "get of a sequence in strict order from its leader, 16 pipelined x 64 connections",
			depth: 16, key: "tickets", role: leads},
		{name: "snowflake-pipelined", title: "get id, 16 pipelined x 64 connections", depth: 16, role: leads},
		{name: "timestamps-pipelined", title: "get of a timestamp in strict order from its leader, " +
			"16 pipelined x 64 connections", depth: 16, key: "tx", role: leads},
		{name: "leader", title: "get of a sequence in strict order from its leader, 64 connections", key: "tickets",
			role: leads},
		{name: "follower", title: "get of a sequence in strict order through a follower, 64 connections", key: "tickets",
			role: follows},
		{name: "idle", title: "idle connections", client: idleClient, conns: 10000},
	}
	all = slices.Insert(all, 1, thinkers()...)
	for i := range all {
		m := &all[i]
		m.dialect = orDefault(m.dialect, "text")
		m.key = orDefault(m.key, "id")
		if m.key != "id" {
			m.names = max(m.names, len(kinds))
		}
		m.via = orDefault(m.via, overTCP)
		m.conns = orDefault(m.conns, 64)
		m.depth = orDefault(m.depth, 1)
		m.keys = orDefault(m.keys, 1)
	}
	return all
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// chooseModes picks modes by name, in the order of the report; an empty list means all.
func chooseModes(list string) ([]mode, error) {
	all := modes()
	if list == "" {
		return all, nil
	}
	want := map[string]bool{}
	for _, name := range strings.Split(list, ",") {
		want[name] = true
	}
	var chosen []mode
	for _, m := range all {
		if want[m.name] {
			chosen = append(chosen, m)
			delete(want, m.name)
		}
	}
	for name := range want {
		return nil, fmt.Errorf("no mode %q; there are %s", name, modeNames())
	}
	return chosen, nil
}

func modeNames() string {
	var names []string
	for _, m := range modes() {
		names = append(names, m.name)
	}
	return strings.Join(names, ",")
}

// newDialect makes the requests and the grammar of a mode for a server that speaks speech,
// "memcached" or "redis"; nil if the server has no such thing. Each of the generator's loops needs
// its own.
func newDialect(m mode, speech string, ids idCheck) dialect {
	switch {
	case (speech == "http") != (m.dialect == "http") && speech != "memcached":
		return nil
	case m.dialect == "incr" || speech == "redis" && m.dialect == "text" && m.keys == 1 && m.key == "id":
		return respIncr(m.key, ids)
	case m.dialect == "http":
		return httpDialect{ids}
	case m.dialect == "get":
		return respGet(m.key, ids)
	case speech == "redis":
		return nil
	case m.dialect == "binary":
		return binaryDialect{ids}
	case m.dialect == "meta":
		return newMeta(ids)
	default:
		return newText(m.key, m.keys, ids)
	}
}
