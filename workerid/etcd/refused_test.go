package etcd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// says checks the words of an error.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one that says %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v; it does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("%v: the password", err)
	}
}

// withUsers is a member with root, and katsubushi, who may use what is below a prefix: made by the lines
// of docs/ETCD.md.
func withUsers(t testing.TB, prefix string, args ...string) *etcdtest.Member {
	t.Helper()
	docs, err := os.ReadFile("../../docs/ETCD.md")
	if err != nil {
		t.Fatal(err)
	}
	m := etcdtest.Start(t, append(args, "--bcrypt-cost", "4")...)
	values := strings.NewReplacer("ROOTSECRET", "hush", "SECRET", "hush1", "/NAME/", prefix)
	lines := 0
	for line := range strings.Lines(string(docs)) {
		if rest, ok := strings.CutPrefix(line, "etcdctl "); ok {
			m.Control(strings.Fields(values.Replace(rest))...)
			lines++
		}
	}
	if lines != 8 {
		t.Fatalf("docs/ETCD.md has %d lines", lines)
	}
	return m
}

func rootOf(t testing.TB, m *etcdtest.Member) *clientv3.Client {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.Addr()}, Username: "root",
		Password: "hush", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// Users, passwords, rights and tokens, each taken away while the daemon runs. etcd's words are told,
