package resp

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
)

// Clients of a Redis cluster ask one server for all, and for the slots that each of them serves.
// Here the cluster is this server, which serves all slots.

const slots = 16384

// cluster answers the subcommands of CLUSTER.
func (s *Session) cluster(t *turn, e *entry, a arguments) {
	host, ip, port := s.address()
	number, _ := strconv.ParseInt(port, 10, 32)
	switch e.does {
	case clusterSlots:
		t.array(1)
		t.array(3)
		t.integer(0)
		t.integer(slots - 1)
		t.array(4)
		t.text(host)
		t.integer(number)
		t.text(s.node())
		t.array(0)
	case clusterShards:
		t.array(1)
		s.pairs(t, 2)
		t.text("slots")
		t.array(2)
		t.integer(0)
		t.integer(slots - 1)
		t.text("nodes")
		t.array(1)
		s.pairs(t, 7)
		for _, pair := range [][2]string{{"id", s.node()}, {"ip", ip}, {"endpoint", host}, {"role", "master"}, {"health", "online"}} {
			t.text(pair[0])
			t.text(pair[1])
		}
		t.text("port")
		t.integer(number)
		t.text("replication-offset")
		t.integer(0)
	case clusterNodes:
		name := ""
		if host != ip {
			name = "," + host
		}
		s.verbatim(t, s.node()+" "+ip+":"+port+"@"+port+name+" myself,master - 0 0 1 connected 0-16383\n")
	case clusterInfo:
		s.verbatim(t, "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\ncluster_slots_pfail:0\r\n"+
			"cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n")
	case clusterKeySlot:
		t.integer(int64(slotOf(a.next())))
	case clusterMyID:
		t.text(s.node())
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

// slotOf returns the slot of a key: of the part in braces, if there is one.
func slotOf(key []byte) uint16 {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1:][:n]
		}
	}
	return crc16(key) % slots
}

// crc16 is the one of XMODEM.
func crc16(b []byte) (sum uint16) {
	for _, c := range b {
		sum ^= uint16(c) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
