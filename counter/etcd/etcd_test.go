package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

var bg = context.Background()

var define, wants, refused = countertest.Define, countertest.Reserve, countertest.Refused

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
		} else if err != nil && !counter.Certain(err) {
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
		} else if err != nil {
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
	define(t, open(t, url, patient))
	var mu sync.Mutex
	granted := map[uint64]bool{}
	blocks := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(granted)
	}
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
					if err := s.Return(ctx, "orders", b, b.Lo); err == nil {
						continue
					} else if !errors.Is(err, counter.ErrStale) {
						continue // it may be given back or not: it must not be used
					}
				}
				mu.Lock()
				if granted[b.Lo] {
					t.Errorf("%d was granted twice", b.Lo)
				}
				granted[b.Lo] = true
				mu.Unlock()
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	more := func(when string) {
		t.Helper()
		want := blocks() + 30
		all[0].Until("blocks are granted "+when, func() bool { return blocks() >= want })
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
}

// A full etcd, and what it says, until somebody has made room.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, "--quota-backend-bytes", "400000")
	s := open(t, etcdtest.URL(t, m), patient)
	define(t, s)
	wants(t, s, 10, 1)
	c := m.Client()
	big := strings.Repeat("x", 50_000)
	m.Until("it is full", func() bool {
		_, err := c.Put(bg, "big", big)
		return err != nil
	})
	_, err := s.Reserve(bg, "orders", 10)
	refused(t, err, counter.ErrUnavailable, "NOSPACE", "/seq/orders", "alarm disarm")
	since, records, err := s.Changes(bg, "")
	if err != nil || len(records) != 1 {
		t.Errorf("it can be read: %v, %v", records, err)
	}
	got, err := c.Get(bg, "big")
	if err == nil {
		_, err = c.Compact(bg, got.Header.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Control("defrag")
	m.Control("alarm", "disarm")
	wants(t, s, 10, 11)
	if now, records, err := s.Changes(bg, since); err != nil || now != since || len(records) > 0 {
		t.Errorf("neither a grant nor a compaction is a change: %q, %v, %v", now, records, err)
	}
}

// Users and their rights: what is wrong with them goes not away by itself, and is named with the key. A password that
// is put right is read again. Package workerid/etcd shows how tokens end, over the same connections.
func TestUsers(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	for _, line := range []string{"user add root:hush", "role add root", "user grant-role root root", "role add seq",
		"role grant-permission seq --prefix=true readwrite /katsubushi/mine/",
		"role grant-permission seq --prefix=true readwrite /katsubushi/half/seq/",
		"user add kb:hush1", "user grant-role kb seq", "auth enable"} {
		m.Control(strings.Fields(line)...)
	}
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, ns string) *etcd.Store {
		c := etcd.Config{URL: "etcd://" + user + m.Addr() + "?ns=" + ns, Timeout: patient}
		if user != "" {
			c.PasswordFile = file
		}
		s, err := etcd.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	never := func(err error, says ...string) {
		t.Helper()
		refused(t, err, nil, says...)
		if errors.Is(err, counter.ErrUnavailable) || strings.Contains(err.Error(), "hush") {
			t.Error(err)
		}
	}
	write("hush2")
	s := as("kb@", "mine")
	_, err := s.Reserve(bg, "orders", 1)
	never(err, "/katsubushi/mine/seq/orders", "user kb", "password")
	write("hush1")
	define(t, s)
	wants(t, s, 1, 1)

	half := as("kb@", "half") // may not write that something has changed
	_, err = half.Define(bg, counter.Sequence("orders"))
	never(err, "/katsubushi/half/", "grant-permission ROLE --prefix=true readwrite /katsubushi/half/")
	if list, err := half.List(bg); err != nil || len(list) > 0 {
		t.Errorf("a record was written that nobody was told of: %v, %v", list, err)
	}
	_, _, err = half.Changes(bg, "")
	never(err, "/katsubushi/half/changes", "grant-permission")
	_, err = as("kb@", "others").List(bg)
	never(err, "/katsubushi/others/seq/", "user kb", "grant-permission")
	_, err = as("", "mine").List(bg)
	never(err, "names no user")
}
