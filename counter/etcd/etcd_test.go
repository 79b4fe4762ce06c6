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

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

var bg = context.Background()

var define, wants, refused = countertest.Define, countertest.Reserve, countertest.Refused

// What two clusters answer is not mixed, whether they answer in turn or one after the other.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	m, other := etcdtest.Start(t), etcdtest.Start(t)
	key := "/katsubushi/" + etcdtest.Namespace(t) + "/seq/orders"
	define(t, open(t, etcdtest.URL(t, m), patient))

	t.Run("hosts of two clusters", func(t *testing.T) {
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
	})
	t.Run("another cluster under a daemon", func(t *testing.T) {
		proxy := redistest.NewProxy(t, m.Addr())
		s := open(t, "etcd://"+proxy.Addr()+"?ns="+strings.Split(key, "/")[2], patient)
		since, _, err := s.Changes(bg, "")
		if err != nil {
			t.Fatal(err)
		}
		changes := strings.Replace(key, "seq/orders", "changes", 1)
		other.Put(changes, m.Get(changes)) // as a snapshot has it
		other.Put(key, m.Get(key))
		proxy.Retarget(other.Addr())
		proxy.Cut()
		err = counter.ErrUnavailable
		m.Until("the other one answers", func() bool {
			if errors.Is(err, counter.ErrUnavailable) {
				_, err = s.Define(bg, counter.Sequence("items"))
			}
			return !errors.Is(err, counter.ErrUnavailable)
		})
		refused(t, err, counter.ErrForeign, "/seq/items", "the daemon began with")
		if now, records, err := s.Changes(bg, since); err != nil || now == since || len(records) == 0 {
			t.Errorf("another cluster is a change: %q, %v, %v", now, records, err)
		}
	})
}

