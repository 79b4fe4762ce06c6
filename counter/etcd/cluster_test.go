package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// What another cluster says of leaders, as a restored copy of the first one does, is neither learnt from an
// answer nor from a watch: two clusters have two leaders. Nor is anything written within a term there.
func TestAnotherClusterElectsNobody(t *testing.T) {
	s, err := Open(Config{URL: "etcd://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const text = `{"version":1,"id":"x","redis":"h:1","term":7,"heir":""}`
	pair := etcdlink.Pair{Key: s.leaderKey(3), Text: text, Revision: 9}
	answer := func(cluster string) etcdlink.Answer {
		return etcdlink.Answer{Cluster: cluster, Found: []etcdlink.Found{{Pairs: []etcdlink.Pair{pair}}, {}, {}}}
	}
	want := leader.Leader{Node: leader.Node{ID: "x", Redis: "h:1"}, Number: 7, Revision: 9}
	for range 2 {
		now, err := s.election(answer("aa"))
		if err != nil || now.Leaders[3] != want {
			t.Fatalf("%+v, %v", now.Leaders[3], err)
		}
		if written := s.written(answer("aa")); written[3] != want {
			t.Fatalf("%+v", written)
		}
		now, err = s.election(answer("bb"))
		if !errors.Is(err, leader.ErrReplaced) || now.Leaders[3] != (leader.Leader{}) {
			t.Errorf("an answer of another cluster: %+v, %v", now.Leaders[3], err)
		}
		for _, words := range []string{"/leader/: this is cluster bb", "the daemon began with aa", "restart"} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v: it does not say %q", err, words)
			}
		}
		if written := s.written(answer("bb")); written != nil {
			t.Errorf("a watch of another cluster: %+v", written)
		}
	}
	strict := &ledger.Basic{Record: counter.Record{Definition: counter.Definition{Name: "orders", Strict: true}}}
	fence := &within{Store: s, term: leader.Term{Group: 3, Fence: 9}}
	in := func(cluster string) ledger.Found {
		return ledger.Found{Entry: strict, Version: version{cluster: cluster}}
	}
	if err := (driver{s}).Admit(fence, in("aa")); err != nil {
		t.Error(err)
	}
	if err := (driver{s}).Admit(fence, in("bb")); !errors.Is(err, counter.ErrForeign) {
		t.Errorf("a write within a term in another cluster: %v", err)
	}
}
