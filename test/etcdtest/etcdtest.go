package etcdtest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// patience is how long a condition may take to come true before a test fails.
const patience = 4 * time.Minute

// A Member is an etcd process, or none while it is killed. Its ports stay the same.
type Member struct {
	Port int
	Dir  string // of its data; whoever deletes it while the member is killed wipes it

	t       testing.TB
	name    string
	peer    int    // port for the other members
	cluster string // NAME=URL,...
	args    []string
	child   *childprocess.Child // nil while it is killed
	log     *childprocess.Log

	mu  sync.Mutex
	own *clientv3.Client // of Put, Get and others, until it is killed; nil before they are called
}

// Start starts an etcd of one member. args are added to its command line: "--quota-backend-bytes",
// "1000000". The test is skipped where there is no etcd, unless KATSUBUSHI_REQUIRE=1.
func Start(t testing.TB, args ...string) *Member {
	t.Helper()
	return Cluster(t, 1, args...)[0]
}

// Cluster starts an etcd of n members and waits until each of them answers.
func Cluster(t testing.TB, n int, args ...string) []*Member {
	t.Helper()
	childprocess.Need(t, "etcd")
	var all []*Member
	var urls []string
	for i := range n {
		m := &Member{t: t, name: fmt.Sprint("m", i), Port: childprocess.FreePort(t), peer: childprocess.FreePort(t),
			Dir: filepath.Join(t.TempDir(), "data"), args: args}
		urls = append(urls, m.name+"="+m.peerURL())
		all = append(all, m)
	}
	for _, m := range all {
		m.cluster = strings.Join(urls, ",")
		m.LaunchOnly()
	}
	for _, m := range all {
		m.Ready()
	}
	return all
}

func (m *Member) peerURL() string { return fmt.Sprintf("http://127.0.0.1:%d", m.peer) }

// Addr is 127.0.0.1 and the port.
func (m *Member) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port)) }

func (m *Member) endpoint() string {
	if m.encrypted() {
		return "https://" + m.Addr()
	}
	return "http://" + m.Addr()
}

func (m *Member) encrypted() bool { return strings.Contains(strings.Join(m.args, " "), "--cert-file") }

// LaunchOnly starts the member again after Kill, and does not wait.
func (m *Member) LaunchOnly() {
	m.t.Helper()
	args := append([]string{
		"--name", m.name, "--data-dir", m.Dir, "--listen-client-urls", m.endpoint(), "--advertise-client-urls", m.endpoint(),
		"--listen-peer-urls", m.peerURL(), "--initial-advertise-peer-urls", m.peerURL(), "--initial-cluster", m.cluster,
		"--initial-cluster-token", m.t.Name(), "--logger", "zap", "--log-level", "error",
		"--unsafe-no-fsync", // a test's process is killed, not its host
	}, m.args...)
	var err error
	if m.child, err = childprocess.Start(exec.Command("etcd", args...)); err != nil {
		m.t.Fatal(err)
	}
	m.log = m.child.Log
	m.t.Cleanup(m.Kill)
}

// Launch starts the member again after Kill, and waits until it answers.
func (m *Member) Launch() {
	m.t.Helper()
	m.LaunchOnly()
	m.Ready()
}

// Ready waits until the member answers a linearizable read, which takes a leader. A member with TLS
// only has to listen.
func (m *Member) Ready() {
	m.t.Helper()
	if m.encrypted() {
		m.Until("it listens", func() bool {
			c, err := net.Dial("tcp", m.Addr())
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		return
	}
	m.Until("it answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := m.kept().Get(ctx, "ready")
		return err == nil
	})
}

// Kill ends the process at once, as a crash does.
func (m *Member) Kill() {
	if m.child != nil {
		m.child.Kill()
		m.child = nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own != nil {
		m.own.Close()
		m.own = nil
	}
}

// Pause stops the process, as an overloaded host does; Resume lets it go on.
func (m *Member) Pause() {
	m.t.Helper()
	m.child.Pause(m.t)
}

// Resume ends a Pause.
func (m *Member) Resume() {
	m.t.Helper()
	m.child.Resume(m.t)
}

// Until waits until a condition is true.
func (m *Member) Until(what string, condition func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("etcd member %s: it did not come true that %s; it logged:\n%s", m.name, what, m.log)
		}
	}
}

