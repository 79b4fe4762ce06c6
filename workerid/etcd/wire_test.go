package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

var bg = context.Background()

// within is the time of a call that gets no answer.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(bg, d)
	t.Cleanup(cancel)
	return ctx
}

// connected is for a member that answers sooner or later.
func connected(t testing.TB, d *driver) (conn string) {
	t.Helper()
	redistest.Until(t, "there is a connection", func() (ok bool) {
		var err error
		conn, err = d.Connect(within(t, patience))
		return err == nil
	})
	return conn
}

// throughProxy makes a driver whose connections go through a proxy.
func throughProxy(t testing.TB, m *etcdtest.Member) (*driver, *redistest.Proxy) {
	proxy := redistest.NewProxy(t, m.Addr())
	c := settings(t, m)
	c.URL = strings.Replace(c.URL, m.Addr(), proxy.Addr(), 1)
	return driverOf(t, c, lasting), proxy
}

// Nothing connects again by itself: a call for a connection that broke is refused, and nothing is sent.
// The next one has another name, and the session stays.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	d, proxy := throughProxy(t, m)
	first := connected(t, d)
	if a, err := d.Commit(bg, first, pool.Change{Fresh: true, SetMeta: "a"}); err != nil || !a.Done || a.Session == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	session := d.session()
	c := d.conn
	proxy.Cut()
	redistest.Until(t, "the driver notices", c.Broken)
	for range 3 {
		if _, err := d.Commit(bg, first, pool.Change{IfMeta: "a", SetMeta: "b"}); !errors.Is(err, cas.ErrConnection) {
			t.Fatal(err)
		}
	}
	if _, err := c.Commit(within(t, patience), patience, "x", nil, nil, nil); err == nil {
		t.Error("a connection that broke carries calls")
	}
	second := connected(t, d)
	if second == first || d.session() != session {
		t.Errorf("%s after %s; session %s, before %s", second, first, d.session(), session)
	}
	if _, err := d.Load(bg, first); !errors.Is(err, cas.ErrConnection) {
		t.Error(err)
	}
	if v, err := d.Load(bg, second); err != nil || v.Meta != "a" {
		t.Errorf("%+v, %v", v, err)
	}
	_, name, _ := strings.Cut(second, ".")
	if id, err := strconv.ParseInt(name, 36, 64); err != nil || id == 0 {
		t.Errorf("%s is not named after a lease: %v", second, err)
	} else if r, err := m.Client().TimeToLive(bg, clientv3.LeaseID(id)); err != nil ||
		time.Duration(r.GrantedTTL)*time.Second >= d.ttl {
		t.Errorf("the lease that only names a connection lasts for %d s, %v", r.GrantedTTL, err)
	}

	proxy.Refuse(true)
	two := settings(t, m)
	two.URL = strings.Replace(two.URL, m.Addr(), proxy.Addr()+","+m.Addr(), 1)
	both := driverOf(t, two, lasting)
	if _, err := both.Connect(within(t, patience)); err != nil {
		t.Errorf("a member that refuses is not passed by: %v", err)
	}
	_, err := both.link.Dial(within(t, patience), "http://"+proxy.Addr())
	if says(t, err, proxy.Addr()); strings.Contains(err.Error(), m.Addr()) {
		t.Errorf("%v: the other one was not asked", err)
	}
}

// An answer that is lost after the commit: the call is not sent again, and the connection is given up.
func TestLostAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	d, proxy := throughProxy(t, m)
	conn := connected(t, d)
	if a, err := d.Commit(bg, conn, pool.Change{Fresh: true, SetMeta: "a"}); err != nil || !a.Done {
		t.Fatalf("%+v, %v", a, err)
	}
	proxy.Answers(redistest.Drop)
	silent := d.conn
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := d.Commit(ctx, conn, pool.Change{SetMeta: "b"})
		failed <- err
	}()
	redistest.Until(t, "it was carried out", func() bool { return m.Get(d.metaKey()) == "b" })
	cancel()
	err := <-failed
	if err == nil || errors.Is(err, cas.ErrConnection) {
		t.Fatalf("nobody has answered: %v", err)
	}
	redistest.Until(t, "the connection is closed", silent.Broken)
	if _, err := d.Load(bg, conn); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("the connection is used on: %v", err)
	}
	if _, err := d.Connect(within(t, 300*time.Millisecond)); err == nil {
		t.Error("a connection without answers")
	}
	proxy.Answers(redistest.Pass)
	proxy.Cut()
	redistest.Until(t, "it connects", func() bool {
		conn, err = d.Connect(within(t, patience))
		return err == nil
	})
	if v, err := d.Load(bg, conn); err != nil || v.Meta != "b" {
		t.Errorf("%+v, %v", v, err)
	}
	if got, err := m.Client().Get(bg, d.metaKey()); err != nil || got.Kvs[0].Version != 2 {
		t.Errorf("written %d times, %v", got.Kvs[0].Version, err)
	}
}

