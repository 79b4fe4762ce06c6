package etcd

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// What another cluster says of leaders, as a restored copy of the first one does, is not learnt from a watch either.
func TestAnotherClusterIsNotWatched(t *testing.T) {
	s, err := Open(Config{URL: "etcd://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pair := etcdlink.Pair{Key: s.leaderKey(3), Revision: 9,
		Text: `{"version":1,"id":"x","redis":"h:1","term":7,"heir":""}`}
	for cluster, want := range map[string]leader.Leader{
		"aa": {Node: leader.Node{ID: "x", Redis: "h:1"}, Number: 7, Revision: 9}, "bb": {},
	} {
		_ = s.began("aa")
		written := s.written(etcdlink.Answer{Cluster: cluster, Found: []etcdlink.Found{{Pairs: []etcdlink.Pair{pair}}}})
		if written[3] != want {
			t.Errorf("%s: %+v, want %+v", cluster, written, want)
		}
	}
}
