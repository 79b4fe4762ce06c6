//go:build linux

package main

import (
	"fmt"
	"strings"
)

// A setup is one client as somebody would have it set up.
type setup struct {
	name     string
	language string
	protocol string // text, meta, binary, RESP2, RESP3 or gRPC; "text, binary" if it uses both
	needs    string // what to install; see installer. The first is the client itself, whose version is reported
	build    string // shell command run before; $WORK is a directory of the set-up's own
	snippet  string // file in $WORK into which the language's lines of docs/CLIENTS.md go before build and run
	// shell command; $HOST and $PORT are the daemon, $REDIS_PORT and $GRPC_PORT too, $SPARE_PORT and
	// $STATS_PORT are free
	run string
	// get, cas, multi, incr, incrby, exec, version, stats, groups, health: what the client has, and
	// therefore must do
	does     string
	shows    string // statistics that must be positive, if not the usual ones
	lists    string // statistics that must be there and numbers, zero included
	optional string // why it is skipped where it cannot be installed, even if everything is required
	// the daemon it needs: "" for the usual one, auth, cluster, grpc, sequence, tls, udp or unix; or a
	// fleet, see follow.go
	server string
	hint   string // the one line of set-up that a user needs, for RESULTS.md
}

func (s *setup) String() string { return fmt.Sprintf("%s (%s, %s)", s.name, s.language, s.protocol) }

// dir is a name for the set-up's directory.
func (s *setup) dir() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s.name+" "+s.protocol)
}
