package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A pair is a master, a replica that is reached over a proxy which can lose what the master sends,
// and a proxy for daemons, which is what tells them who the master is.
type pair struct {
	*world
	replica     *redistest.Server
	replication *redistest.Proxy // nil: it reaches its master directly
	front       *redistest.Proxy
}

func newPair(t *testing.T) *pair {
	w := newWorld(t)
	p := &pair{world: w, replication: redistest.NewProxy(t, w.server.Addr()),
		front: redistest.NewProxy(t, w.server.Addr())}
	p.replica = w.server.ReplicaAt(p.replication.Addr())
	w.config.URL = "redis://" + p.front.Addr() + "/0?ns=" + redistest.Namespace(t)
	return p
}

func (p *pair) catchUp() { p.replica.CatchUp(p.server) }

// failOver makes the replica the master, without what was dropped, and sends daemons there.
func (p *pair) failOver() {
	p.Helper()
	p.front.Cut()
	if p.replication != nil {
		p.replication.Refuse(true)
		p.replication.Cut()
	}
	p.replica.Promote()
	p.front.Retarget(p.replica.Addr())
}

// losingTheLastWrites fails over to a replica that hears nothing any more after deafen.
func (p *pair) losingTheLastWrites(deafen func()) {
	holders := p.holders(2)
	p.catchUp()
	deafen()
	last := p.daemon()
	last.acquire()
	p.advance(20000)
	for _, d := range append(holders, last) {
		d.extend()
	}
	p.server.Kill()
	p.failOver()
	if p.record3() != "" {
		p.Fatal("nothing was lost")
	}
	loss := p.now() + 5000
	p.keepTheirIDs(append(holders, last)) // even the one whose acquisition was lost
	newcomer := p.daemon()
	p.want(newcomer.settleAcquire(), workerid.ErrNoID)
	if err := holders[0].release(p.now()); err != nil {
		p.Fatal(err)
	}
	p.waits(newcomer, loss)
}

func TestFailOverLosingTheLastWrites(t *testing.T) {
	p := newPair(t)
	p.losingTheLastWrites(func() { p.replication.Answers(redistest.Drop) })
}

// The same without a proxy: packets between the two servers are lost until the master is dead and
// forgotten.
func TestFailOverLosingTheLastWritesInTheNetwork(t *testing.T) {
	if !redistest.InOwnNetwork(t) {
		return
	}
	const ip = "127.0.0.2"
	w := newWorld(t, "--protected-mode", "no") // a loopback address other than 127.0.0.1 would not be let in
	p := &pair{world: w, replica: w.server.Replica("--bind-source-addr", ip),
		front: redistest.NewProxy(t, w.server.Addr())}
	w.config.URL = "redis://" + p.front.Addr() + "/0?ns=" + redistest.Namespace(t)
	p.losingTheLastWrites(func() { redistest.DropPackets(t, ip) })
}

// The daemon does not get answers that come too late, so they are not grants to it. The new master may
// know only of such an answer.
func TestFailOverToAnUnheardExtension(t *testing.T) {
	p := newPair(t)
	d := p.holders(1)[0]
	late := func() {
		t.Helper()
		count := p.server.Do("HGET", p.key("stats"), "extend_ttl_success")
		p.front.Answers(redistest.Hold)
		p.advance(1000)
		p.uncertain(d.sendExtend(p.front))
		p.server.Until("it is carried out", func() bool {
			return p.server.Do("HGET", p.key("stats"), "extend_ttl_success") != count
		})
		p.front.Answers(redistest.Pass)
		d.wire.Turn <- struct{}{}
		if d.wire.Link == nil {
			t.Fatal("the answer was lost, not late")
		}
		<-d.wire.Turn
	}
	late()
	p.catchUp()
	p.replication.Answers(redistest.Drop)
	late()
	p.server.Kill()
	p.failOver()
	d.extend()
}