// An attempt lasts until the first answer, or as long as a call may, and leaves no connection if it fails.
func TestAMemberThatAcceptsButDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	slow, proxy := throughProxy(t, m)
	proxy.DelayAnswers(30 * time.Millisecond)
	if _, err := slow.Connect(within(t, patience)); err != nil {
		t.Error(err)
	}
	slow.Close()
	silent := settings(t, m)
	silent.URL, silent.Timeout = strings.Replace(silent.URL, m.Addr(), proxy.Addr(), 1), 200*time.Millisecond
	proxy.Answers(redistest.Drop)
	d := driverOf(t, silent, passing)
	redistest.Until(t, "an attempt has failed", func() bool {
		conn, err := d.Connect(within(t, patience))
		if err == nil {
			t.Fatalf("%s, without an answer", conn)
		}
		return strings.Contains(err.Error(), "no answer in time")
	})
	redistest.Until(t, "the connections are closed", proxy.Idle)
}

// A member that stands still: within the time of a call, the driver is at the next one. A member alone tells
// nothing.
func TestStoppedMemberIsLeft(t *testing.T) {
	t.Parallel()
	all := etcdtest.Cluster(t, 3)
	leader := etcdtest.Leader(all)
	var hosts []*etcdtest.Member
	for _, m := range all {
		if m != leader {
			hosts = append(hosts, m)
		}
	}
	d := driverOf(t, settings(t, hosts...), lasting)
	conn := connected(t, d)
	if d.conn.Endpoint != "http://"+hosts[(d.next-1)%2].Addr() { // the first one, unless its leader was being elected
		t.Fatal(d.conn.Endpoint)
	}
	if d.next%2 == 0 {
		slices.Reverse(hosts)
	}
	hosts[0].Pause()
	defer hosts[0].Resume()
	if _, err := d.Load(within(t, 300*time.Millisecond), conn); err == nil {
		t.Fatal("a stopped member answers")
	}
	if connected(t, d); d.conn.Endpoint != "http://"+hosts[1].Addr() {
		t.Error(d.conn.Endpoint)
	}
	redistest.Until(t, "it is read", func() bool { // once two members have agreed on a leader
		conn = connected(t, d)
		_, err := d.Load(within(t, patience), conn)
		return err == nil
	})
	other := driverOf(t, settings(t, hosts[1]), lasting)
	second := connected(t, other)
	leader.Pause()
	defer leader.Resume()
	_, load := d.Load(within(t, 300*time.Millisecond), conn)
	if _, peers := other.Peers(within(t, 300*time.Millisecond), second); load == nil || peers == nil {
		t.Errorf("a member alone cannot know what others have written: Load: %v; Peers: %v", load, peers)
	}
}

