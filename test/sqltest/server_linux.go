package sqltest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// patience is how long a condition may take to come true before a test fails.
const patience = 5 * time.Minute

// A Server is a database server, or none while it is killed. Its socket's name stays the same.
type Server struct {
	Dir    string // of its data and its socket
	Socket string // what ?socket= of a URL needs

	kind  *kind
	as    *syscall.SysProcAttr
	args  []string
	child *childprocess.Child // nil while it is killed
	bin   string              // where its programs are
}

// A kind is a kind of server.
type kind struct {
	name, user string
	programs   string // a pattern: one of them must be there
	prepare    func(s *Server) error
	command    func(s *Server) *exec.Cmd
	socket     func(dir string) string
	client     func(s *Server) *exec.Cmd // runs the SQL on its input
}

var postgres = &kind{
	name: "postgresql", user: "postgres", programs: "/usr/lib/postgresql/*/bin/initdb",
	prepare: func(s *Server) error {
		if out, err := s.run("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8",
			"--locale=C").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		hba := "local all +secret scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
		return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(hba), 0o644)
	},
	command: func(s *Server) *exec.Cmd {
		return s.run("postgres",
			append([]string{"-D", s.data(), "-k", s.Dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c",
				"shared_buffers=16MB"}, s.args...)...)
	},
	socket: func(dir string) string { return dir },
	client: func(s *Server) *exec.Cmd {
		return s.run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", s.Dir, "-U", "postgres")
	},
}

// Each has a tmpdir of its own: a server that starts removes the temporary tables of all others.
var mariadb = &kind{
	name: "mariadb-server", user: "mysql", programs: "/usr/sbin/mariadbd",
	prepare: func(s *Server) error {
		out, err := s.run("/usr/bin/mariadb-install-db", "--no-defaults", "--datadir="+s.data(), "--tmpdir="+s.Dir,
			"--auth-root-authentication-method=normal", "--skip-test-db",
			"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=16M").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	},
	command: func(s *Server) *exec.Cmd {
		return s.run("/usr/sbin/mariadbd",
			append([]string{"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.Dir, "--socket=" + s.Socket,
				"--skip-networking",
				"--pid-file=" + filepath.Join(s.Dir, "pid"), "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=8M",
				"--innodb-buffer-pool-size=16M"}, s.args...)...)
	},
	socket: func(dir string) string { return filepath.Join(dir, "mysqld.sock") },
	client: func(s *Server) *exec.Cmd {
		return s.run("/usr/bin/mariadb", "--no-defaults", "--socket="+s.Socket, "-u", "root", "-N", "-B", "test")
	},
}

// Postgres starts a PostgreSQL server whose user postgres needs no password, and whose role secret and
// its members, if they are made, do. args are added to its command line. The test is skipped where there is none,
// unless KATSUBUSHI_REQUIRE=1.
func Postgres(t testing.TB, args ...string) *Server { return start(t, postgres, args) }

// MariaDB is Postgres for MariaDB: its user root needs no password, and its database is test.
func MariaDB(t testing.TB, args ...string) *Server { return start(t, mariadb, args) }

var shared struct {
	sync.Mutex
	servers map[*kind]*Server
}

// SharedPostgres is a server that all tests of the program use, each with tables of its own. TestMain
// must call StopShared.
func SharedPostgres(t testing.TB) *Server { return share(t, postgres) }

// SharedMariaDB is the same for MariaDB.
func SharedMariaDB(t testing.TB) *Server { return share(t, mariadb) }

func share(t testing.TB, k *kind) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[k]; s != nil {
		return s
	}
	s := prepared(t, k, nil, nil)
	err := s.copyData(s.Dir+"/blank", s.data())
	if err = errors.Join(err, s.launch()); err != nil {
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = map[*kind]*Server{}
	}
	shared.servers[k] = s
	return s
}

// StopShared ends the shared servers.
func StopShared() {
	for _, s := range shared.servers {
		s.Kill()
		os.RemoveAll(s.Dir)
	}
}

func start(t testing.TB, k *kind, args []string) *Server {
	t.Helper()
	shared.Lock()
	like := shared.servers[k]
	shared.Unlock()
	s := prepared(t, k, args, like)
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.Dir)
	})
	s.Launch(t)
	return s
}

// prepared makes a server that does not run yet, with the data that the shared one began with, if there is one.
func prepared(t testing.TB, k *kind, args []string, like *Server) *Server {
	t.Helper()
	s := newServer(t, k, args)
	prepare := k.prepare
	if like != nil { // a copy takes a tenth of the time
		prepare = func(s *Server) error { return s.copyData(s.data(), like.Dir+"/blank") }
	}
	if err := prepare(s); err != nil {
		os.RemoveAll(s.Dir)
		t.Fatal(err)
	}
	return s
}

