package etcdlink

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
)

// An Op reads or writes keys within a transaction.
type Op = clientv3.Op

// A Cmp compares something of a key with what it must be.
type Cmp = clientv3.Cmp

// Put writes a key that stays.
func Put(key, text string) Op { return clientv3.OpPut(key, text) }

// PutFor writes a key that ends with a lease.
func PutFor(lease int64, key, text string) Op {
	return clientv3.OpPut(key, text, clientv3.WithLease(clientv3.LeaseID(lease)))
}

// Delete deletes a key.
func Delete(key string) Op { return clientv3.OpDelete(key) }

// Get reads a key.
func Get(key string) Op { return clientv3.OpGet(key) }

// All reads the keys that begin so.
func All(prefix string) Op { return clientv3.OpGet(prefix, clientv3.WithPrefix()) }

// AtMost reads the first n keys that begin so, and counts them all.
func AtMost(n int64, prefix string) Op {
	return clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithLimit(n))
}

// Count counts the keys that begin so.
func Count(prefix string) Op {
	return clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
}

// Latest reads the key that was written last, of those that begin so, without its text.
func Latest(prefix string) Op {
	return clientv3.OpGet(prefix, append(clientv3.WithLastRev(), clientv3.WithPrefix(), clientv3.WithKeysOnly())...)
}

// TextIs compares a key's text. A key that is not there has none, not even an empty one.
func TextIs(key, text string) Cmp { return clientv3.Compare(clientv3.Value(key), "=", text) }

// Absent is true if the key is not there.
func Absent(key string) Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

// RevisionIs compares the revision that wrote a key last; 0 = it is not there.
func RevisionIs(key string, r int64) Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", r)
}

// LeaseIs compares the lease that a key ends with.
func LeaseIs(key string, lease int64) Cmp {
	return clientv3.Compare(clientv3.LeaseValue(key), "=", lease)
}

// A Pair is a key and what it holds.
type Pair struct {
	Key, Text string
	Revision  int64 // that wrote it last
}

// A Found is what an Op has read; zero if it wrote.
type Found struct {
	Pairs []Pair // by key
	Count int64  // of keys that there are, also beyond a limit
}

// An Answer is that of a transaction.
type Answer struct {
	Done    bool // what was compared was true
	Found   []Found
	Cluster string // its id, in hex
	Member  string // that answered
	History History
}

// A History is how far etcd has come. Both go back when an older state is restored.
type History struct{ Revision, Term int64 }

func answerOf(r *clientv3.TxnResponse) Answer {
	a := Answer{Done: r.Succeeded}
	a.read(r.Header)
	for _, op := range r.Responses {
		var f Found
		if got := op.GetResponseRange(); got != nil {
			f = Found{pairsOf(got.Kvs), got.Count}
		}
		a.Found = append(a.Found, f)
	}
	return a
}

func (a *Answer) read(h *etcdserverpb.ResponseHeader) {
	a.Cluster, a.Member = fmt.Sprintf("%x", h.ClusterId), fmt.Sprintf("%x", h.MemberId)
	a.History = History{h.Revision, int64(h.RaftTerm)}
}

func pairsOf(kvs []*mvccpb.KeyValue) (pairs []Pair) {
	for _, kv := range kvs {
		pairs = append(pairs, Pair{string(kv.Key), string(kv.Value), kv.ModRevision})
	}
	return pairs
}
