package etcd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

var bg = context.Background()

func define(t *testing.T, s *etcd.Store) {
	t.Helper()
	if _, err := s.Define(bg, counter.Sequence("orders")); err != nil {
		t.Fatal(err)
	}
}

// wants reserves and compares where the block begins.
func wants(t *testing.T, s *etcd.Store, n, lo uint64) counter.Block {
	t.Helper()
	b, err := s.Reserve(bg, "orders", n)
	if err != nil || b.Lo != lo {
		t.Fatalf("%+v, %v; want it to begin with %d", b, err, lo)
	}
	return b
}

// refused wants an error that says all of it.
func refused(t *testing.T, err error, is error, says ...string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(err, is) {
		t.Fatalf("%v; want %v", err, is)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%v; it does not say %q", err, s)
		}
	}
}

// A record that is not this store's, or not one at all, is named with its key and not gone on from.
func TestForeignRecords(t *testing.T) {
	t.Parallel()
	m, other := etcdtest.Start(t), etcdtest.Start(t)
	url := etcdtest.URL(t, m)
	key := "/katsubushi/" + etcdtest.Namespace(t) + "/seq/orders"
	s := open(t, url, patient)
	define(t, s)
	block := wants(t, s, 10, 1)
	text := m.Get(key)

	t.Run("another namespace", func(t *testing.T) {
		m.Put("/katsubushi/copy/seq/orders", text)
		s := open(t, "etcd://"+m.Addr()+"?ns=copy", patient)
		_, err := s.Define(bg, counter.Sequence("orders"))
		refused(t, err, counter.ErrForeign, "/katsubushi/copy/seq/orders", key, "raise orders 11")
		_, err = s.Reserve(bg, "orders", 1)
		refused(t, err, counter.ErrForeign)
		refused(t, s.Return(bg, "orders", block, 5), counter.ErrForeign)
		if now := m.Get("/katsubushi/copy/seq/orders"); now != text {
			t.Errorf("the copy was written: %s", now)
		}
		if list, err := s.List(bg); err != nil || len(list) != 1 || !errors.Is(list[0].Fault, counter.ErrForeign) {
			t.Error(list, err)
		}
		if _, err := s.Raise(bg, "orders", 50); err != nil {
			t.Fatal(err)
		}
		wants(t, s, 1, 50)
	})
	t.Run("another cluster", func(t *testing.T) {
		other.Put(key, text)
		s := open(t, "etcd://"+other.Addr()+"?ns="+strings.Split(key, "/")[2], patient)
		_, err := s.Reserve(bg, "orders", 1)
		refused(t, err, counter.ErrForeign, key, "cluster")
		if r, err := s.Show(bg, "orders"); !errors.Is(err, counter.ErrForeign) || r.Next != 11 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := s.Raise(bg, "orders", 11); err != nil { // nobody uses the old one any more
			t.Fatal(err)
		}
		wants(t, s, 1, 11)
	})
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
	t.Run("of a strict sequence", func(t *testing.T) {
		copied := strings.NewReplacer(key, "/katsubushi/strict/seq/orders", `"strict":false`, `"strict":true`).Replace(text)
		m.Put("/katsubushi/strict/seq/orders", copied)
		_, err := open(t, "etcd://"+m.Addr()+"?ns=strict", patient).Reserve(bg, "orders", 1)
		refused(t, err, counter.ErrOrder)
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
	t.Run("unreadable", func(t *testing.T) {
		for _, text := range []string{"", "17", strings.Replace(text, `"version":1`, `"version":2`, 1),
			strings.Replace(text, `"next":11`, `"next":5,"x":1`, 1),
			strings.Replace(text, `"name":"orders"`, `"name":"items"`, 1)} {
			m.Put(key, text)
			_, err := s.Reserve(bg, "orders", 1)
			refused(t, err, nil, key)
			if strings.Contains(text, `"version":2`) {
				refused(t, err, nil, "of another version: 2, and this program knows 1")
			}
			_, list, err := s.Changes(bg, "")
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			refused(t, list[0].Fault, nil, key)
			_, err = s.Define(bg, counter.Sequence("orders"))
			refused(t, err, nil, key)
			list, err = s.List(bg)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			refused(t, list[0].Fault, nil, key)
			if strings.Contains(text, `"version":2`) { // nor does an operator who has an older program
				_, err = s.Revive(bg, counter.Sequence("orders"), 50)
				refused(t, err, nil, "of another version: 2, and this program knows 1")
			}
			if m.Get(key) != text {
				t.Errorf("%q was overwritten", text)
			}
		}
		if _, err := s.Define(bg, counter.Sequence("items")); err != nil {
			t.Fatal(err)
		}
		_, records, err := s.Changes(bg, "")
		if err != nil || len(records) != 2 || records[0].Name != "items" || records[0].Fault != nil {
			t.Errorf("one of two can be read: %v, %v", records, err)
		}
	})
	t.Run("set back", func(t *testing.T) {
		m.Put(key, text)
		wants(t, s, 10, 11)
		m.Put(key, text)
		_, err := s.Reserve(bg, "orders", 1)
		refused(t, err, counter.ErrForeign, key, "raise orders 21")
		if _, err := open(t, url, patient).Raise(bg, "orders", 21); err != nil {
			t.Fatal(err)
		}
		wants(t, s, 1, 21)
	})
}

// An etcd that was wiped under a daemon has nothing for it until an operator has raised the sequence.
func TestWipedStore(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	url := etcdtest.URL(t, m)
	s, idle := open(t, url, patient), open(t, url, patient)
	define(t, s)
	define(t, idle)
	wants(t, s, 10, 1)
	items := counter.Sequence("items")
	if _, err := s.Define(bg, items); err != nil {
		t.Fatal(err)
	}
	m.Kill()
	if err := os.RemoveAll(m.Dir); err != nil {
		t.Fatal(err)
	}
	m.Launch()
	_, err := s.Reserve(bg, "orders", 1)
	refused(t, err, counter.ErrForeign, "wiped", "up to 10")
	_, err = s.Define(bg, counter.Sequence("orders"))
	refused(t, err, counter.ErrForeign)
	operator := open(t, url, patient)
	define(t, operator)
	for range 3 { // more than this daemon was granted
		if _, err := operator.Reserve(bg, "orders", 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*etcd.Store{s, idle} {
		_, err = s.Reserve(bg, "orders", 1)
		refused(t, err, counter.ErrForeign, "made again")
	}
	if _, err := operator.Define(bg, items); err != nil {
		t.Fatal(err)
	}
	_, err = s.Reserve(bg, "items", 1) // others may have been granted some
	refused(t, err, counter.ErrForeign, "made again")
	if _, err := operator.Raise(bg, "orders", 100); err != nil {
		t.Fatal(err)
	}
	wants(t, s, 1, 100)
	wants(t, idle, 1, 101)
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

// The answer to a write is lost after etcd has carried it out. A block is then a gap, and what is given
// back is given back once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, m.Addr())
	s, direct := open(t, "etcd://"+proxy.Addr()+"?ns=lost", 10*time.Second),
		open(t, "etcd://"+m.Addr()+"?ns=lost", patient)
	define(t, s)
	next := func() uint64 { // 0 = not known; the proxy may still ask when the test is over
		r, _ := direct.Show(bg, "orders")
		return r.Next
	}
	// lose loses all answers from the first one on that comes after a write.
	lose := func() (lost *atomic.Bool) {
		lost = new(atomic.Bool)
		before := next()
		proxy.Rewrite(func(piece []byte) []byte {
			if n := next(); lost.Load() || n != before && n != 0 {
				lost.Store(true)
				return nil
			}
			return piece
		})
		return lost
	}
	heal := func() {
		proxy.Rewrite(nil)
		proxy.Cut()
	}
	b := wants(t, s, 10, 1)

	lost := lose()
	for !lost.Load() {
		_, err := s.Reserve(bg, "orders", 10)
		refused(t, err, counter.ErrUnavailable, "/katsubushi/lost/seq/orders")
	}
	heal()
	if n := next(); n != 21 {
		t.Fatalf("the next value is %d", n)
	}
	refused(t, s.Return(bg, "orders", b, 5), counter.ErrStale) // as another daemon's write
	m.Until("it answers through the proxy", func() bool {
		_, err := s.Show(bg, "orders")
		return err == nil
	})
	b = wants(t, s, 10, 21) // 11 to 20 are a gap

	lost = lose()
	returned := make(chan error)
	go func() { returned <- s.Return(bg, "orders", b, 25) }()
	m.Until("the answer is lost", lost.Load)
	heal()
	if err := <-returned; err != nil {
		t.Fatal(err)
	}
	refused(t, s.Return(bg, "orders", b, 25), counter.ErrStale)
	wants(t, direct, 1, 25)

	m.Until("it answers through the proxy", func() bool {
		_, err := s.Show(bg, "orders")
		return err == nil
	})
	b = wants(t, s, 10, 26)
	lost = lose()
	go func() { returned <- s.Return(bg, "orders", b, 26) }()
	m.Until("the answer is lost", lost.Load)
	wants(t, direct, 1, 26) // it was given back, and somebody has it
	heal()
	if err := <-returned; err == nil || counter.Certain(err) {
		t.Errorf("values that another daemon has by now: %v", err)
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

// An operator learns which daemons have not heard of a change.
func TestBehind(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	url := etcdtest.URL(t, m)
	operator, daemon := open(t, url, patient), open(t, url, patient)
	define(t, operator)
	since := ""
	poll := func() {
		t.Helper()
		now, _, err := daemon.Changes(bg, since)
		if err != nil {
			t.Fatal(err)
		}
		since = now
	}
	behind := func(when string, want int) {
		t.Helper()
		if list, err := operator.Behind(bg); err != nil || len(list) != want || want > 0 && list[0].Silent > time.Minute {
			t.Errorf("%s: %+v, %v; want %d", when, list, err, want)
		}
	}
	behind("without a daemon", 0)
	poll()
	behind("a daemon that has just begun", 1)
	poll()
	behind("once it was told", 0)
	if _, err := operator.Raise(bg, "orders", 1000); err != nil {
		t.Fatal(err)
	}
	behind("after a raise", 1)
	poll()
	behind("while it learns of it", 1)
	poll()
	behind("once it has", 0)
	key := "/katsubushi/" + etcdtest.Namespace(t) + "/daemons/old"
	m.Put(key, "1000 host/1 ")
	behind("one that was silent for years", 0)
	if text := m.Get(key); text != "" {
		t.Errorf("it is kept: %s", text)
	}
	if _, err := operator.Raise(bg, "orders", 2000); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Close(); err != nil {
		t.Fatal(err)
	}
	behind("one that has ended", 0)
}
