package redis

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// newCluster starts a cluster of n masters and makes a world of it whose pool is on the first of
// them; daemons ask the last.
func newCluster(t *testing.T, n int) (*world, []*redistest.Server) {
	t.Parallel()
	nodes := redistest.Cluster(t, n)
	w := worldOf(t, nodes[0])
	for i := 0; ; i++ {
		name := fmt.Sprint("pool", i)
		if slot := w.server.Do("CLUSTER", "KEYSLOT", "{"+name+"}").(int64); slot < int64(16384/n) {
			w.config.URL = fmt.Sprintf("rediscluster://%s/?ns=%s", nodes[n-1].Addr(), name)
			w.namespace = "{" + name + "}"
			return w, nodes
		}
	}
}

func TestCluster(t *testing.T) {
	w, nodes := newCluster(t, 2)
	at := map[string]bool{}
	for i := range 8 { // namespaces, some on either node, asked of the first
		w.config.URL = fmt.Sprintf("rediscluster://%s/?ns=another%d", w.server.Addr(), i)
		w.config.HoldRaus = fmt.Sprint("raus", i) // whose locks are on any node
		w.windows = map[uint64][]window{}
		holders := w.holders(2)
		w.keepTheirIDs(holders)
		at[holders[0].Status().Addr] = true
	}
	if len(at) != 2 || !at[nodes[0].Addr()] || !at[nodes[1].Addr()] {
		t.Errorf("the pools are on %v", at)
	}
}

// The pool's slot moves to another node, key by key. Meanwhile no part of a call is carried out
// here or there; afterwards the holders find the node, prove what they hold, and newcomers wait:
// the node has a history of its own.
func TestClusterSlotMigration(t *testing.T) {
	w, nodes := newCluster(t, 2)
	from, to := nodes[0], nodes[1]
	holders := w.holders(2)
	newcomer := w.daemon()
	slot := from.Do("CLUSTER", "KEYSLOT", w.key("ids"))
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID())
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID())
	w.keepTheirIDs(holders)
	keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
	if len(keys) != 5 {
		t.Fatalf("%v are in the slot", keys)
	}
	for _, key := range keys {
		from.Do("MIGRATE", "127.0.0.1", to.Port, key, 0, 5000)
		w.advance(1000)
		for _, d := range holders {
			w.uncertain(d.tryExtend(redislink.Patience))
		}
		w.uncertain(newcomer.tryAcquire(redislink.Patience))
	}
	for _, s := range []*redistest.Server{to, from} {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", to.NodeID())
	}
	loss := w.now()
	w.want(newcomer.settleAcquire(), workerid.ErrNoID)
	w.keepTheirIDs(holders)
	for _, d := range holders {
		if s := d.Status(); s.Addr != to.Addr() {
			t.Errorf("%+v", s)
		}
	}
	if err := holders[0].release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.waits(newcomer, loss)
}

// A node names itself for the slot and serves nothing, as a master does that the others have gone
// on without: another node is asked.
func TestAClusterNodeThatIsBehind(t *testing.T) {
	w, nodes := newCluster(t, 1)
	behind := redistest.Cluster(t, 1)[0]
	behind.Do("CLUSTER", "DELSLOTS", 16383) // which is not the pool's, and enough for it to be down
	w.config.HoldRaus = "raus"
	d := w.holders(1)[0]
	w.config.URL = fmt.Sprintf("rediscluster://%s,%s/?ns=%s", behind.Addr(), nodes[0].Addr(),
		w.namespace[1:len(w.namespace)-1])
	late := w.daemon()
	err := late.tryAcquire(redislink.Patience)
	for range 5 {
		if err == nil {
			break
		}
		err = late.tryAcquire(redislink.Patience)
	}
	if s := late.Status(); err != nil || late.grant.Worker == d.grant.Worker || s.Addr != w.server.Addr() {
		t.Errorf("%+v, %v, %+v", late.grant, err, s)
	}
}

// The node that has the pool dies with its last writes, and the cluster makes its replica the master.
func TestClusterFailOver(t *testing.T) {
	w, nodes := newCluster(t, 3)
	replica := redistest.ClusterReplica(nodes)
	holders := w.holders(2)
	replica.CatchUp(w.server)
	replica.Pause()
	// it hears nothing any more, and finds that out when it is too late
	w.server.Do("CLIENT", "KILL", "TYPE", "replica")
	last := w.daemon()
	last.acquire()
	w.advance(20000)
	for _, d := range append(holders, last) {
		d.extend()
	}
	w.server.Kill()
	replica.Resume()
	w.uncertain(holders[0].tryExtend(redislink.Patience))
	w.server.Until("the cluster has failed over", func() bool { return replica.Info("role") == "master" })
	if replica.Do("HGET", w.key("hw"), "A3") != nil {
		t.Fatal("nothing was lost")
	}
	w.server.Until("the nodes know of it", func() bool { return holders[0].tryExtend(redislink.Patience) == nil })
	loss := w.now() + 5000 // when the others come
	w.keepTheirIDs(append(holders, last))
	newcomer := w.daemon()
	w.want(newcomer.settleAcquire(), workerid.ErrNoID)
	if s := last.Status(); s.Addr != replica.Addr() {
		t.Errorf("%+v", s)
	}
	w.server.Launch() // it finds that it is a replica now, and says so to who asks it for the master
	w.server.Until("the old node is a replica", func() bool { return w.server.Info("role") == "slave" })
	w.config.URL = fmt.Sprintf("rediscluster://%s/?ns=%s", nodes[0].Addr(), w.namespace[1:len(w.namespace)-1])
	w.want(w.daemon().settleAcquire(), workerid.ErrNoID)
	if err := last.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.waits(newcomer, loss)
}