// More below the pool's prefix than a pool has is refused, and not read to the end.
func TestTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	c := m.Client()
	fill := func(d *driver, kind string, n, bytes int) {
		t.Helper()
		var ops []clientv3.Op
		for i := range n {
			if ops = append(ops,
				clientv3.OpPut(d.key(kind, "x"+strconv.Itoa(i)), strings.Repeat("x", bytes))); len(ops) == 100 || i == n-1 ||
				len(ops)*bytes > 500_000 {
				if _, err := c.Txn(bg).Then(ops...).Commit(); err != nil {
					t.Fatal(err)
				}
				ops = nil
			}
		}
	}
	const maxRead = 900_000 // of each of ten: more than the connection takes
	for _, f := range []struct {
		kind     string
		n, bytes int
		load     bool // it is Load that refuses
	}{
		{"on/", 30, 40_000, true}, {"id/", 10, maxRead, true},
		{"peers/", cas.MaxChildren + 1, 1, false}, {"peers/", 10, maxRead, false},
	} {
		d := driverOf(t, settings(t, m), lasting)
		conn := connected(t, d)
		fill(d, f.kind, f.n, f.bytes)
		_, load := d.Load(within(t, patience), conn)
		_, peers := d.Peers(within(t, patience), conn)
		if errors.Is(load, cas.ErrTooLarge) != f.load || errors.Is(peers, cas.ErrTooLarge) == f.load {
			t.Errorf("%+v: Load: %v; Peers: %v", f, load, peers)
		}
		if !f.load {
			load = peers
		}
		if strings.Contains(load.Error(), "that were read") != (f.bytes < maxRead) {
			t.Errorf("%+v: %v", f, load)
		}
		if !strings.Contains(load.Error(), d.link.Root) || conn != connected(t, d) {
			t.Errorf("%+v: %v", f, load)
		}
	}
	d := driverOf(t, settings(t, m), lasting)
	conn := connected(t, d)
	fill(d, "id/", cas.MaxChildren, 1)
	if v, err := d.Load(within(t, patience), conn); err != nil || len(v.Records) != 0 {
		t.Errorf("strange keys are no records: %d, %v", len(v.Records), err)
	}
	m.Put(d.key("id/", "y"), "")
	if _, err := d.Load(within(t, patience), conn); !errors.Is(err, cas.ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
}

// A lease that is gone: the daemon gets another one, its session is another one, and presences can be
// made in it. What was put with the first one is gone.
func TestLeaseIsGone(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	d := driverOf(t, settings(t, m), lasting)
	conn := connected(t, d)
	if err := d.Announce(bg, conn, 5, "here"); err != nil {
		t.Fatal(err)
	}
	end := func() string {
		t.Helper()
		session := d.session()
		lease, err := strconv.ParseInt(session, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Client().Revoke(bg, clientv3.LeaseID(lease)); err != nil {
			t.Fatal(err)
		}
		return session
	}
	another := func(than string) {
		t.Helper()
		redistest.Until(t, "there is another lease", func() bool {
			s := d.session()
			return s != than && s != ""
		})
		if a, err := d.Commit(bg, conn, pool.Change{}); err != nil || a.Session != d.session() {
			t.Errorf("%+v, %v", a, err)
		}
	}
	gone := end()
	if v, err := d.Load(bg, conn); err != nil || v.Present[5] != "" {
		t.Errorf("%+v, %v", v, err)
	}
	// An error, unless the driver has found out by itself meanwhile and has another lease.
	if err := d.Announce(bg, conn, 5, "again"); d.session() == gone {
		t.Errorf("a presence without a lease: %v; the session is %s", err, gone)
	}
	another(gone)
	if err := d.Announce(bg, conn, 5, "again"); err != nil {
		t.Error(err)
	}
	if v, err := d.Load(bg, conn); err != nil || v.Present[5] != "again" || connected(t, d) != conn {
		t.Errorf("%+v, %v", v, err)
	}
	gone = end()
	d.renewNow() // as time passes
	another(gone)
	if err := d.Publish(bg, conn, "me", "x"); err != nil {
		t.Error(err)
	}
	other := driverOf(t, settings(t, m), passing)
	connected(t, other)
	d.pending = make(chan attempt, 1)
	d.pending <- attempt{conn: other.conn, name: "made too late"}
	last := d.conn
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if !last.Broken() || !other.conn.Broken() {
		t.Error("a closed driver keeps a connection")
	}
	if text := m.Get(d.key("peers/", "me")); text != "" {
		t.Error("an announcement outlives its daemon")
	}
}

// Daemons renew their leases often enough, and etcd ends those of daemons that it does not hear of.
func TestLeaseEndsWithItsDaemon(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, m.Addr())
	direct := settings(t, m)
	direct.Lease, direct.MaxSkew = 10*time.Second, 500*time.Millisecond
	c := direct
	c.URL = strings.Replace(c.URL, m.Addr(), proxy.Addr(), 1)
	d := driverOf(t, c, lasting)
	if d.ttl != minTTL {
		t.Fatal(d.ttl)
	}
	idle, other := driverOf(t, direct, lasting), driverOf(t, direct, lasting)
	connected(t, idle)
	present := func() (bool, error) {
		v, err := other.Load(within(t, patience), connected(t, other))
		return v.Present[5] != "", err
	}
	redistest.Until(t, "its presence is seen", func() bool {
		conn, session := connected(t, d), d.session()
		err := d.Announce(within(t, patience), conn, 5, "here")
		seen, failed := present()
		if err != nil || failed != nil || seen {
			return seen
		}
		lease, _ := strconv.ParseInt(session, 16, 64)
		left, err := m.Client().TimeToLive(within(t, patience), clientv3.LeaseID(lease))
		if err == nil && left.TTL > 0 { // it has not ended, as one does that a starved machine renews too late
			t.Fatal("a presence is gone, and its lease is not")
		}
		return false
	})
	proxy.Refuse(true)
	proxy.Cut()
	before := m.Calls()["LeaseKeepAlive"]
	redistest.Until(t, "etcd forgets the daemon", func() bool {
		seen, err := present()
		return err == nil && !seen
	})
	redistest.Until(t, "the others renew their leases", func() bool {
		idle.mu.Lock()
		defer idle.mu.Unlock()
		return !idle.kept.IsZero() && m.Calls()["LeaseKeepAlive"] >= before+3
	})
}

