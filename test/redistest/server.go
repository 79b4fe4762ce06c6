package redistest

import (
	"bufio"
	"context"
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
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/faketime"
)

// A Server is a redis-server process, or none while it is killed. Its port stays the same.
type Server struct {
	Port int
	Dir  string

	t       testing.TB
	args    []string
	clocked bool
	proc    *childprocess.Child

	mu  sync.Mutex
	own *redis.Client // of Do and Info, nil until one of them is called
}

// Start starts a redis-server without persistence. args are added to its command line:
// "--maxmemory", "1mb". The test is skipped where there is no redis-server, unless
// KATSUBUSHI_REQUIRE=1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, false, args)
}

// StartClocked is Start, and the server has a wall clock that can be moved.
func StartClocked(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, true, args)
}

func start(t testing.TB, clocked bool, args []string) *Server {
	t.Helper()
	childprocess.Need(t, "redis-server")
	s := &Server{t: t, Port: FreePort(t), Dir: t.TempDir(), args: args, clocked: clocked}
	t.Cleanup(s.Kill)
	s.Launch()
	return s
}

// Launch starts the server again after Kill, and waits until it answers.
func (s *Server) Launch() {
	s.t.Helper()
	s.LaunchOnly()
	if !slices.Contains(s.args, "--tls-port") {
		s.Until("the server answers", s.answers)
	}
}

// LaunchOnly starts the server again and does not wait. What CONFIG REWRITE wrote down, as
// Sentinels have it done, is true again.
func (s *Server) LaunchOnly() {
	s.t.Helper()
	conf := filepath.Join(s.Dir, "redis.conf")
	if f, err := os.OpenFile(conf, os.O_CREATE, 0o600); err != nil {
		s.t.Fatal(err)
	} else {
		f.Close()
	}
	args := []string{conf, "--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--enable-debug-command", "yes",
		"--repl-diskless-sync-delay", "0"}
	if !slices.Contains(s.args, "--port") {
		args = append(args, "--port", strconv.Itoa(s.Port))
	}
	s.run(append(args, s.args...))
}

func (s *Server) run(args []string) {
	s.t.Helper()
	command := func() *exec.Cmd {
		cmd := exec.Command("redis-server", args...)
		cmd.Dir = s.Dir
		return cmd
	}
	err := errors.ErrUnsupported
	if s.clocked {
		s.proc, err = childprocess.StartShifted(command(), 0)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		s.proc, err = childprocess.Start(command())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the process at once, as a crash does.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil {
		s.own.Close()
		s.own = nil
	}
}

// Pause stops the process, as an overloaded host does; Resume lets it go on.
func (s *Server) Pause() { s.proc.Pause(s.t) }

// Resume ends a Pause.
func (s *Server) Resume() { s.proc.Resume(s.t) }

// Clock is the wall clock of the process that runs now; a restart has the machine's again. It is
// nil where clocks cannot be moved, while the server is dead, and for one that was not started by
// StartClocked.
func (s *Server) Clock() *faketime.Process {
	if s.proc == nil {
		return nil
	}
	return s.proc.Clock
}

// Addr is 127.0.0.1 and the port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// URL is the server's, with a namespace that no other test uses.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0?ns=" + Namespace(s.t) }

// Namespace is the test's name, as one word.
func Namespace(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/ {}?&#%:+", r) {
			return '-'
		}
		return r
	}, t.Name())
}

// Client is a connection to the server, for one command at a time, that is not tried twice.
func (s *Server) Client() *redis.Client {
	c := s.client()
	s.t.Cleanup(func() { c.Close() })
	return c
}

// client is one that is patient: the library's 3 s are short on a busy machine.
func (s *Server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr(), DialTimeout: time.Minute, ReadTimeout: 3 * time.Minute,
		MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true, PoolSize: 1})
}

// kept is a client that stays until the server is killed: tests send thousands of commands. Before it uses
// a connection again, the library looks whether the server has closed it.
func (s *Server) kept() *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		s.own = s.client()
	}
	return s.own
}