// newServer makes the directory of a server.
func newServer(t testing.TB, k *kind, args []string) *Server {
	t.Helper()
	found, _ := filepath.Glob(k.programs)
	if len(found) == 0 {
		childprocess.Missing(t, k.name, " is not installed")
	}
	dir, err := os.MkdirTemp("", "sql") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, Socket: k.socket(dir), kind: k, args: args, bin: filepath.Dir(found[len(found)-1]),
		as: new(syscall.SysProcAttr)}
	if os.Getuid() == 0 { // which the servers refuse
		u, err := user.Lookup(k.user)
		if err != nil {
			childprocess.Missing(t, err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		s.as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return s
}

// copyData copies the data of a server that does not run.
func (s *Server) copyData(to, from string) error {
	out, err := s.run("/bin/cp", "-a", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// run makes a command that runs as the server's user.
func (s *Server) run(program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(s.bin, program)
	}
	c := exec.Command(program, args...)
	c.SysProcAttr, c.Dir = s.as, s.Dir
	return c
}

// Launch starts the server again after Kill, with more arguments, and waits until it answers.
func (s *Server) Launch(t testing.TB, args ...string) {
	t.Helper()
	s.args = append(s.args, args...)
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) launch() error {
	var err error
	if s.child, err = childprocess.Start(s.kind.command(s)); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s.listens() {
			if _, err := s.query("SELECT 1"); err == nil {
				break
			}
		}
		if s.child.HasEnded() {
			return fmt.Errorf("%s has ended: %s", s.kind.name, s.child.Log)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %s", s.kind.name, s.child.Log)
		}
	}
	return nil
}

// listens spares a server that is not there yet the programs that would ask it.
func (s *Server) listens() bool {
	path := s.Socket
	if s.kind == postgres {
		path = filepath.Join(path, ".s.PGSQL.5432")
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// query runs SQL and returns what it prints. MariaDB's database is made when it is first needed.
func (s *Server) query(sql string) (string, error) {
	c := s.kind.client(s)
	if s.kind == mariadb && sql == "SELECT 1" {
		c.Args = c.Args[:len(c.Args)-1]
		sql = "CREATE DATABASE IF NOT EXISTS test"
	}
	c.Stdin = strings.NewReader(sql)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Do runs SQL and returns what it prints. An error fails the test.
func (s *Server) Do(t testing.TB, sql string) string {
	t.Helper()
	out, err := s.query(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// processes returns the server's process and its children's.
func (s *Server) processes() []int {
	main := s.child.Process.Pid
	list := []int{main}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		if _, rest, ok := strings.Cut(string(text), ") "); ok {
			if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(main) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				list = append(list, pid)
			}
		}
	}
	return list
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	if s.child == nil {
		return
	}
	s.Pause() // so that it starts no more children
	s.signal(syscall.SIGKILL)
	<-s.child.Ended()
	s.child = nil
}

// Pause stops all processes of the server, as an overloaded host does, and returns when all their threads stand
// still: until then one may still answer. Resume lets them go on.
func (s *Server) Pause() {
	for { // what still ran when it was listed may have started another process
		s.signal(syscall.SIGSTOP)
		if stands := s.standsStill(); stands && s.standsStill() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// standsStill says whether each thread of the server has stopped, or ended.
func (s *Server) standsStill() bool {
	for _, pid := range s.processes() {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			text, err := os.ReadFile(path)
			if _, state, ok := strings.Cut(string(text), ") "); err == nil && ok && !strings.Contains("TtZX", state[:1]) {
				return false
			}
		}
	}
	return true
}

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	for _, pid := range s.processes() {
		syscall.Kill(pid, sig)
	}
}

// Replica starts a replica of a PostgreSQL server.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	r := newServer(t, s.kind, s.args)
	t.Cleanup(func() {
		r.Kill()
		os.RemoveAll(r.Dir)
	})
	if out, err := r.run("pg_basebackup", "-D", r.data(), "-R", "-X", "stream", "-c", "fast", "-N", "-h", s.Dir, "-U",
		"postgres").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.Launch(t)
	return r
}

// Sever ends the replication to a replica for good: it gets no more of what its primary writes.
func (s *Server) Sever(t testing.TB) {
	t.Helper()
	s.Do(t, "ALTER SYSTEM SET primary_conninfo = ''")
	s.Do(t, "SELECT pg_reload_conf()")
	Until(t, "the replica is on its own", func() bool {
		return s.Do(t, "SELECT count(*) FROM pg_stat_wal_receiver") == "0"
	})
}

// Promote makes a replica a primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if out := s.Do(t, "SELECT pg_promote()"); out != "t" {
		t.Fatal(out)
	}
}

// Until is childprocess.Until.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	childprocess.Until(t, what, ok)
}