// A window that adapts itself would cost a ping with every answer, and a leader renews every second.
func TestAnswersCauseNoPings(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, m.Addr())
	var frames etcdtest.Frames
	proxy.Rewrite(frames.Pass)
	began := time.Now()
	s := open(t, "etcd://"+proxy.Addr()+"?ns=pings", patient)
	define(t, s)
	for i := range uint64(20) {
		wants(t, s, 10, 10*i+1)
	}
	// gRPC also asks whether the connection lives, after ten seconds in which nothing came.
	if frames.Pongs() > int(time.Since(began)/(10*time.Second)) || frames.Headers() < 20 {
		t.Errorf("%d pings of ours, and %d headers of answers", frames.Pongs(), frames.Headers())
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
	if _, records, err := s.Changes(bg, ""); err != nil || len(records) != 1 {
		t.Errorf("it can be read: %v, %v", records, err)
	}
	got, err := c.Get(bg, "big")
	if err != nil {
		t.Fatal(err)
	}
	since, _, err := s.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(bg, got.Header.Revision); err != nil {
		t.Fatal(err)
	}
	if now, records, err := s.Changes(bg, since); err != nil || now != since || len(records) > 0 {
		t.Errorf("after the history was compacted: %q, %v, %v", now, records, err)
	}
	m.Control("defrag")
	m.Control("alarm", "disarm")
	wants(t, s, 10, 11)
	if now, records, err := s.Changes(bg, since); err != nil || now != since || len(records) > 0 {
		t.Errorf("a grant is no change: %q, %v, %v", now, records, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Reserve(bg, "orders", 1)
	refused(t, err, nil, "the connections to etcd are closed")
}

// Users: a wrong password, one that is put right while the store is open, and rights.
func TestUsers(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	for _, line := range []string{"user add root:hush", "user grant-role root root", "role add seq",
		"role grant-permission seq --prefix=true readwrite /katsubushi/mine/",
		"user add kb:hush1", "user grant-role kb seq", "auth enable"} {
		if strings.Contains(line, "grant-role root root") {
			m.Control("role", "add", "root")
		}
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

	asRoot := func() *clientv3.Client {
		root, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.Addr()}, Username: "root",
			Password: "hush", Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { root.Close() })
		return root
	}
	root := asRoot()
	done := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	done(root.RoleAdd(bg, "more"))
	done(root.UserGrantRole(bg, "kb", "more")) // which makes older tokens invalid
	grants := func(s *etcd.Store) {
		t.Helper()
		done(s.Reserve(bg, "orders", 1))
	}
	grants(s)
	hasty, err := etcd.Open(etcd.Config{URL: "etcd://kb@" + m.Addr() + "?ns=mine", Timeout: 3 * time.Second,
		PasswordFile: file})
	done(hasty, err)
	defer hasty.Close()
	m.Until("it grants", func() bool {
		_, err := hasty.Reserve(bg, "orders", 1)
		return err == nil
	})
	for range 3 {
		m.Kill()
		m.LaunchOnly() // which forgets all tokens
		m.Until("it grants again", func() bool {
			_, err := hasty.Reserve(bg, "orders", 1)
			return err == nil
		})
	}
	s, root = as("kb@", "mine"), asRoot()
	grants(s)
	done(root.UserChangePassword(bg, "kb", "hush3"))
	_, err = s.Reserve(bg, "orders", 1)
	never(err, "user kb", "password")
	write("hush3")
	grants(s)

	done(root.RoleAdd(bg, "half"))
	from, to := "/katsubushi/half/seq/", "/katsubushi/half/seq0"
	done(root.RoleGrantPermission(bg, "half", from, to, clientv3.PermissionType(clientv3.PermReadWrite)))
	done(root.UserGrantRole(bg, "kb", "half"))
	half := as("kb@", "half") // may not write that something has changed
	if list, err := half.List(bg); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	_, err = half.Define(bg, counter.Sequence("orders"))
	never(err, "/katsubushi/half/", "grant-permission ROLE --prefix=true readwrite /katsubushi/half/")
	if list, err := half.List(bg); err != nil || len(list) > 0 {
		t.Errorf("a record was written that nobody was told of: %v, %v", list, err)
	}
	_, _, err = half.Changes(bg, "")
	never(err, "/katsubushi/half/changes", "grant-permission")

	done(root.UserDelete(bg, "kb"))
	_, err = s.Reserve(bg, "orders", 1)
	never(err, "user kb", "wrong user or password")
	done(root.UserAdd(bg, "kb", "hush3"))
	done(root.UserGrantRole(bg, "kb", "seq"))
	grants(s)
	_, err = as("kb@", "others").List(bg)
	never(err, "/katsubushi/others/seq/", "user kb", "grant-permission")
	_, err = as("", "mine").List(bg)
	never(err, "names no user")
}

// Certificates on both sides.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if _, err := selfsigned.Write(cert, key, 1); err != nil {
		t.Fatal(err)
	}
	m := etcdtest.Start(t, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
	s := open(t, "etcds://"+m.Addr()+"?ca="+cert+"&cert="+cert+"&key="+key, patient)
	m.Until("it serves", func() bool {
		_, err := s.List(bg)
		return err == nil
	})
	define(t, s)
	wants(t, s, 1, 1)
	for _, url := range []string{"etcds://" + m.Addr(), "etcds://" + m.Addr() + "?ca=" + cert, "etcd://" + m.Addr()} {
		if _, err := open(t, url, 2*time.Second).List(bg); !errors.Is(err, counter.ErrUnavailable) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A daemon that was silent for a day is not waited for, and its note is deleted.
func TestForget(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	s := open(t, etcdtest.URL(t, m), patient)
	define(t, s)
	key := "/katsubushi/" + etcdtest.Namespace(t) + "/daemons/old"
	m.Put(key, "1000 host/1 ")
	if list, err := s.Behind(bg); err != nil || len(list) > 0 || m.Get(key) != "" {
		t.Errorf("%v, %v, %q is kept", list, err, m.Get(key))
	}
}