// The first answer to an acquisition is lost; the daemon gets a later one and issues from it. Then an
// operator takes the worker id away, and the new master knows only of the first acquisition. The same
// window must not be granted to the same daemon again.
func TestFailOverToAnUnheardAcquisition(t *testing.T) {
	p := newPair(t)
	p.init(New)
	p.advance(1)
	p.daemon().acquire() // and Redis knows the script
	d := p.daemon()
	d.extendNothing() // and it is connected
	p.unheard(p.front, d.tryAcquire, func() bool { return p.record("A2") != "" })
	p.catchUp()
	p.replication.Answers(redistest.Drop)
	if err := d.settleAcquire(); err != nil || d.grant.Worker != 2 {
		t.Fatalf("%+v, %v", d.grant, err)
	}
	p.advance(1000)
	if _, err := p.pool().Release(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	p.want(d.tryExtend(redislink.Patience), workerid.ErrLost) // it goes on to the end of its window
	p.server.Kill()
	p.failOver()
	p.want(d.settleAcquire(), workerid.ErrNoID)
}

// After a fail-over an operator's call comes first. It does not say how far apart the clocks may be
// or how long leases are, so the values of the pool's daemons must count.
func TestFailOverWithClocksFarApart(t *testing.T) {
	p := newPair(t)
	p.config.MaxSkew, p.config.Lease, p.config.Max = 10*time.Second, 2*time.Minute, 2
	p.init(New)
	p.advance(1)
	p.ahead.Store(9000)
	first := p.daemon()
	first.acquire()
	p.catchUp()
	p.replication.Answers(redistest.Drop)
	p.advance(17000)
	p.daemon().acquire()
	p.server.Kill()
	p.failOver()
	p.ahead.Store(-9000)
	for allowed, want := range map[time.Duration]error{0: workerid.ErrSkew, 10 * time.Second: nil} {
		p.config.MaxSkew, p.config.Lease = allowed, 0
		operator := p.pool()
		_, err := operator.Release(t.Context(), 1)
		for range 5 { // the new master may have closed the connection
			if err == nil || certain(err) {
				break
			}
			_, err = operator.Release(t.Context(), 1)
		}
		p.want(err, want)
	}
	p.config.MaxSkew, p.config.Lease = 10*time.Second, 2*time.Minute
	for range 2 { // whoever gets them, their windows do not overlap with what was granted
		d := p.daemon()
		for d.grant == (workerid.Grant{}) {
			p.advance(1000)
			if err := d.settleAcquire(); err != nil {
				p.want(err, workerid.ErrNoID)
			}
		}
	}
}

func (p *pair) record3() string {
	s, _ := p.replica.Do("HGET", p.key("hw"), "A3").(string)
	return s
}

// settleAcquire tries until the answer is certain.
func (d *daemon) settleAcquire() error {
	err := d.tryAcquire(redislink.Patience)
	for range 5 {
		if err == nil || certain(err) {
			break
		}
		err = d.tryAcquire(redislink.Patience)
	}
	return err
}

// settleOnce extends over a connection that is not the one which just broke.
func (d *daemon) settleOnce() error {
	if err := d.tryExtend(redislink.Patience); errors.Is(err, workerid.ErrUnconfirmed) {
		return err
	}
	return d.tryExtend(redislink.Patience)
}

// A worker id passed to another daemon, but the new master never learned that. The previous holder
// must not get it back.
func TestFailOverLosingASuccession(t *testing.T) {
	p := newPair(t)
	p.config.Max = 1
	before := p.holders(1)[0]
	p.catchUp()
	p.advance(lease + 1) // it stood still all that time
	p.replication.Answers(redistest.Drop)
	after := p.daemon()
	after.acquire()
	p.server.Kill()
	p.failOver()
	p.want(before.settle(), workerid.ErrLost)
	after.extend()
	p.want(before.settle(), workerid.ErrLost)
}

// If every grant is on the replica, a fail-over loses nothing. But leases are not extended before an
// operator has settled which replicas must have them.
func TestFailOverLosingNothing(t *testing.T) {
	p := newPair(t)
	p.config.Replicas = 1
	holders := p.holders(2)
	p.failOver()
	p.want(holders[0].settleOnce(), workerid.ErrUnconfirmed) // the replica is the master now and has none
	if err := p.pool().SetReplicas(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	p.keepTheirIDs(holders)
}

// The old master is cut off, and goes on as one. Daemons that are connected to it go to the new one by
// themselves, though nothing closes their connections.
func TestTheOldMasterIsLeft(t *testing.T) {
	p := newPair(t)
	p.config.Replicas = 1
	holders := p.holders(2)
	p.replication.Refuse(true)
	p.replication.Cut()
	p.replica.Promote()
	p.front.Retarget(p.replica.Addr()) // new connections only
	p.replica.Replica()
	for _, d := range holders {
		found := func() bool { return d.tryExtend(redislink.Patience) == nil }
		redistest.Until(t, "the daemon has found the new master", found)
	}
	p.keepTheirIDs(holders)
}

// Two replicas, and every grant is on both: whichever is promoted, nothing was lost.
func TestTwoReplicas(t *testing.T) {
	w := newWorld(t)
	w.config.Replicas = 2
	next, other := w.server.Replica(), w.server.Replica()
	front := redistest.NewProxy(t, w.server.Addr())
	w.config.URL = "redis://" + front.Addr() + "/0?ns=" + redistest.Namespace(t)
	holders := w.holders(3)
	for _, r := range []*redistest.Server{next, other} {
		for _, member := range []string{"A1", "A2", "A3"} { // at once: each call came back when both had it
			if got, want := r.Do("HGET", w.key("hw"), member), w.record(member); got != want {
				t.Errorf("a replica has %q of %s, not %q", got, member, want)
			}
		}
	}
	w.server.Kill()
	front.Cut()
	next.Promote()
	other.Demote(next)
	front.Retarget(next.Addr())
	w.want(holders[0].settleOnce(), workerid.ErrUnconfirmed) // one of two
	if err := w.pool().SetReplicas(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.keepTheirIDs(holders)
}

// The old master comes back with its old data, neither restarted nor resynchronised: only its
// replication id is new.
func TestFailBackWithoutRestart(t *testing.T) {
	p := newPair(t)
	holders := p.holders(2)
	p.catchUp()
	p.failOver()
	p.keepTheirIDs(holders)
	p.advance(lease)
	p.keepTheirIDs(holders)
	third := p.daemon()
	third.acquire() // the old master knows nothing of it
	run, replid := p.server.Info("run_id"), p.server.Info("master_replid")

	p.server.Do("REPLICAOF", "127.0.0.1", 1) // nobody there
	p.want(p.daemonAt(p.server).settleAcquire(), ErrNotMaster)
	p.front.Cut()
	p.front.Retarget(p.server.Addr())
	p.server.Promote()
	if p.server.Info("run_id") != run || p.server.Info("master_replid") == replid {
		t.Fatal("not what is to be tested")
	}
	newcomer, loss := p.daemon(), p.now()+5000        // when the holders' records prove to be old
	p.want(newcomer.settleAcquire(), ErrClockForward) // nobody was there for long
	p.keepTheirIDs(append(holders, third))
	if err := third.release(p.now()); err != nil {
		t.Fatal(err)
	}
	p.waits(newcomer, loss)
}

func (w *world) daemonAt(s *redistest.Server) *daemon {
	w.Helper()
	return w.daemon(func(c *Config) { c.URL = "redis://" + s.Addr() + "/0?ns=" + redistest.Namespace(w) })
}

// The master becomes a replica while daemons use it. They look for the new master, and are not told
// that their leases are lost.
func TestREADONLY(t *testing.T) {
	p := newPair(t)
	holders := p.holders(2)
	p.catchUp()
	p.server.Do("REPLICAOF", "127.0.0.1", 1) // nobody there
	for _, d := range holders {
		p.want(d.tryExtend(redislink.Patience), ErrNotMaster)
		p.want(d.tryExtend(redislink.Patience), ErrNotMaster) // over a new connection
	}
	p.want(p.daemon().tryAcquire(redislink.Patience), ErrNotMaster)
	p.failOver()
	p.keepTheirIDs(holders)
}

// What is written to a replica is gone when it synchronises with its master again.
func TestWritableReplica(t *testing.T) {
	w := newWorld(t)
	d := w.holders(1)[0]
	r := w.server.Replica("--replica-read-only", "no")
	r.Do("SET", "it", "is writable")
	misled := w.daemonAt(r)
	w.want(misled.tryAcquire(redislink.Patience), ErrNotMaster)
	misled.memory, misled.owner, misled.grant = *d.remembered(), d.owner, d.grant
	w.want(misled.tryExtend(redislink.Patience), ErrNotMaster)
	w.want(misled.release(w.now()), ErrNotMaster)
	d.extend()
}

// A master that is cut off from the others can grant nothing if replicas must have the grants too.
func TestTwoMasters(t *testing.T) {
	p := newPair(t)
	p.config.Replicas = 1
	holders := p.holders(1)
	p.replication.Answers(redistest.Drop)
	p.replication.Requests(redistest.Drop)
	cutOff := p.daemonAt(p.server)
	p.want(cutOff.tryAcquire(redislink.Patience), workerid.ErrUnconfirmed)
	p.want(cutOff.tryExtend(redislink.Patience), workerid.ErrUnconfirmed)
	if cutOff.grant.Hi >= cutOff.grant.Lo {
		t.Errorf("%+v", cutOff.grant)
	}
	p.failOver()
	if err := p.pool().SetReplicas(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	p.keepTheirIDs(holders)
	p.want(cutOff.tryExtend(redislink.Patience), workerid.ErrUnconfirmed)
}

func TestWAITShort(t *testing.T) {
	w := newWorld(t)
	w.config.Replicas = 2
	proxies := []*redistest.Proxy{redistest.NewProxy(t, w.server.Addr()), redistest.NewProxy(t, w.server.Addr())}
	for _, p := range proxies {
		w.server.ReplicaAt(p.Addr())
	}
	w.init(New)
	w.advance(1)
	d, early := w.daemon(), w.daemon()
	if err := early.tryAcquire(redislink.Patience); errors.Is(err, workerid.ErrUnconfirmed) {
		early.extend() // a busy replica was late with its acknowledgement; extend asks again
	} else if err != nil {
		t.Fatal(err)
	}
	for _, p := range proxies {
		p.Requests(redistest.Hold) // acknowledgements
	}
	w.want(d.tryAcquire(redislink.Patience), workerid.ErrUnconfirmed)
	w.want(early.tryExtend(redislink.Patience), workerid.ErrUnconfirmed)
	before := d.grant
	proxies[0].Requests(redistest.Pass)
	w.want(d.tryExtend(redislink.Patience), workerid.ErrUnconfirmed) // one of two
	proxies[1].Requests(redistest.Pass)
	d.extend() // the same worker id, from the same start
	if d.grant.Worker != before.Worker || d.grant.Lo != before.Lo {
		t.Errorf("%+v became %+v", before, d.grant)
	}
	early.extend()
	if s := d.Status(); s.Needed != 2 || s.Replicas != 2 {
		t.Errorf("%+v", s)
	}
}

func TestMoreReplicasThanMustHaveIt(t *testing.T) {
	w := newWorld(t)
	w.config.Replicas = 1
	w.server.Replica()
	d := w.holders(1)[0]
	w.server.Replica()
	w.want(d.tryExtend(redislink.Patience), ErrReplicas)
	w.want(w.daemon().tryAcquire(redislink.Patience), ErrReplicas)
	p := w.pool()
	if r, err := p.Replicas(t.Context()); err != nil || r.Needed != -1 || len(r.Connected) != 2 ||
		r.Connected[0].State != "online" || !strings.HasPrefix(r.Connected[0].Addr, "127.0.0.1:") {
		t.Errorf("%+v, %v", r, err)
	}
	if err := p.SetReplicas(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	d.extend()
	if s := d.Status(); s.Needed != 2 {
		t.Errorf("%+v", s)
	}
	if r, err := p.Replicas(t.Context()); err != nil || r.Needed != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := p.SetReplicas(t.Context(), -1); err != nil {
		t.Fatal(err)
	}
	w.want(d.tryExtend(redislink.Patience), ErrReplicas)
}

// Sentinel fails over to a replica that lost the last writes. No packet filter is needed: the
// replica reaches its master over a proxy that discards what the master sent. Sentinel and the
// daemons know the master by the proxy's address.
func TestSentinelFailOverWithLostWrites(t *testing.T) {
	w := newWorld(t)
	front := redistest.NewProxy(t, w.server.Addr())
	front.OnlyFor("127.0.0.2")
	replica := w.server.ReplicaAt(front.Addr(), "--bind-source-addr", "127.0.0.2")
	sentinels := redistest.Sentinels(t, 3, 1, front.Addr())
	w.config.URL = fmt.Sprintf("redis+sentinel://127.0.0.1:1,%s,%s,%s/main/0?ns=%s", sentinels[0].Addr(),
		sentinels[1].Addr(), sentinels[2].Addr(), redistest.Namespace(t))
	holders := w.holders(2)
	replica.CatchUp(w.server)
	front.Answers(redistest.Drop)
	last := w.daemon()
	last.acquire()
	w.advance(20000)
	for _, d := range append(holders, last) {
		d.extend()
	}
	front.Refuse(true)
	w.server.Kill()
	front.Cut()
	sentinels[0].Kill()
	w.server.Until("Sentinel has failed over", func() bool { return replica.Info("role") == "master" })
	if v, _ := replica.Do("HGET", w.key("hw"), "A3").(string); v != "" {
		t.Fatal("nothing was lost")
	}
	w.server.Until("a daemon is back", func() bool { return holders[0].tryExtend(redislink.Patience) == nil })
	loss := w.now() + 5000 // when the others come
	w.keepTheirIDs(append(holders, last))
	if s := last.Status(); s.Addr != replica.Addr() {
		t.Errorf("%+v", s)
	}
	if err := last.release(w.now()); err != nil {
		t.Fatal(err)
	}
	w.waits(w.daemon(), loss)
}

// A Sentinel that is cut off from the others keeps naming the old master, which is dead or a
// replica now. Daemons must ask another Sentinel.
func TestASentinelThatIsBehind(t *testing.T) {
	w := newWorld(t)
	next := redistest.Start(t)
	behind, knows := redistest.Sentinels(t, 1, 0, w.server.Addr())[0], redistest.Sentinels(t, 1, 0, next.Addr())[0]
	w.config.URL = fmt.Sprintf("redis+sentinel://%s,%s/main/0?ns=%s", behind.Addr(), knows.Addr(), redistest.Namespace(t))
	holders := w.holders(2)
	w.server.Kill()
	for _, d := range holders {
		w.uncertain(d.tryExtend(redislink.Patience))
	}
	w.keepTheirIDs(holders)
	if s := holders[0].Status(); s.Addr != next.Addr() {
		t.Errorf("%+v", s)
	}
	w.server.Launch()
	w.server.Do("REPLICAOF", "127.0.0.1", 1) // nobody there
	late := w.daemon()
	w.want(late.tryAcquire(redislink.Patience), ErrNotMaster)
	w.want(late.tryAcquire(redislink.Patience), workerid.ErrNoID)
}
