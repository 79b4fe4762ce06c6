package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A client is a driver and its connection.
type client struct {
	*driver
	t    *testing.T
	conn string
}

func newClient(t *testing.T, s cas.Settings) *client {
	t.Helper()
	s.Terms = workerid.Terms{Layout: "test", Min: 1, Max: 3, Lease: lease, Log: s.Log}
	made, err := stores.Config(s, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{made.Driver.(*driver), t, ""}
	t.Cleanup(func() { c.Close() })
	return c
}

func at(t *testing.T, url string) *client { return newClient(t, cas.Settings{URL: url}) }

// within is for a call that must end.
func within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// connect goes on until there is a connection. On a busy machine a handshake may take seconds.
func (c *client) connect() {
	c.t.Helper()
	patience := time.Second
	redistest.Until(c.t, "there is a connection", func() bool {
		patience = min(2*patience, time.Minute/2)
		return c.tryConnect(patience) == nil
	})
}

func (c *client) tryConnect(patience time.Duration) (err error) {
	ctx, cancel := within(patience)
	defer cancel()
	c.conn, err = c.Connect(ctx)
	return err
}

// insist repeats a call, over another connection if need be: three servers that stand still in turn may end one.
func (c *client) insist(call func() error) {
	c.t.Helper()
	redistest.Until(c.t, "a call is answered", func() bool {
		c.connect()
		err := call()
		if err != nil {
			c.t.Log(err)
		}
		return err == nil
	})
}

// commit writes record 1, if it is as expected, and returns what is recorded then.
func (c *client) commit(was, text string) error {
	ctx, cancel := within(time.Minute)
	defer cancel()
	a, err := c.Commit(ctx, c.conn, pool.Change{If: map[uint64]string{1: was}, Set: map[uint64]string{1: text}})
	if err == nil && !a.Done {
		return fmt.Errorf("it is %q", a.View.Records[1])
	}
	return err
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) session() string {
	c.t.Helper()
	a, err := c.Commit(c.t.Context(), c.conn, pool.Change{})
	c.must(err)
	return a.Session
}

func (c *client) server() (address string) {
	c.Figures(func(f figure.Figure) {
		if f.Stat == "lease_zookeeper_member_addr" {
			address = f.Value.(string)
		}
	})
	return address
}

// insist repeats a call of the library's client, whose connection may break on a busy machine, after the
// call was carried out or before.
func insist(t *testing.T, what string, f func() error) {
	t.Helper()
	redistest.Until(t, what, func() bool {
		err := f()
		return err == nil || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode)
	})
}

// The session, and with it a presence, goes on at another server.
func TestSessionMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	all := zktest.Three(t)
	all[0].Make("/moved/katsubushi/on")
	first, second := redistest.NewProxy(t, all[0].Addr()), redistest.NewProxy(t, all[1].Addr())
	c := at(t, "zookeeper://"+first.Addr()+","+second.Addr()+"/moved")
	c.insist(func() error { return c.Announce(t.Context(), c.conn, 7, "here") })
	session, conn, server := c.session(), c.conn, c.server()
	for _, p := range []*redistest.Proxy{first, second} {
		if p.Addr() == server {
			p.Refuse(true)
			p.Cut()
		}
	}
	redistest.Until(t, "it is noticed", func() bool { return c.link.gone() })
	if err := c.commit("", "x"); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("over a connection that is gone: %v", err)
	}
	c.connect()
	// a copy of this process would go on with the session, too
	if strings.Count(conn, ".") != 1 || strings.Count(c.conn, ".") != 2 {
		t.Errorf("connections %s and %s: the second one needs something new from the store", conn, c.conn)
	}
	if c.session() != session || c.conn == conn || c.server() == server {
		t.Errorf("session %s at %s over %s, before that %s at %s over %s", c.session(), c.server(), c.conn, session, server,
			conn)
	}
	c.insist(func() error {
		v, err := c.Load(t.Context(), c.conn)
		if err == nil && (v.Present[7] != "here" || c.session() != session) {
			t.Errorf("session %s, before that %s: %+v", c.session(), session, v)
		}
		return err
	})
	if _, err := c.Load(t.Context(), conn); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("over the first connection: %v", err)
	}
}

