package zktest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// jars are where Debian's package libzookeeper-java and those that it needs put them. The manifest of
// the first one names others; it lacks a log, and three of Netty, which TLS needs.
const jars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:" +
	"/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:/usr/share/java/netty-common.jar"

// MaxSession is the longest session that a server gives: longer than a busy machine stands still.
const MaxSession = 2 * time.Minute

// A Server is a ZooKeeper process, or none while it is killed. Its ports stay the same.
type Server struct {
	t testing.TB
	*instance
}

type instance struct {
	Port int
	Dir  string // of its data

	id     int // 0 = it is alone
	peers  [2]int
	conf   []string // lines of its configuration
	child  *childprocess.Child
	paused bool
	log    *childprocess.Log
}

// Start starts a server that is alone. lines are added to its configuration. The test is skipped where
// there is no ZooKeeper, unless KATSUBUSHI_REQUIRE=1.
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	s := build(t, 1, t.TempDir(), lines...)[0]
	t.Cleanup(s.Kill)
	return s
}

// build starts servers, which elect a leader if there are several. It waits until all are ready.
func build(t testing.TB, n int, dir string, lines ...string) (all Servers) {
	t.Helper()
	var list []string
	for i := range n {
		s := prepare(t, filepath.Join(dir, strconv.Itoa(i+1)), lines)
		if n > 1 {
			s.id, s.peers = i+1, [2]int{childprocess.FreePort(t), childprocess.FreePort(t)}
			list = append(list, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", s.id, s.peers[0], s.peers[1]))
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.conf = append(s.conf, list...)
	}
	all.Launch()
	return all
}

func prepare(t testing.TB, dir string, lines []string) *Server {
	t.Helper()
	_, err := exec.LookPath("java")
	for _, jar := range strings.Split(jars, ":") {
		_, missing := os.Stat(jar)
		err = errors.Join(err, missing)
	}
	if err != nil {
		childprocess.Missing(t, "ZooKeeper (Debian's default-jre-headless and libzookeeper-java): ", err)
	}
	s := &Server{t, &instance{Port: childprocess.FreePort(t), Dir: filepath.Join(dir, "data")}}
	s.conf = append([]string{
		"tickTime=500", fmt.Sprint("maxSessionTimeout=", MaxSession.Milliseconds()), "initLimit=60", "syncLimit=40",
		"admin.enableServer=false",
		"maxClientCnxns=0", "4lw.commands.whitelist=*",
		"dataDir=" + s.Dir, "clientPort=" + strconv.Itoa(s.Port), "clientPortAddress=127.0.0.1",
	}, lines...)
	return s
}

// Addr is 127.0.0.1 and the port.
func (p *instance) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Port)) }