// A copy of a process makes connections of its own. An operator's have no lease, so they need names of another kind,
// and make nothing that would outlive them.
func TestCopiesHaveOtherNames(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	c := settings(t, m)
	x, y := driverOf(t, c, passing), driverOf(t, c, passing)
	conn := connected(t, x)
	if other := connected(t, y); other == conn {
		t.Errorf("two operators have connection %q", conn)
	}
	if err := x.Announce(bg, conn, 5, "for ever"); err == nil || m.Get(x.key("on/", "0005")) != "" {
		t.Errorf("a presence without a lease: %v", err)
	}
	a, b := driverOf(t, c, lasting), driverOf(t, c, lasting)
	_, one, _ := strings.Cut(connected(t, a), ".")
	_, two, _ := strings.Cut(connected(t, b), ".")
	if one == two || one == "" {
		t.Errorf("the part of the store: %q and %q", one, two)
	}
}

// Operators see where the daemon is connected, its lease and the last error.
func TestFacts(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	d := driverOf(t, settings(t, m), lasting)
	texts := func() map[string]any {
		all := map[string]any{}
		d.Figures(func(f figure.Figure) { all[strings.TrimPrefix(f.Name(), "lease_")] = f.Value })
		return all
	}
	f := texts()
	if f["etcd_member_addr"] != "" || f["etcd_member_lease"] != "" || f["etcd_lease_ttl"] != lease/2 {
		t.Errorf("%v", f)
	}
	conn := connected(t, d)
	for range 20 { // so that the revision is not the term
		if _, err := d.Commit(bg, conn, pool.Change{SetMeta: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	f = texts()
	r, err := m.Client().Get(bg, "x")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"etcd_member_addr": m.Addr(), "etcd_member_lease": d.session(), "etcd_error_last": "",
		"etcd_revision": r.Header.Revision, "etcd_term": int64(r.Header.RaftTerm),
		"etcd_member_cluster": strconv.FormatUint(r.Header.ClusterId, 16),
		"etcd_member_id":      strconv.FormatUint(r.Header.MemberId, 16),
	} {
		if f[name] != want {
			t.Errorf("%s is %v, want %v", name, f[name], want)
		}
	}
	m.Kill()
	d.Load(within(t, patience), conn)
	if _, err := d.Connect(within(t, patience)); err == nil {
		t.Error("connected to nobody")
	}
	if f = texts(); f["etcd_member_addr"] != "" || !strings.Contains(f["etcd_error_last"].(string), "does not answer") {
		t.Errorf("%v", f)
	}
	m.LaunchOnly()
	connected(t, d)
	if f = texts(); f["etcd_error_last"] != "" {
		t.Errorf("%v", f)
	}
}