// A server that was restored to an earlier state refuses clients that have seen a later one, and the
// library would ask it for ever.
func TestRestoredServerAcceptsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	s := zktest.Start(t)
	c := at(t, "zookeeper://"+s.Addr())
	c.connect()
	saved := s.Save()
	plain := s.Client()
	defer plain.Close()
	c.connect()
	for i := range 20 {
		c.must(c.commit(map[bool]string{true: ""}[i == 0]+strings.Repeat("x", i), strings.Repeat("x", i+1)))
		insist(t, "the library's client sees that as well", func() error {
			_, _, err := plain.Get("/katsubushi/id/0001")
			return err
		})
	}
	zxid := c.facts.zxid
	s.Kill()
	s.Restore(saved)
	s.Launch()
	c.connect()
	if plain.State() == zk.StateHasSession {
		t.Error("the library's client was not refused: nothing is tested")
	}
	if v, err := c.Load(t.Context(), c.conn); err != nil || len(v.Records) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if now := c.facts.zxid; now >= zxid {
		t.Errorf("zxid %d after %d: a restore does not show", now, zxid)
	}
}

// What was given up before it was sent is not sent later over another connection.
func TestNothingIsSentOverAnotherConnection(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	url := "zookeeper://%s/another?ns=" + zktest.Namespace(t)
	p := redistest.NewProxy(t, s.Addr())
	c, other := at(t, fmt.Sprintf(url, p.Addr())), at(t, fmt.Sprintf(url, s.Addr()))
	c.connect()
	other.connect()
	c.must(c.commit("", "0"))
	for i := range 3 {
		p.Requests(redistest.Hold)
		ctx, cancel := within(100 * time.Millisecond)
		if _, err := c.Commit(ctx, c.conn,
			pool.Change{If: map[uint64]string{1: "0"}, Set: map[uint64]string{1: "late"}}); err == nil ||
			errors.Is(err, cas.ErrConnection) {
			t.Errorf("round %d: held back: %v", i, err)
		}
		cancel()
		p.Refuse(true)
		p.Cut()
		// whether or not the library has noticed yet, this is not sent, or not later
		if err := c.commit("0", "late"); err == nil {
			t.Errorf("round %d: written without a connection", i)
		}
		p.Refuse(false)
		p.Requests(redistest.Pass)
		before := c.conn
		c.connect()
		if c.conn == before {
			t.Errorf("round %d: still connection %s", i, c.conn)
		}
		other.must(other.commit("0", "0"))
	}
}

// After a restore versions come again. Those of an earlier connection do not count.
func TestVersionsOfAnotherConnection(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	url := "zookeeper://%s/versions?ns=" + zktest.Namespace(t)
	p := redistest.NewProxy(t, s.Addr())
	c, other := at(t, fmt.Sprintf(url, p.Addr())), at(t, fmt.Sprintf(url, s.Addr()))
	c.connect()
	c.must(c.commit("", "mine"))
	p.Cut()
	redistest.Until(t, "it is noticed", func() bool { return c.link.gone() })
	plain := s.Client()
	defer plain.Close()
	key := c.target.Key("id", "0001")
	insist(t, "the record is gone", func() error { return plain.Delete(key, -1) })
	insist(t, "there is another one", func() error { // version 0 again
		_, err := plain.Create(key, []byte("another's"), 0, zk.WorldACL(zk.PermAll))
		return err
	})
	c.connect()
	if err := c.commit("mine", "overwritten"); err == nil {
		t.Error("a version of an earlier connection was compared")
	}
	other.connect()
	other.must(other.commit("another's", "another's"))
	insist(t, "the record is gone again", func() error { return plain.Delete(key, -1) })
	if err := other.commit("another's", "overwritten"); err == nil || err.Error() != `it is ""` {
		t.Errorf("a record that somebody deleted: %v", err)
	}
}

