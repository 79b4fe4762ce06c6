package etcd_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

var bg = context.Background()

// What two clusters answer in turn is not mixed.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	m, other := etcdtest.Start(t), etcdtest.Start(t)
	s := open(t, "etcd://"+m.Addr()+","+other.Addr()+"?ns=two", patient)
	seen := map[uint64]bool{}
	for range 20 {
		s.Define(bg, counter.Sequence("orders"))
		b, err := s.Reserve(bg, "orders", 1)
		if err == nil && seen[b.Lo] {
			t.Fatalf("%d twice", b.Lo)
		} else if err != nil && !counter.Certain(err) && !errors.Is(err, counter.ErrUnavailable) {
			t.Error(err)
		}
		seen[b.Lo] = err == nil || seen[b.Lo]
	}
	for _, server := range []*etcdtest.Member{m, other} {
		server.Put("/katsubushi/two/node/"+server.Addr(), `{"version":1,"redis":"h:1"}`)
	}
	nodes, refusals := map[leader.NodeKey]bool{}, 0
	for range 20 {
		_, now, err := s.Commit(bg, leader.Change{})
		for _, n := range now.Nodes {
			nodes[n] = true
		}
		if errors.Is(err, leader.ErrReplaced) {
			refusals++
		} else if err != nil && !errors.Is(err, counter.ErrUnavailable) {
			t.Error(err)
		}
	}
	if len(nodes) != 1 || refusals == 0 {
		t.Errorf("the election of two clusters: %v, and %d answers refused", nodes, refusals)
	}
}

// Whatever its members do, three of them grant nothing twice, and go on as soon as two of them can.
func TestThreeMembers(t *testing.T) {
	t.Parallel()
	all := etcdtest.Cluster(t, 3)
	url := etcdtest.URL(t, all...)
	countertest.Define(t, open(t, url, patient))
	var granted countertest.Grants
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	for range 3 { // daemons
		s := open(t, url, time.Second)
		wg.Go(func() {
			for ctx.Err() == nil {
				b, err := s.Reserve(ctx, "orders", 1)
				if err != nil && !errors.Is(err, counter.ErrUnavailable) {
					t.Error(err)
				}
				if err != nil {
					continue
				}
				if b.Lo%3 == 0 { // as a daemon that stops
					if err := s.Return(ctx, "orders", b, b.Lo); !errors.Is(err, counter.ErrStale) {
						continue // it may be given back or not: it must not be used
					}
				}
				granted.Add(b, nil)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	more := func(when string) {
		t.Helper()
		want := granted.Len() + 30
		all[0].Until("blocks are granted "+when, func() bool { return granted.Len() >= want })
	}
	more("at first")
	leader := etcdtest.Leader(all)
	leader.Kill()
	more("after the leader was killed")
	leader.Launch()
	leader = etcdtest.Leader(all)
	leader.Pause()
	more("while the leader stands still")
	leader.Resume()
	more("after it goes on")
	all[0].Kill()
	all[1].Pause()
	if _, err := open(t, url, time.Second).Reserve(bg, "orders", 1); !errors.Is(err, counter.ErrUnavailable) {
		t.Errorf("without a majority: %v", err)
	}
	all[1].Resume()
	more("with a majority again")
	cancel()
	wg.Wait()
	granted.Check(t, 1, false)
}
