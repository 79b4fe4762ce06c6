package scripted

import (
	"strconv"

	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// A Server is what the scripts see of a Redis server that holds one pool. It has no clock: calls are told its time.
type Server struct {
	Run, Replid string // ids of the process and of the data's origin, hexadecimal
	Replica     bool
	Online      int // its replicas that are connected
	Keys        Keys
}

// Keys are what the pool's keys hold, by the members of the sorted set or the fields of a hash. They do not change.
type Keys [5]map[string]string

// The keys, as script.Keys has them.
const (
	ids = iota // when the lease ends, Unix s
	clients
	_ // stats
	marks
	meta
)

// Empty reports whether there is no worker id.
func (k *Keys) Empty() bool { return len(k[ids]) == 0 }

// Meta is a field of NS:meta, or "".
func (k *Keys) Meta(field string) string { return k[meta][field] }

// Time is a field of NS:meta that is a time, ms, or 0.
func (k *Keys) Time(field string) int64 {
	n, _ := strconv.ParseInt(k.Meta(field), 10, 64)
	return n
}

// A Lease is what is recorded of a worker id.
type Lease struct {
	Ends      float64 // Unix s
	Owner     string
	HighWater int64
	RequestID string
	Lo        int64
}

// Lease returns what is recorded of a worker id. What is missing is zero.
func (k *Keys) Lease(worker uint64) (l Lease) {
	m := script.Member(worker)
	l.Ends, _ = strconv.ParseFloat(k[ids][m], 64)
	l.Owner = k[clients][m]
	l.HighWater, l.RequestID, l.Lo, _ = script.ParseRecord(k[marks][m])
	return l
}

// Operator is the terms of an operator, who has no lease, from those of daemons.
func Operator(t script.Terms) script.Terms {
	t.Fingerprint, t.Lease, t.MaxLease, t.Replicas, t.Min, t.Max = "", 0, 0, -1, 1, 0
	return t
}