// Do sends one command and returns the answer. An error fails the test.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	v, err := s.kept().Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.t.Fatalf("redis %d: %v: %v", s.Port, args, err)
	}
	return v
}

// Ask sends one command over a connection of its own and returns the answer as text, an array with
// a line for each element. It takes a third of a second at most, and no library logs or repeats
// anything: it is for servers that may be dead.
func (s *Server) Ask(args ...string) (string, error) {
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second / 3))
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := c.Write(request); err != nil {
		return "", err
	}
	return readAnswer(bufio.NewReader(c))
}

func readAnswer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, line := line[0], strings.TrimSpace(line[1:])
	n, _ := strconv.Atoi(line)
	switch kind {
	case '-':
		return "", errors.New(line)
	case '$':
		if n < 0 {
			return "", nil
		}
		b := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	case '*':
		all := make([]string, max(n, 0))
		for i := range all {
			if all[i], err = readAnswer(r); err != nil {
				return "", err
			}
		}
		return strings.Join(all, "\n"), nil
	}
	return line, nil
}

func (s *Server) answers() bool {
	_, err := s.Ask("PING")
	return err == nil
}

// Info is a field of INFO, empty if there is none, or no answer: a server that is promoted closes
// connections.
func (s *Server) Info(field string) string {
	info, _ := s.kept().Info(context.Background()).Result()
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return v
		}
	}
	return ""
}

// Until waits for a condition.
func (s *Server) Until(what string, ok func() bool) {
	s.t.Helper()
	Until(s.t, what, ok)
}

// Until is childprocess.Until.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	childprocess.Until(t, what, ok)
}

// FreePort is childprocess.FreePort.
func FreePort(t testing.TB) int {
	t.Helper()
	return childprocess.FreePort(t)
}

// Replica starts a replica of s and waits until it is in sync.
func (s *Server) Replica(args ...string) *Server {
	s.t.Helper()
	return s.ReplicaAt(s.Addr(), args...)
}

// ReplicaAt starts a replica of s that reaches it at another address, a proxy's.
func (s *Server) ReplicaAt(addr string, args ...string) *Server {
	s.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		s.t.Fatal(err)
	}
	r := Start(s.t, append([]string{"--replicaof", host + " " + port}, args...)...)
	r.Until("the replica is in sync", func() bool { return r.Info("master_link_status") == "up" })
	s.Until("the master lists it", func() bool {
		return strings.Contains(fmt.Sprint(s.Do("INFO", "replication")), fmt.Sprintf("port=%d,state=online", r.Port))
	})
	return r
}

// CatchUp waits until a replica has everything that its master has written by now.
func (s *Server) CatchUp(master *Server) {
	s.t.Helper()
	offset := func(r *Server, field string) int64 {
		n, _ := strconv.ParseInt(r.Info(field), 10, 64)
		return n
	}
	written := offset(master, "master_repl_offset")
	s.Until("the replica has everything", func() bool { return offset(s, "slave_repl_offset") >= written })
}

// Promote makes a replica a master.
func (s *Server) Promote() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// Demote makes a master a replica of another one, and waits until it is in sync.
func (s *Server) Demote(to *Server) {
	s.t.Helper()
	s.Do("REPLICAOF", "127.0.0.1", to.Port)
	s.Until("the replica is in sync", func() bool { return s.Info("master_link_status") == "up" })
}

// Sentinels starts n Sentinels that watch the master at addr by the name of "main", and waits until
// they know each other and the replicas.
func Sentinels(t testing.TB, n, replicas int, addr string) []*Server {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Server
	for range n {
		s := &Server{t: t, Port: FreePort(t), Dir: t.TempDir()}
		conf := filepath.Join(s.Dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main %s %s %d\n", s.Port, s.Dir, host, port,
			n/2+1) +
			"sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		s.run([]string{conf, "--sentinel"})
		all = append(all, s)
	}
	for _, s := range all {
		s.Until("the Sentinel knows everybody", func() bool {
			want := fmt.Sprintf("status=ok,address=%s,slaves=%d,sentinels=%d", addr, replicas, n)
			return s.answers() && strings.Contains(s.Info("master0"), want)
		})
	}
	return all
}