// A server that stands still is left for another one, and one that refuses in the same call.
func TestAServerThatAcceptsButDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	url := "zookeeper://%s," + s.Addr() + "/silent?ns=" + zktest.Namespace(t)
	c := at(t, fmt.Sprintf(url, silent.Addr()))
	c.next = 0
	c.connect()
	if c.server() != s.Addr() {
		t.Errorf("connected to %s", c.server())
	}

	p := redistest.NewProxy(t, s.Addr())
	p.Refuse(true)
	c = at(t, fmt.Sprintf(url, p.Addr()))
	c.next = 0
	if err := c.tryConnect(time.Minute); err != nil {
		t.Errorf("the second server was not tried: %v", err)
	}

	p.Refuse(false)
	c = at(t, fmt.Sprintf(url, p.Addr()))
	c.next = 0
	c.connect()
	p.Answers(redistest.Hold)
	ctx, cancel := within(time.Minute)
	defer cancel()
	if _, err := c.read(ctx, c.link, []string{"/silent"}); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("reading from a server that does not answer: %v, %v", err, ctx.Err())
	}
	p.Answers(redistest.Pass)
	p.Refuse(true)

	// while all refuse, they are not asked more often than three times a second
	c = at(t, "zookeeper://"+p.Addr())
	began := time.Now()
	for range 2 {
		if err := c.tryConnect(time.Minute); err == nil {
			t.Error("connected to nobody")
		}
	}
	if took := time.Since(began); took < pause {
		t.Errorf("two rounds within %v", took)
	}
}

// operations notes what a client asks a server for, but no pings.
type operations struct {
	mu   sync.Mutex
	left []byte
	all  []int32
}

const opExists, opGet, opSync, opMulti = 3, 4, 9, 14

// note is for a proxy with one connection.
func (o *operations) note(piece []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = append(o.left, piece...)
	for len(o.left) >= 4 && len(o.left) >= 4+int(binary.BigEndian.Uint32(o.left)) {
		packet := o.left[4:][:binary.BigEndian.Uint32(o.left)]
		o.left = o.left[4+len(packet):]
		if op := int32(binary.BigEndian.Uint32(packet[4:])); len(packet) != helloBytes-4 &&
			string(packet[:4]) != "\xff\xff\xff\xfe" {
			o.all = append(o.all, op)
		}
	}
}

// since returns those since the last time.
func (o *operations) since() []int32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// What a server is asked for: a sync before reads, and in a heartbeat a multi and nothing else.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	p, ops := redistest.NewProxy(t, s.Addr()), &operations{}
	url := "zookeeper://%s/operations?ns=" + zktest.Namespace(t)
	other := at(t, fmt.Sprintf(url, s.Addr()))
	other.connect()
	other.must(other.commit("", "0"))
	p.Observe(ops.note)
	c := at(t, fmt.Sprintf(url, p.Addr()))
	c.connect()
	ops.since()
	heartbeats := func(was, text string) {
		t.Helper()
		for range 3 {
			c.must(c.commit(was, text))
			if got := ops.since(); !slices.Equal(got, []int32{opMulti}) {
				t.Errorf("a heartbeat: operations %v", got)
			}
			was, text = text, text+"x"
		}
	}
	syncs := func(call string) []int32 {
		t.Helper()
		got := ops.since()
		if len(got) < 2 || got[0] != opSync {
			t.Errorf("%s: operations %v", call, got)
		}
		return got
	}
	_, err := c.Peers(t.Context(), c.conn)
	c.must(err)
	syncs("Peers")
	c.must(c.commit("0", "1"))
	if got := syncs("a first commit"); got[len(got)-1] != opMulti {
		t.Errorf("a first commit: operations %v", got)
	}
	heartbeats("1", "2")
	other.must(other.commit("2xx", "0"))
	_, err = c.Load(t.Context(), c.conn)
	c.must(err)
	syncs("Load")
	heartbeats("0", "1") // what Load has read is known

	for i, want := range [][]int32{{opGet, opMulti}, {opGet}} {
		c.must(c.Announce(t.Context(), c.conn, 1, "here"))
		if got := ops.since(); !slices.Equal(got, want) {
			t.Errorf("presence %d: operations %v, want %v", i, got, want)
		}
	}
	create := func(w uint64) []int32 {
		_, err := c.Commit(t.Context(), c.conn, pool.Change{If: map[uint64]string{w: ""}, Set: map[uint64]string{w: "x"}})
		c.must(err)
		return ops.since()
	}
	create(2)
	if got := create(3); slices.Contains(got, opExists) {
		t.Errorf("the keys above it are there: operations %v", got)
	}
	nowhere := at(t, "zookeeper://"+s.Addr()+"/nowhere?ns="+zktest.Namespace(t))
	nowhere.connect()
	if err := nowhere.Announce(t.Context(), nowhere.conn, 1, "here"); !errors.Is(err, zk.ErrNoNode) ||
		!strings.Contains(err.Error(), "lease init") {
		t.Errorf("without a pool: %v", err)
	}
}