// and all is well again once it is put right.
func TestUsersAndRights(t *testing.T) {
	t.Parallel()
	m := withUsers(t, "/ids/")
	file := filepath.Join(t.TempDir(), "password")
	password := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	proxy := redistest.NewProxy(t, m.Addr())
	as := func(user, path string) *driver {
		c := settings(t, m)
		c.URL = "etcd://" + user + proxy.Addr() + path
		if strings.HasSuffix(user, "katsubushi@") {
			c.PasswordFile = file
		}
		return driverOf(t, c, lasting)
	}
	password("hush2")
	d := as("katsubushi@", "/ids")
	_, err := d.Connect(within(t, patience))
	says(t, err, "user katsubushi", "password")
	redistest.Until(t, "its connection is closed", proxy.Idle)
	password("hush1")
	works := func() {
		t.Helper()
		redistest.Until(t, "it works again", func() bool {
			conn, err := d.Connect(within(t, patience))
			if err == nil {
				_, err = d.Commit(within(t, patience), conn, pool.Change{SetMeta: "x"})
			}
			if err == nil {
				err = d.Announce(within(t, patience), conn, 1, "x")
			}
			return err == nil
		})
	}
	works()
	logins := m.Calls()["Authenticate"]
	d.mu.Lock()
	d.drop(d.conn)
	d.mu.Unlock()
	works()
	if n := m.Calls()["Authenticate"]; n != logins {
		t.Errorf("%d logins after %d: the token that there is was not used", n, logins)
	}
	conn := connected(t, d)

	root := rootOf(t, m)
	done := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	done(root.RoleRevokePermission(bg, "katsubushi", "/ids/", clientv3.GetPrefixRangeEnd("/ids/")))
	_, err = d.Commit(within(t, patience), conn, pool.Change{SetMeta: "y"})
	if err != nil && strings.Contains(err.Error(), "revision of auth store is old") { // the token is from before
		conn = connected(t, d)
		_, err = d.Commit(within(t, patience), conn, pool.Change{SetMeta: "y"})
	}
	says(t, err, "does not permit", "user katsubushi", "--prefix=true readwrite /ids/katsubushi/")
	_, err = d.Load(within(t, patience), conn)
	says(t, err, "does not permit")
	done(root.RoleGrantPermission(bg, "katsubushi", "/ids/", clientv3.GetPrefixRangeEnd("/ids/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	works()

	m.Kill()
	m.LaunchOnly() // which forgets all tokens
	works()
	root = rootOf(t, m)
	d.mu.Lock()
	d.token = "expired.1"
	d.drop(d.conn)
	d.mu.Unlock()
	conn, err = d.Connect(within(t, patience))
	says(t, err, "etcd refuses user katsubushi")
	works()

	done(root.UserDelete(bg, "katsubushi"))
	redistest.Until(t, "it is refused", func() bool {
		conn, err = d.Connect(within(t, patience))
		if err == nil {
			_, err = d.Commit(within(t, patience), conn, pool.Change{SetMeta: "z"})
		}
		return err != nil && strings.Contains(err.Error(), "wrong user or password")
	})
	done(root.UserAdd(bg, "katsubushi", "hush1"))
	done(root.UserGrantRole(bg, "katsubushi", "katsubushi"))
	works()

	nobody := as("", "/ids")
	if conn, err = nobody.Connect(within(t, patience)); err == nil {
		_, err = nobody.Load(within(t, patience), conn)
	}
	says(t, err, "the URL names no user")
	inURL := as("katsubushi:hush1@", "/others")
	_, err = inURL.Load(within(t, patience), connected(t, inURL))
	says(t, err, "does not permit", "/others/katsubushi/")

	done(root.AuthDisable(bg))
	works()
	d = as("katsubushi@", "/ids") // who logs in where no passwords are wanted
	works()
}

// A JWT says of which revision of users and rights it is, and is refused for ever once that is another one.
func TestATokenOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("of the members alone"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := withUsers(t, "/ids/", "--auth-token", "jwt,sign-method=HS256,priv-key="+key)
	c := settings(t, m)
	c.URL = "etcd://katsubushi:hush1@" + m.Addr() + "/ids"
	d := driverOf(t, c, lasting)
	commit := func() error {
		_, err := d.Commit(within(t, patience), connected(t, d), pool.Change{SetMeta: "x"})
		return err
	}
	redistest.Until(t, "it works", func() bool { return commit() == nil })
	if _, err := rootOf(t, m).RoleAdd(bg, "another"); err != nil {
		t.Fatal(err)
	}
	says(t, commit(), "revision of auth store is old")
	redistest.Until(t, "it logs in again", func() bool { return commit() == nil })
}

// Certificates on both sides, from files.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if _, err := selfsigned.Write(cert, key, 1); err != nil {
		t.Fatal(err)
	}
	m := etcdtest.Start(t, "--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
	with := func(scheme string, o cas.Options) error {
		c := settings(t, m)
		c.URL = scheme + "://" + m.Addr()
		o.Boot = c.Boot
		c.Options = o
		d := driverOf(t, c, lasting)
		conn, err := d.Connect(within(t, patience))
		if err == nil {
			_, err = d.Load(within(t, patience), conn)
		}
		return err
	}
	mine := cas.Options{CAFile: cert, CertFile: cert, KeyFile: key}
	redistest.Until(t, "it works", func() bool { return with("etcds", mine) == nil })
	for what, err := range map[string]error{
		"no authority":   with("etcds", cas.Options{CertFile: cert, KeyFile: key}),
		"no certificate": with("etcds", cas.Options{CAFile: cert}),
		"no TLS":         with("etcd", cas.Options{}),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// Without space, etcd refuses writes and says so. Reads go on, and writes once there is space again.
func TestNoSpaceForTheDriver(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, "--quota-backend-bytes", "1000000")
	d := driverOf(t, settings(t, m), lasting)
	conn := connected(t, d)
	fill(t, m)
	redistest.Until(t, "there is no space", func() bool {
		_, err := d.Commit(within(t, patience), conn, pool.Change{SetMeta: "x"})
		return err != nil && strings.Contains(err.Error(), "NOSPACE")
	})
	_, err := d.Commit(within(t, patience), conn, pool.Change{SetMeta: "x"})
	says(t, err, "etcd has no space left", "alarm disarm")
	if _, err := d.Load(within(t, patience), conn); err != nil || connected(t, d) != conn {
		t.Error(err)
	}
	operator := driverOf(t, settings(t, m), passing) // needs no lease, so that it can look
	if _, err := operator.Load(within(t, patience), connected(t, operator)); err != nil {
		t.Error(err)
	}
	drain(t, m)
	if _, err := d.Commit(within(t, patience), conn, pool.Change{SetMeta: "x"}); err != nil {
		t.Error(err)
	}
}

// fill writes until there is no space.
func fill(t testing.TB, m *etcdtest.Member) {
	c := m.Client()
	redistest.Until(t, "etcd is full", func() bool {
		_, err := c.Put(bg, "/filler", strings.Repeat("x", 100_000))
		return errors.Is(err, rpctypes.ErrNoSpace) // others may come from a busy machine
	})
}

// drain makes space again.
func drain(t testing.TB, m *etcdtest.Member) {
	c := m.Client()
	r, err := c.Get(bg, "/filler")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(bg, r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	m.Control("defrag")
	m.Control("alarm", "disarm")
}
