package resp

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Clients of a Redis cluster ask one server for all, and for the slots that each of them serves.
// Without a protocol.Topology the cluster is this server, which serves all slots.

// cluster answers the subcommands of CLUSTER. It allocates.
func (s *Session) cluster(t *turn, sub string, a arguments) {
	switch sub {
	case "keyslot":
		t.integer(int64(id.Slot(a.next())))
		return
	case "countkeysinslot":
		if _, ok := t.slot(a.next()); ok {
			t.integer(0)
		}
		return
	case "getkeysinslot":
		t.keysInSlot(a)
		return
	}
	c, ip := s.topology()
	switch sub {
	case "slots":
		t.slots(c.Nodes)
	case "shards":
		t.array(len(c.Nodes))
		for _, n := range c.Nodes {
			s.shard(t, n, cmp.Or(ip, n.Host))
		}
	case "nodes":
		var b []byte
		for _, n := range c.Nodes {
			b = appendNode(b, c, n, cmp.Or(ip, n.Host))
		}
		s.verbatim(t, string(b))
	case "info":
		s.clusterInfo(t, c)
	case "myid":
		t.text(c.Self)
	}
}

// topology returns the cluster. ip is this server's address if its host has a name, and the cluster is
// this server alone.
func (s *Session) topology() (c protocol.Topology, ip string) {
	if s.config.Topology != nil {
		return s.config.Topology(), ""
	}
	host, ip, port := s.address()
	number, _ := strconv.ParseInt(port, 10, 32)
	all := []protocol.Slots{{First: 0, Last: id.Slots - 1}}
	self := protocol.Node{ID: s.node(), Host: host, Port: int(number), Slots: all}
	return protocol.Topology{Self: self.ID, Nodes: []protocol.Node{self}, Epoch: 1}, ip
}

// clusterMode says whether this server is a member of a cluster: in HELLO, in INFO and in CONFIG GET.
func (s *Session) clusterMode() (mode, flag, setting string) {
	if s.config.Topology != nil {
		return "cluster", "1", "yes"
	}
	return "standalone", "0", "no"
}

// remote says what happens to reads of names that another server leads. A client that sent READONLY asks
// this server as a replica of that one.
func (s *Session) remote() protocol.Remote {
	if s.is&reads != 0 {
		return protocol.Fetch
	}
	return protocol.Redirect
}

// turnsAway answers a command if another server must: if a name of its keys is issued there. As in
// Redis, all names of the command must have one slot then; only those count that servers lead. a is what
// follows the command's name.
func (s *Session) turnsAway(t *turn, e *entry, a arguments) bool {
	switch {
	case s.config.Topology == nil, e.kind != protocol.CmdGet && e.kind != protocol.CmdIncr || e.refused:
		return false
	case s.is&reads != 0 && e.kind == protocol.CmdGet:
		return false
	}
	keys := a.n
	if e.name == "incrby" {
		keys = 1
	}
	var away id.Elsewhere
	slot, gone, several := -1, false, false
	for range keys {
		p, ok := s.config.Handler.Source(a.next()).(id.Punctual)
		if !ok {
			continue
		}
		at, elsewhere := p.Where()
		several = several || slot >= 0 && slot != at.Slot
		slot = at.Slot
		if elsewhere {
			away, gone = at, true
		}
	}
	switch {
	case !gone:
		return false
	case several:
		t.blame(errCrossSlot)
	default:
		t.Add(protocol.Refused, keys)
		t.redirect(away)
	}
	return true
}

// slots answers CLUSTER SLOTS, in the order of the slots. A range has its owner first, and behind it all other
// servers as replicas, owners of other ranges too: each of them answers reads after READONLY. phpredis 5.3
// crashes when a slot of an owner without replicas moves to a server that it was not told of.
func (t *turn) slots(nodes []protocol.Node) {
	owner := map[protocol.Slots]int{}
	for i, node := range nodes {
		for _, r := range node.Slots {
			owner[r] = i
		}
	}
	t.array(len(owner))
	byFirst := func(a, b protocol.Slots) int { return a.First - b.First }
	for _, r := range slices.SortedFunc(maps.Keys(owner), byFirst) {
		members := []protocol.Node{nodes[owner[r]]}
		for i, n := range nodes {
			if i != owner[r] && n.Port != 0 { // clients can reach it
				members = append(members, n)
			}
		}
		t.array(2 + len(members))
		t.integer(int64(r.First))
		t.integer(int64(r.Last))
		for _, n := range members {
			t.array(4)
			t.text(n.Host)
			t.integer(int64(n.Port))
			t.text(n.ID)
			t.array(0)
		}
	}
}

