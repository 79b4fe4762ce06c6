package memcache

import (
	"strconv"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Amazon's clients, and others written for ElastiCache, ask one server of a cluster for the list of
// all: `config get cluster`, or CONFIG_GET in binary. Here the list contains only this daemon.

// clusterKey is the only configuration that exists.
const clusterKey = "cluster"

// clusterList is the value of clusterKey: a version, which never changes, and the nodes.
func (s *Session) clusterList() string { return "1\n" + s.config.Cluster + "\n" }

// configure answers the config command, which is unknown if the daemon's address is not known.
func (s *Session) configure(t *turn, rest []byte) {
	t.Add(protocol.CmdOther, 1)
	f := split(rest)
	switch {
	case s.config.Cluster == "", f.n != 2, string(f.at(0)) != "get":
		t.blame(errUnknown)
	case len(f.at(1)) > protocol.MaxKey:
		t.blame(errFormat)
	case string(f.at(1)) != clusterKey:
		t.Say("END\r\n")
	default:
		list := s.clusterList()
		t.Say("CONFIG " + clusterKey + " 0 ")
		t.Out = strconv.AppendInt(t.Out, int64(len(list)), 10)
		t.Say("\r\n")
		t.Say(list)
		t.Say("\r\nEND\r\n")
	}
}

// binaryConfigure is configure in binary: it answers like a get, with four bytes of flags.
func (s *Session) binaryConfigure(t *turn, h *header, key []byte) {
	if string(key) != clusterKey {
		t.fail(h, failNotFound)
		return
	}
	list := s.clusterList()
	t.Out = append(h.appendResponse(t.Out, statusOK, len(noFlags), 0, len(list), 0), noFlags...)
	t.Say(list)
}