// Client is a client of this member alone. The test's cleanup closes it.
func (m *Member) Client() *clientv3.Client {
	m.t.Helper()
	c := m.client()
	m.t.Cleanup(func() { c.Close() })
	return c
}

func (m *Member) client() *clientv3.Client {
	m.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.endpoint()}, Logger: zap.NewNop(), MaxUnaryRetries: 1})
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// kept is a client that stays until the member is killed.
func (m *Member) kept() *clientv3.Client {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		m.own = m.client()
	}
	return m.own
}

// Put writes a key.
func (m *Member) Put(key, value string) {
	m.t.Helper()
	m.ask(func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, key, value)
		return err
	})
}

// Get reads a key; empty if there is none.
func (m *Member) Get(key string) (value string) {
	m.t.Helper()
	m.ask(func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Get(ctx, key)
		if err == nil && len(r.Kvs) > 0 {
			value = string(r.Kvs[0].Value)
		}
		return err
	})
	return value
}

// ask asks until there is an answer. On a busy machine a member may have no leader for a while.
func (m *Member) ask(f func(context.Context, *clientv3.Client) error) {
	m.t.Helper()
	m.Until("it answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), patience/4)
		defer cancel()
		return f(ctx, m.kept()) == nil
	})
}

// Delete removes all keys that begin so.
func (m *Member) Delete(prefix string) {
	m.t.Helper()
	m.ask(func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Delete(ctx, prefix, clientv3.WithPrefix())
		return err
	})
}

// stoodStill is in what etcd says that was stopped in a call, which it may have carried out.
const stoodStill = "etcdserver: request timed out"

// Control runs etcdctl, of API version 3, on this member, until etcd answers. Then something may be there already.
func (m *Member) Control(args ...string) (out string) {
	m.t.Helper()
	stood := false
	m.Until("etcdctl has an answer", func() bool {
		var err error
		if out, err = m.ControlOnce(args...); err != nil && strings.Contains(out, stoodStill) {
			stood = true
			return false
		}
		if err != nil && !(stood && strings.Contains(out, "already exists")) {
			m.t.Fatalf("etcdctl %v: %v: %s", args, err, out)
		}
		return true
	})
	return out
}

// ControlOnce is Control once, whatever etcd answers.
func (m *Member) ControlOnce(args ...string) (out string, err error) {
	m.t.Helper()
	cmd := exec.Command("etcdctl",
		append([]string{"--endpoints", m.endpoint(), "--dial-timeout", patience.String(), "--command-timeout",
			patience.String()}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	all, err := cmd.CombinedOutput()
	return string(all), err
}

// Calls counts the calls that the member has answered, by method: "Txn", "Range", "LeaseKeepAlive".
func (m *Member) Calls() map[string]int {
	m.t.Helper()
	r, err := http.Get(m.endpoint() + "/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	calls := map[string]int{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "grpc_server_handled_total{")
		if !ok {
			continue
		}
		_, method, _ := strings.Cut(rest, `grpc_method="`)
		method, _, _ = strings.Cut(method, `"`)
		n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			m.t.Fatalf("%s: %v", lines.Text(), err)
		}
		calls[method] += int(n)
	}
	return calls
}

// Leader returns the member that leads. All of them must run.
func Leader(all []*Member) (leader *Member) {
	all[0].Until("there is a leader", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, m := range all {
			s, err := m.kept().Status(ctx, m.endpoint())
			if err == nil && s.Leader == s.Header.MemberId {
				leader = m
				return true
			}
		}
		return false
	})
	return leader
}

// URL is that of a store of sequences on these members, with a namespace that no other test uses.
func URL(t testing.TB, all ...*Member) string {
	var hosts []string
	for _, m := range all {
		hosts = append(hosts, m.Addr())
	}
	return "etcd://" + strings.Join(hosts, ",") + "?ns=" + Namespace(t)
}

// Namespace is the test's name, as one word.
func Namespace(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > 'z' || r > '9' && r < 'A' || r > 'Z' && r < 'a' {
			return '-'
		}
		return r
	}, t.Name())
}