// shard appends a node as CLUSTER SHARDS describes it.
func (s *Session) shard(t *turn, n protocol.Node, ip string) {
	s.pairs(t, 2)
	t.text("slots")
	t.array(2 * len(n.Slots))
	for _, r := range n.Slots {
		t.integer(int64(r.First))
		t.integer(int64(r.Last))
	}
	t.text("nodes")
	t.array(1)
	s.pairs(t, 7)
	for _, pair := range [][2]string{{"id", n.ID}, {"ip", ip}, {"endpoint", n.Host}, {"role", "master"},
		{"health", "online"}} {
		t.text(pair[0])
		t.text(pair[1])
	}
	t.text("port")
	t.integer(int64(n.Port))
	t.text("replication-offset")
	t.integer(0)
}

// appendNode appends a line of CLUSTER NODES.
func appendNode(b []byte, c protocol.Topology, n protocol.Node, ip string) []byte {
	name, flags := "", "master"
	if n.Host != ip {
		name = "," + n.Host
	}
	if n.ID == c.Self {
		flags = "myself,master"
	}
	b = fmt.Appendf(b, "%s %s:%d@%d%s %s - 0 0 %d connected", n.ID, ip, n.Port, n.Port, name, flags, c.Epoch)
	for _, r := range n.Slots {
		if b = fmt.Appendf(b, " %d", r.First); r.Last > r.First {
			b = fmt.Appendf(b, "-%d", r.Last)
		}
	}
	return append(b, '\n')
}

// clusterInfo answers CLUSTER INFO. As in Redis, a cluster with a slot without an owner has failed.
func (s *Session) clusterInfo(t *turn, c protocol.Topology) {
	owned, size, state := 0, 0, "ok"
	for _, n := range c.Nodes {
		for _, r := range n.Slots {
			owned += r.Last - r.First + 1
		}
		size += min(len(n.Slots), 1)
	}
	if owned < id.Slots {
		state = "fail"
	}
	s.verbatim(t,
		fmt.Sprintf("cluster_state:%s\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\ncluster_slots_pfail:0\r\n"+
			"cluster_slots_fail:0\r\ncluster_known_nodes:%d\r\ncluster_size:%d\r\ncluster_current_epoch:%d\r\n"+
			"cluster_my_epoch:%d\r\n",
			state, owned, owned, len(c.Nodes), size, c.Epoch, c.Epoch))
}

// slot reads the number of a slot, or replies with an error.
func (t *turn) slot(b []byte) (slot int64, ok bool) {
	slot, ok = parseInt(b)
	switch {
	case !ok:
		t.blame(errNotInteger)
	case slot < 0 || slot >= id.Slots:
		t.blame("ERR Invalid slot")
		ok = false
	}
	return slot, ok
}

// keysInSlot answers CLUSTER GETKEYSINSLOT: nothing is stored.
func (t *turn) keysInSlot(a arguments) {
	slot, ok := parseInt(a.next())
	most, ok2 := parseInt(a.next())
	switch {
	case !ok || !ok2:
		t.blame(errNotInteger)
	case slot < 0 || slot >= id.Slots || most < 0:
		t.blame("ERR Invalid slot or number of keys")
	default:
		t.array(0)
	}
}

// address returns where clients reach this server; port is 0 where that is not known.
func (s *Session) address() (host, ip, port string) {
	host, rest, _ := strings.Cut(s.config.Cluster, "|")
	ip, port, _ = strings.Cut(rest, "|")
	if port == "" {
		port = "0"
	}
	return host, ip, port
}

// node returns this server's name in the cluster, which no other address has.
func (s *Session) node() string {
	sum := sha1.Sum([]byte(s.config.Cluster))
	return hex.EncodeToString(sum[:])
}