// Operators see where the daemon is connected, its session, how far the server is, and the last error.
func TestFacts(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	p := redistest.NewProxy(t, s.Addr())
	c := at(t, "zookeeper://"+p.Addr()+","+p.Addr()+"/facts?ns="+zktest.Namespace(t))
	facts := func() map[string]any {
		all := map[string]any{}
		c.Figures(func(f figure.Figure) { all[strings.TrimPrefix(f.Name(), "lease_")] = f.Value })
		return all
	}
	check := func(want map[string]any) {
		t.Helper()
		got := facts()
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s is %v, want %v", name, got[name], v)
			}
		}
	}
	check(map[string]any{"zookeeper_member_addr": "", "zookeeper_servers": 2})
	c.connect()
	check(map[string]any{
		"zookeeper_member_addr": p.Addr(), "zookeeper_member_session": "0x" + c.session(), "zookeeper_error_last": "",
		"zookeeper_session_timeout": zktest.MaxSession,
	})
	newest := func(key string) int64 {
		_, stat, err := c.link.client.Get(c.target.Key("id", key))
		c.must(err)
		return stat.Mzxid
	}
	c.must(c.commit("", "0"))
	c.must(c.commit("0", "1"))
	check(map[string]any{"zookeeper_zxid": newest("0001")})
	_, err := c.Commit(t.Context(), c.conn, pool.Change{If: map[uint64]string{2: ""}, Set: map[uint64]string{2: "x"}})
	c.must(err)
	for range 5 { // in whatever order they are looked at
		_, err = c.Load(t.Context(), c.conn)
		c.must(err)
		check(map[string]any{"zookeeper_zxid": newest("0002")})
	}
	was, middle := c.conn, ""
	for range 2 { // something new from the store is in each name
		p.Cut()
		redistest.Until(t, "it is noticed", func() bool { return c.link.gone() })
		c.connect()
		if parts := strings.Split(c.conn, "."); len(parts) != 3 || parts[1] == middle || c.conn == was {
			t.Errorf("connection %s after %s", c.conn, was)
		} else {
			was, middle = c.conn, parts[1]
		}
	}
	p.Refuse(true)
	p.Cut()
	redistest.Until(t, "it is noticed", func() bool { return c.link.gone() })
	if err := c.tryConnect(time.Minute); err == nil {
		t.Fatal("connected to nobody")
	} else {
		check(map[string]any{"zookeeper_member_addr": "", "zookeeper_error_last": err.Error()})
	}
	p.Refuse(false)
	c.connect()
	check(map[string]any{"zookeeper_member_addr": p.Addr(), "zookeeper_error_last": ""})
	if _, err := c.Load(t.Context(), was); !errors.Is(err, cas.ErrConnection) {
		t.Fatal(err)
	} else {
		check(map[string]any{"zookeeper_error_last": err.Error()})
	}
	_, err = c.Load(t.Context(), c.conn)
	c.must(err)
	check(map[string]any{"zookeeper_error_last": ""})
	c.must(c.Close())
	redistest.Until(t, "the connections are closed", p.Idle)

	none := at(t, "zookeeper://"+p.Addr()+"/nothing?ns="+zktest.Namespace(t)) // goes on with its session all the same
	none.connect()
	was = none.conn
	session := none.session()
	for range 2 {
		p.Cut()
		redistest.Until(t, "it is noticed", func() bool { return none.link.gone() })
		none.connect()
		if none.conn == was || none.session() != session {
			t.Errorf("session %s over %s, and %s over %s", session, was, none.session(), none.conn)
		}
		was = none.conn
	}
}

func TestTLSWithClientCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for i, name := range []string{"server", "client", "stranger"} {
		if _, err := selfsigned.Write(file(name+".pem"), file(name+".key"), int64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := os.ReadFile(file("server.pem"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("both.pem"), append(key, cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	port := redistest.FreePort(t)
	zktest.Start(t, fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1", "ssl.clientAuth=need",
		"ssl.keyStore.location="+file("both.pem"), "ssl.keyStore.type=PEM", "ssl.trustStore.location="+file("client.pem"),
		"ssl.trustStore.type=PEM")
	settings := cas.Settings{URL: fmt.Sprintf("zookeepers://127.0.0.1:%d", port)}
	settings.CAFile, settings.CertFile, settings.KeyFile = file("server.pem"), file("client.pem"), file("client.key")
	c := newClient(t, settings)
	c.connect()
	c.must(c.commit("", "encrypted"))
	for name, change := range map[string]func(*cas.Settings){
		"no certificate": func(s *cas.Settings) { s.CertFile, s.KeyFile = "", "" },
		"another certificate": func(s *cas.Settings) {
			s.CertFile, s.KeyFile = file("stranger.pem"), file("stranger.key")
		},
		"another authority":      func(s *cas.Settings) { s.CAFile = file("stranger.pem") },
		"the system's authority": func(s *cas.Settings) { s.CAFile = "" },
	} {
		bad := settings
		change(&bad)
		c := newClient(t, bad)
		for range 3 {
			if err := c.tryConnect(time.Second); err == nil {
				t.Errorf("%s: connected", name)
			}
		}
	}
}

// A pool that was made by a user is for this user alone. No password is told.
func TestUsers(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	log := &childprocess.Log{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	LogTo(logger)
	defer LogTo(slog.New(slog.DiscardHandler))
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hu:sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ns := zktest.Namespace(t)
	owner := cas.Settings{URL: "zookeeper://owner@" + s.Addr() + "/users?ns=" + ns}
	owner.PasswordFile, owner.Log = file, logger
	c := newClient(t, owner)
	c.connect()
	c.must(c.commit("", "0"))
	_, err := c.Commit(t.Context(), c.conn, pool.Change{Fresh: true, SetMeta: "meta"})
	c.must(err)
	_, err = c.Load(t.Context(), c.conn)
	c.must(err)
	acl, _, err := c.link.client.GetACL(c.target.Key("meta"))
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != zk.PermAll ||
		!strings.HasPrefix(acl[0].ID, "owner:") {
		t.Errorf("%+v, %v", acl, err)
	}
	for _, url := range []string{"owner:hush@", "stranger:hush@", ""} {
		x := newClient(t, cas.Settings{URL: "zookeeper://" + url + s.Addr() + "/users?ns=" + ns})
		x.connect()
		_, err := x.Load(t.Context(), x.conn)
		commit := x.commit("0", "1")
		for _, err := range []error{err, commit} {
			if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "/users/"+ns) ||
				strings.Contains(err.Error(), "hush") {
				t.Errorf("%q: %v", url, err)
			}
		}
	}
	c.must(c.commit("0", "1"))
	everybodyReads := append(zk.WorldACL(zk.PermRead), acl...)
	_, err = c.link.client.SetACL(c.target.Key("meta"), everybodyReads, -1)
	c.must(err)
	reader := newClient(t, owner)
	reader.connect()
	_, err = reader.Load(t.Context(), reader.conn)
	c.must(err)
	library{}.Printf("%d words", 3)
	if !strings.Contains(log.String(), `"zookeeper: 3 words"`) {
		t.Error("the log has nothing of the library")
	}
	if strings.Contains(log.String(), "everybody") || strings.Contains(log.String(), "hu:sh") {
		t.Errorf("the log:\n%s", log)
	}

	open := cas.Settings{URL: "zookeeper://" + s.Addr() + "/everybody"}
	open.Log = logger
	c = newClient(t, open)
	c.connect()
	_, err = c.Commit(t.Context(), c.conn, pool.Change{Fresh: true, SetMeta: "meta"})
	c.must(err)
	for range 2 {
		_, err = c.Load(t.Context(), c.conn)
		c.must(err)
	}
	if n := strings.Count(log.String(), "every client of ZooKeeper may change this pool"); n != 1 {
		t.Errorf("warned %d times of an open pool:\n%s", n, log)
	}
}

// Whatever else is below the pool's path is not read to its end.
func TestTooMuchBelowThePath(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	plain := s.Client()
	defer plain.Close()
	root := "/" + zktest.Namespace(t)
	many := make([]any, 0, cas.MaxChildren+1)
	s.Make(root+"/many/id", root+"/many/peers", root+"/large/id")
	for i := range cas.MaxChildren + 1 {
		many = append(many, &zk.CreateRequest{Path: fmt.Sprintf("%s/many/id/x%d", root, i), Acl: zk.WorldACL(zk.PermAll)})
	}
	for ; len(many) > 0; many = many[min(len(many), 1000):] {
		insist(t, "there are many", func() error {
			_, err := plain.Multi(many[:min(len(many), 1000)]...)
			return err
		})
	}
	for i := range 12 {
		insist(t, "there are large ones", func() error {
			_, err := plain.Create(fmt.Sprintf("%s/large/id/%04d", root, i), make([]byte, 100_000), 0, zk.WorldACL(zk.PermAll))
			return err
		})
	}
	for _, ns := range []string{"many", "large"} {
		c := at(t, "zookeeper://"+s.Addr()+root+"?ns="+ns)
		c.connect()
		if _, err := c.Load(t.Context(), c.conn); !errors.Is(err, cas.ErrTooLarge) ||
			!strings.Contains(err.Error(), root+"/"+ns) {
			t.Errorf("%s: %v", ns, err)
		}
		if _, err := c.Peers(t.Context(), c.conn); err != nil {
			t.Errorf("%s: %v", ns, err)
		}
		if insist(t, "there is one less", func() error { return plain.Delete(root+"/many/id/x1", -1) }); ns == "many" {
			_, err := c.Load(t.Context(), c.conn)
			c.must(err)
		}
	}
}

// sink keeps what is written.
type sink struct {
	net.Conn
	all []string
}

func (s *sink) Write(b []byte) (int, error) {
	s.all = append(s.all, string(b))
	return len(b), nil
}

// A ping is left out after a call, and sent before the session's time is over without one.
func TestPingsAreLeftOutWhileCallsKeepTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := new(sink)
		w := &wire{Conn: to, sent: true, granted: session{timeout: 12 * time.Second}}
		for _, c := range []struct {
			wait time.Duration
			text string
			sent bool
		}{
			{0, "call", true}, {2 * time.Second, ping, false}, {0, "call", true}, {4 * time.Second, ping, true},
			{time.Second, "call", true}, {3 * time.Second, ping, true}, {time.Millisecond, ping, false},
		} {
			time.Sleep(c.wait)
			before := len(to.all)
			if n, err := w.Write([]byte(c.text)); n != len(c.text) || err != nil || len(to.all) > before != c.sent {
				t.Errorf("%v, %q: %d, %v; sent: %q", c.wait, c.text, n, err, to.all)
			}
		}
	})
}