// LaunchOnly starts the server again after Kill, and does not wait.
func (s *Server) LaunchOnly() {
	s.t.Helper()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	conf := filepath.Join(filepath.Dir(s.Dir), "zoo.cfg")
	for file, text := range map[string]string{conf: strings.Join(s.conf, "\n") + "\n",
		filepath.Join(s.Dir, "myid"): strconv.Itoa(s.id)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	cmd := exec.Command("java", "-Xmx64m", "-Xss256k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"-XX:-UsePerfData",
		"-Dzookeeper.preAllocSize=256", "-Dzookeeper.forceSync=no", // a test's process is killed, not its host
		"-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf)
	if !strings.Contains(strings.Join(s.conf, "\n"), "secureClientPort") { // the default starts quicker
		cmd.Args = append(cmd.Args[:9:9], cmd.Args[10:]...)
	}
	cmd.Dir = filepath.Dir(s.Dir)
	var err error
	if s.child, err = childprocess.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	s.log = s.child.Log
}

// Launch starts the server again, and waits until it is ready. One of several needs others for that.
func (s *Server) Launch() {
	s.t.Helper()
	s.LaunchOnly()
	s.Ready()
}

// Ready waits until a session opens. A server that does not serve yet may accept a connection and
// never answer; the library waits for that answer for more than a minute, so it must not ask too early.
func (s *Server) Ready() {
	s.t.Helper()
	s.Until("it serves", func() bool { return strings.Contains(s.Ask("srvr"), "Mode: ") })
	c := s.Client()
	defer c.Close()
	s.Until("a session opens", func() bool { return c.State() == zk.StateHasSession })
}

// Kill ends the process at once, as a crash does.
func (p *instance) Kill() {
	if p.child != nil {
		p.child.Kill()
		p.child, p.paused = nil, false
	}
}

// Pause stops the process, as an overloaded host does; Resume lets it go on.
func (s *Server) Pause() {
	s.child.Pause(s.t)
	s.paused = true
}

// Resume ends a Pause.
func (s *Server) Resume() {
	s.child.Resume(s.t)
	s.paused = false
}

// Until waits for a condition. If it does not come true, the test fails with the server's log.
func (s *Server) Until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Kill()
			s.t.Fatalf("ZooKeeper: it did not come true that %s; it logged:\n%s", what, s.log)
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// Client is a client of this server, in which the library reconnects as it likes. Whoever asks closes
// it.
func (s *Server) Client() *zk.Conn {
	s.t.Helper()
	c, _, err := zk.Connect([]string{s.Addr()}, MaxSession, zk.WithLogger(quiet{}))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// Ask sends one of ZooKeeper's words of four letters, such as srvr. The answer is empty if there is
// none.
func (s *Server) Ask(word string) string {
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	io.WriteString(c, word)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// Make makes keys that nobody owns, parents first.
func (s *Server) Make(keys ...string) {
	s.t.Helper()
	c := s.Client()
	defer c.Close()
	for _, key := range keys {
		for end := 1; end <= len(key); end++ {
			if end < len(key) && key[end] != '/' {
				continue
			}
			s.Until(key[:end]+" is there", func() bool { // a connection may break on a busy machine
				_, err := c.Create(key[:end], nil, 0, zk.WorldACL(zk.PermAll))
				return err == nil || errors.Is(err, zk.ErrNodeExists)
			})
		}
	}
}

// Get reads a key, empty if there is none.
func (s *Server) Get(key string) string {
	s.t.Helper()
	c := s.Client()
	defer c.Close()
	var text []byte
	s.Until(key+" is read", func() (ok bool) {
		var err error
		text, _, err = c.Get(key)
		return err == nil || errors.Is(err, zk.ErrNoNode)
	})
	return string(text)
}

// Save copies the data directory while the server stands still, and Restore brings it back.
func (s *Server) Save() (copied string) {
	s.t.Helper()
	s.Pause()
	defer s.Resume()
	copied = filepath.Join(s.t.TempDir(), "saved")
	s.copy(copied, s.Dir)
	return copied
}

// Restore replaces the data of a server that is killed. An empty name wipes it.
func (s *Server) Restore(from string) {
	s.t.Helper()
	if err := os.RemoveAll(s.Dir); err != nil {
		s.t.Fatal(err)
	}
	if from != "" {
		s.copy(s.Dir, from)
	}
}

func (s *Server) copy(to, from string) {
	s.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
}

// Servers are those that elect a leader.
type Servers []*Server

// Launch starts all of them, and waits until each is ready.
func (all Servers) Launch() {
	for _, s := range all {
		s.t.Helper()
		s.LaunchOnly()
	}
	all.Ready()
}

// Ready waits until each of them is.
func (all Servers) Ready() {
	for _, s := range all {
		if s.t.Helper(); s.child != nil && !s.paused {
			s.Ready()
		}
	}
}

// Kill ends all of them.
func (all Servers) Kill() {
	for _, s := range all {
		s.Kill()
	}
}

// Hosts is the addresses, with commas.
func (all Servers) Hosts() string {
	var hosts []string
	for _, s := range all {
		hosts = append(hosts, s.Addr())
	}
	return strings.Join(hosts, ",")
}

// Leader returns the index of the one that leads.
func (all Servers) Leader() (leader int) {
	all[0].t.Helper()
	all[0].Until("there is a leader", func() bool {
		leader = slices.IndexFunc(all, func(s *Server) bool { return strings.Contains(s.Ask("srvr"), "Mode: leader") })
		return leader >= 0
	})
	return leader
}

// Namespace is the test's name, as one word.
func Namespace(t testing.TB) string { return redistest.Namespace(t) }
