package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/control"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
)

// A scene is daemons, their stores and their clients, as a section of a file in testdata/scenes has them. Its commands
// are calls (package script), and besides:
//
//	katsubushi WORDS        that command, in this process: what it prints, behind "!" if as an error
//	sh WORDS                a shell's: what it prints
//	sql STATEMENT           what $mariadb answers
//	has 'PATTERN' COMMAND   whether there is something in what a command says
//	in 'PATTERN' COMMAND    what there is: the last group of each match
//
// $NAME is the address of a daemon, or else something new of that kind, made when it is first named: see make. What
// commands say has those names, and ID, PID.
type scene struct {
	t         *testing.T
	store     string // the kind that is played
	began     time.Time
	census    census
	largest   uint64            // id of the lives before
	named     map[string]string // what $NAME stands for
	servers   map[string]any    // those that can be paused
	daemons   map[string]*upgradable
	askers    map[string]*asker
	loads     map[string]*load
	terminals map[string]*terminal
	systemd   *manager
	told      int               // what it was told has been looked at
	last      map[string]uint64 // value of a key
	answered  <-chan string     // by an upgrade
}

// TestProcessScenes plays what whole processes do, and what is done to them.
func TestProcessScenes(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/scenes/*.script")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		if name := strings.TrimSuffix(filepath.Base(path), ".script"); name != "engines" && name != "pools" {
			t.Run(name, func(t *testing.T) { playScenes(t, path, "") })
		}
	}
}

// TestProcessEngineScenes plays those in which connections come in, wait, and are handed over.
func TestProcessEngineScenes(t *testing.T) { playScenes(t, "testdata/scenes/engines.script", "") }

// TestProcessPools plays scenes of daemons that lease worker ids from each kind of store: $store.
func TestProcessPools(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"etcd", "zookeeper", "redis"} {
		t.Run(kind, func(t *testing.T) { playScenes(t, "testdata/scenes/pools.script", kind) })
	}
}

func playScenes(t *testing.T, path, kind string) {
	t.Parallel()
	script.RunAs(t, path, kind, func(t *testing.T, play func(script.Do)) {
		t.Parallel()
		s := &scene{t: t, store: kind, began: time.Now(), census: census{lanes: 1}, named: map[string]string{},
			servers: map[string]any{}, daemons: map[string]*upgradable{}, askers: map[string]*asker{},
			loads: map[string]*load{}, terminals: map[string]*terminal{}, last: map[string]uint64{}}
		calls := s.calls()
		play(func(words []string) string { return s.withNames(s.do(calls, strings.Join(words, " "))) })
	})
}

var (
	nameOf  = regexp.MustCompile(`\$[a-z]+\d*(\.[a-z]+)?`)
	filters = regexp.MustCompile(`^(has|in) '([^']*)' (.*)$`)
	longIDs = regexp.MustCompile(`\b\d{15,}\b`)
	pids    = regexp.MustCompile(`\b(process(?:es)?) \d+`)
)

// do carries out a command.
func (s *scene) do(calls script.Calls, line string) string {
	s.t.Helper()
	if m := filters.FindStringSubmatch(line); m != nil {
		pattern, said := regexp.MustCompile("(?m)"+nameOf.ReplaceAllStringFunc(m[2], s.value)), s.do(calls, m[3])
		if m[1] == "has" {
			return strconv.FormatBool(pattern.MatchString(said))
		}
		var found []string
		for _, m := range pattern.FindAllStringSubmatch(said, -1) {
			found = append(found, m[len(m)-1])
		}
		return strings.Join(found, "\n")
	}
	line = nameOf.ReplaceAllStringFunc(line, s.value)
	if command, ok := strings.CutPrefix(line, "sh "); ok {
		out, err := exec.Command("sh", "-euc", "umask 077; "+command).CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %v %s", command, err, out)
		}
		return string(out)
	}
	if statement, ok := strings.CutPrefix(line, "sql "); ok {
		return s.servers["mariadb"].(*sqltest.Server).Do(s.t, statement)
	}
	if strings.HasPrefix(line, "katsubushi ") {
		said, again := transcript{env: variables{}}.say(s.t, "$ "+line)
		if again {
			panic(script.Again{Why: line})
		}
		return indentation.ReplaceAllString(said, "")
	}
	return calls.Do(s.t, []string{line})
}

var indentation = regexp.MustCompile(`(?m)^ {2,4}`)

// withNames replaces what differs from run to run.
func (s *scene) withNames(said string) string {
	said = pids.ReplaceAllString(longIDs.ReplaceAllString(said, "ID"), "$1 PID")
	longest := func(a, b string) int { // of $store and $redis, which may be one, the latter
		return cmp.Or(len(s.named[b])-len(s.named[a]), strings.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(s.named), longest) {
		said = strings.ReplaceAll(said, s.named[name], "$"+name)
	}
	for name, d := range s.daemons {
		said = strings.ReplaceAll(said, d.program, "$"+name+".program")
		if at := d.Addr(); at != "" {
			said = strings.ReplaceAll(said, at, "$"+name)
		}
	}
	return said
}

// value returns what $NAME stands for.
func (s *scene) value(name string) string {
	name, of, _ := strings.Cut(name[1:], ".")
	if d := s.daemons[name]; d != nil {
		switch of {
		case "pid":
			return strconv.Itoa(d.now)
		case "http":
			return d.HTTP()
		case "program":
			return d.program
		case "worker":
			return strconv.FormatInt(statistic(s.t, d.Addr(), "lane_0_worker_id"), 10)
		case "port":
			return d.Addr()[strings.LastIndex(d.Addr(), ":")+1:]
		}
		return d.Addr()
	}
	if of == "namespace" {
		return etcdtest.Namespace(s.t)
	}
	if of == "host" {
		s.value("$" + name)
		s.named[name+".host"] = s.servers[name].(interface{ Addr() string }).Addr()
		return s.named[name+".host"]
	}
	if s.named[name] == "" {
		s.named[name] = s.make(name, strings.TrimRight(name, "0123456789"))
	}
	return s.named[name]
}

// make makes something of a kind.
func (s *scene) make(name, kind string) string {
	t := s.t
	switch kind {
	case "dir":
		return t.TempDir()
	case "memory":
		return inMemory(t)[1]
	case "file":
		return filepath.Join(t.TempDir(), kind)
	case "disk":
		dir, freeze, thaw := frozenDisk(t)
		s.servers[name] = disk{freeze, thaw}
		return dir
	case "port":
		return freePort(t)
	case "program":
		return binary
	case "tcp", "unix", "udp", "client", "null":
		return s.socket(name, kind)
	case "store":
		return s.value("$" + s.store)
	case "redis", "durable":
		args := map[string][]string{"durable": {"--appendonly", "yes", "--appendfsync", "always"}}[kind]
		server := redistest.Start(t, args...)
		s.servers[name] = server
		return server.URL()
	case "mariadb":
		server := sqltest.MariaDB(t)
		s.servers[name] = server
		return server.Socket
	case "zookeeper":
		server := zktest.Common(t)
		s.servers[name] = server
		return "zookeeper://" + server.Addr() + "?ns=" + zktest.Namespace(t)
	case "etcd":
		server := etcdtest.Start(t)
		s.servers[name] = server
		return etcdtest.URL(t, server)
	case "systemd":
		s.systemd = newManager(t)
		return s.systemd.LocalAddr().String()
	case "cert", "key":
		s.named["cert"], s.named["key"], _ = selfsigned.Files(t)
		return s.named[name]
	}
	t.Fatalf("$%s: nothing has that name", name)
	return ""
}

// socket makes what a daemon may be passed.
func (s *scene) socket(name, kind string) (address string) {
	var err error
	switch kind {
	case "tcp", "unix":
		ln := listen(s.t, kind, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(s.t.TempDir(), kind)}[kind])
		s.servers[name], address = ln, ln.Addr().String()
	case "udp":
		s.servers[name], err = net.ListenPacket("udp", "127.0.0.1:0")
	case "client":
		s.servers[name], err = net.Dial("tcp", s.value("$tcp"))
	case "null":
		s.servers[name], err = os.Open(os.DevNull)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return cmp.Or(address, "none")
}

// A disk can stand still.
type disk struct{ freeze, thaw func() }

func (d disk) Pause()  { d.freeze() }
func (d disk) Resume() { d.thaw() }

// calls are what a scene knows of.
func (s *scene) calls() script.Calls {
	all := script.Calls{"daemons": s.daemons, "askers": s.askers, "loads": s.loads, "terminals": s.terminals,
		"terminal": func(name string, args ...string) { s.terminals[name] = inTerminal(s.t, args...) },
		"answers": func(x *terminal, question, line string) {
			x.answer(s.t, question, strings.NewReplacer("|", "\n", "^C", "\x03", "^D", "\x04").Replace(line))
		},
		"says-in-all": func(x *terminal) string {
			<-x.ended
			return fmt.Sprintf("%sexit code %d", x.said(), x.cmd.ProcessState.ExitCode())
		},
		"pause":  s.pause,
		"resume": s.resume,
		"stays": func(d time.Duration) {
			began := time.Now()
			await(s.t, "the time passes", func() bool { return time.Since(began) > d })
		},
		"needs": func(what string) {
			if net.ParseIP(what) == nil {
				need(s.t, what)
			} else if ln, err := net.Listen("tcp", net.JoinHostPort(what, "0")); err != nil {
				s.t.Skip(err)
			} else {
				ln.Close()
			}
		},
		"do": func(redis string, words ...string) {
			s.value("$" + redis)
			if _, err := s.servers[redis].(*redistest.Server).Ask(words...); err != nil {
				s.t.Fatal(err)
			}
		},
		"tells": func(line string) string {
			s.told = s.systemd.await(s.t, s.told, line) + 1
			return s.systemd.message(s.told - 1)
		},
		"told":      func(line string) bool { return s.systemd.index(0, line) >= 0 },
		"last-told": func(n int) string { return strings.Join(s.systemd.last(n), "\n") },
		"control": func(words ...string) {
			s.value("$etcd")
			s.servers["etcd"].(*etcdtest.Member).Control(words...)
		},
		"etcd-get": func(etcd, key string) string { return s.servers[etcd].(*etcdtest.Member).Get(key) },
		"accepts": func(tcp string) (err error) {
			s.servers["client of "+tcp], err = s.servers[tcp].(net.Listener).Accept()
			return err
		},
		"hangs-up": func(tcp string) error {
			return errors.Join(s.servers[tcp].(io.Closer).Close(), s.servers["client of "+tcp].(io.Closer).Close())
		},
		"docs-sql":      s.docsSQL,
		"docs-sql-into": func(file, tag string) { tempfile.Write(s.t, file, s.docsSQL(tag)+"\n") },
		"new-certificate": func(serial int64) error {
			_, err := selfsigned.Write(s.named["cert"], s.named["key"], serial)
			return err
		},
	}
	for _, more := range []script.Calls{s.ofDaemons(), s.ofUpgrades(), s.ofClients(), s.ofLoads()} {
		maps.Copy(all, more)
	}
	return all
}

func (s *scene) ofDaemons() script.Calls {
	t := s.t
	return script.Calls{
		"launch": s.launch,
		"start": func(name string, args ...string) {
			s.launch(name, args...)
			s.daemons[name].WaitListening(t)
		},
		"listens": func(d *upgradable) { d.WaitListening(t) },
		"signal": func(d *upgradable, name string, times ...int) (err error) {
			for range slices.Max(append(times, 1)) {
				err = syscall.Kill(d.now, unix.SignalNum("SIG"+name))
			}
			return err
		},
		"drain": func(name string) { go io.Copy(s.daemons[name].Log, s.servers["log of "+name].(io.Reader)) },
		"chatter": func(d *upgradable, at string) {
			await(t, "lines are lost", func() bool {
				for range 100 {
					d.Signal(t, syscall.SIGHUP)
				}
				return statisticOf(t, networkOf(at), at, "log_lines_dropped") > 0
			})
		},
		"broken": func(name string) error { return s.servers["log of "+name].(io.Closer).Close() },
		"ends": func(d *upgradable) string {
			await(t, "the daemon ends", d.HasEnded)
			return fmt.Sprint("exit code ", d.ProcessState.ExitCode())
		},
		"kill":       func(d *upgradable) { d.Kill() },
		"logs":       func(d *upgradable, text string) { d.Says(t, text) },
		"logged":     func(d *upgradable, text string) int { return strings.Count(d.Logged(), text) },
		"step":       func(d *upgradable, by time.Duration) { d.step(t, by) },
		"difference": func(d *upgradable) string { return d.difference(t).Round(time.Minute).String() },
		"stat":       func(at, name string) int64 { return statisticOf(t, networkOf(at), at, name) },
	}
}

func (s *scene) ofUpgrades() script.Calls {
	t := s.t
	return script.Calls{
		"where":   func(d *upgradable) (string, error) { return control.Ask(d.now, "where", time.Minute, time.Minute) },
		"log":     func(d *upgradable) string { return d.Logged() },
		"install": func(d *upgradable, file string) { d.install(t, file) },
		"pretend": func(d *upgradable, mode ...string) { d.pretend(t, strings.Join(mode, " ")) },
		"upgrade": func(d *upgradable, args ...string) string {
			d.awaitControl(t)
			code, said := d.upgrade(t, args...)
			return fmt.Sprintf("%s\nexit code %d", said, code)
		},
		"upgrading": func(d *upgradable, args ...string) {
			d.awaitControl(t)
			begun := func() int { return strings.Count(d.Logged(), `"upgrading"`) }
			before := begun()
			s.answered = d.upgrading(t, args...)
			await(t, "it is under way", func() bool { return begun() > before })
		},
		"answered": func(d *upgradable) string {
			said := <-s.answered
			fmt.Sscanf(said, "process %d of version", &d.now)
			return said
		},
		"gone":   func(d *upgradable) bool { return gone(d.Process.Pid) },
		"asleep": func(d *upgradable) bool { return asleep(d.now) },
		"log-after": func(d *upgradable, name string) string {
			syscall.Kill(d.now, unix.SignalNum("SIG"+name))
			return d.Logged()
		},
		"is-upgraded": func(d *upgradable) string {
			d.awaitControl(t)
			return d.succeed(t)
		},
		"processes": func(d *upgradable) int { return len(d.session()) },
	}
}

func (s *scene) ofClients() script.Calls {
	return script.Calls{
		"connect": s.connect,
		"get":     s.get,
		"worker": func(a *asker) uint64 {
			s.get(a, "id")
			return generator.Katsubushi().Decompose(s.last["id"]).Worker
		},
		"says": func(a *asker, lines ...string) string { return a.says(lines...) },
		"sends": func(a *asker, line string, times int) {
			fmt.Fprint(a, strings.ReplaceAll(strings.Repeat(line, times), "|", "\r\n"))
		},
		"ids": func(a *asker) string {
			var all answer
			err := all.read(a.r)
			return fmt.Sprintf("%d ids, error %v", len(all.ids), err)
		},
		"skips": func(a *asker, line string, times int) error {
			for times > 0 {
				said, err := a.r.ReadString('\n')
				if err != nil {
					return err
				}
				if strings.TrimSpace(said) == line {
					times--
				}
			}
			return nil
		},
		"reads": func(a *asker) string { return a.line() },
		"reads-all": func(a *asker) (string, error) {
			text, err := io.ReadAll(a.r)
			return string(text), err
		},
		"serial": func(a *asker) any { return a.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber },
		"serves": serves,
		"close":  func(a *asker) error { return a.Close() },
		"http": func(address, path string) string {
			status, _, body := httpGet(address, path)
			return fmt.Sprintf("%d\n%s", status, body)
		},
	}
}

func (s *scene) ofLoads() script.Calls {
	t, c := s.t, &s.census
	return script.Calls{
		"lanes":   func(n int) { c.lanes = n },
		"hurries": func(d *upgradable, n int) { c.add(hurry(t, d.process, n)) },
		"load":    func(name, at string, clients, keys int) { s.loads[name] = c.load(t, at, clients, keys) },
		"more":    func(l *load, n int64) { l.awaitMore(t, n) },
		"finish":  func(l *load) { l.finish(t) },
		"killed":  func(l *load, d *upgradable) { l.kill(d.process) },
		"another-life": func() {
			c.above(t, s.largest)
			s.largest = c.newRun()
		},
		"resume-until-passed": func(d *upgradable, own, other *load) { // at first the other issues from the next second
			begins, refused := other.newest.Load(), own.refused.Load()
			d.Resume(t)
			await(t, "it refuses, or is as far", func() bool {
				return own.refused.Load() > refused || own.newest.Load() > begins
			})
		},
		"none-refused": func() { c.noneRefused(t) },
		"verdict": func() string {
			c.above(t, s.largest)
			c.issuedBetween(t, s.began)
			c.verdict(t)
			return fmt.Sprint(c.ids.Duplicates(), " duplicates")
		},
	}
}

// docsSQL carries out the SQL of the docs that has a tag. Its NEXT is the next value of orders in a directory.
func (s *scene) docsSQL(tag string, dir ...string) string {
	sql := docsSQL(s.t, tag)
	if len(dir) > 0 {
		sql = strings.ReplaceAll(sql, "NEXT", fmt.Sprint(nextOf(s.t, "file://"+dir[0]+"/sequences", "orders")))
	}
	return s.servers["mariadb"].(*sqltest.Server).Do(s.t, sql)
}

// pause stops a daemon or a server, and resume ends that.
func (s *scene) pause(name string) {
	if d := s.daemons[name]; d != nil {
		d.Pause(s.t)
		return
	}
	s.servers[name].(interface{ Pause() }).Pause()
}

func (s *scene) resume(name string) {
	if d := s.daemons[name]; d != nil {
		d.Resume(s.t)
		return
	}
	s.servers[name].(interface{ Resume() }).Resume()
}

// connect makes a client, over tcp, unix, or tls, which says something first.
func (s *scene) connect(name, network, address string, first ...string) string {
	a := &asker{}
	if network == "tls" {
		own, _ := tls.LoadX509KeyPair(s.named["cert"], s.named["key"])
		conn := tls.Client(dial(s.t, "tcp", address), &tls.Config{InsecureSkipVerify: true,
			Certificates: []tls.Certificate{own}})
		conn.Handshake() // or else its error comes from the next call
		a.counting = counting{conn, bufio.NewReader(conn)}
	} else {
		a = newAsker(s.t, network, address)
	}
	s.askers[name] = a
	if len(first) == 0 {
		return ""
	}
	return a.says(first...)
}

// get returns the value of a key, which must be above those before, or what the daemon says.
func (s *scene) get(a *asker, key string) string {
	var v uint64
	says := ""
	await(s.t, "the store answers", func() bool { // a busy one may not have answered the daemon when it started
		v, says = a.get(s.t, key)
		return !strings.HasPrefix(says, "SERVER_ERROR the counter store does not answer")
	})
	if says != "" {
		return says
	}
	if v <= s.last[key] {
		return fmt.Sprintf("%d after %d", v, s.last[key])
	}
	s.last[key] = v
	return strconv.FormatUint(v, 10)
}

// says returns the first line of what is answered to lines.
func (a *asker) says(lines ...string) string {
	fmt.Fprint(a, strings.Join(lines, "\r\n")+"\r\n")
	return a.line()
}

// line is the next line of an answer, or why there is none.
func (a *asker) line() string {
	line, err := a.r.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}

// serves asks for an id on many connections, so that every loop has to answer some.
func serves(address string) bool {
	for range 16 {
		conn, err := net.Dial(networkOf(address), address)
		if err != nil {
			return false
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		a := asker{counting: counting{conn, bufio.NewReader(conn)}}
		if !strings.HasPrefix(a.says("get id"), "VALUE ") {
			return false
		}
	}
	return true
}

// networkOf is unix or tcp.
func networkOf(address string) string {
	if strings.HasPrefix(address, "/") {
		return "unix"
	}
	return "tcp"
}

// launch launches a daemon, whose program is a link. Variables may stand before its arguments. LISTEN_FDS are the
// names of sockets that it is passed, CLOCK is how far its clock is off, ALONE=yes makes it process 1 of a container,
// BARE=yes leaves out the arguments of all daemons here, and STDERR=full lets it log into a pipe that takes nothing.
func (s *scene) launch(name string, args ...string) {
	t := s.t
	t.Helper()
	d := &upgradable{program: filepath.Join(t.TempDir(), "katsubushi")}
	d.install(t, binary)
	cmd, env, begin := exec.Command(d.program), []string(nil), daemonrun.Run
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	loopback, stderr := daemonrun.Loopback, (*os.File)(nil)
	for ; len(args) > 0 && assignment.MatchString(args[0]); args = args[1:] {
		switch variable, value, _ := strings.Cut(args[0], "="); variable {
		case "LISTEN_FDS":
			var sockets []any
			for name := range strings.SplitSeq(value, ",") {
				s.value("$" + name)
				sockets = append(sockets, s.servers[name])
			}
			cmd = passing(t, d.program, sockets...)
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		case "CLOCK":
			off, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			begin = func(t testing.TB, cmd *exec.Cmd) *daemonrun.Daemon { return daemonrun.RunShifted(t, cmd, off) }
		case "BARE":
			loopback = func(...string) []string { return args }
		case "STDERR": // a pipe that is full
			s.servers["log of "+name], stderr = fullPipe(t)
		case "ALONE": // the network keeps its control socket from that of another process 1
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNET
			probe := exec.Command("true")
			probe.SysProcAttr = &syscall.SysProcAttr{Cloneflags: cmd.SysProcAttr.Cloneflags}
			if err := probe.Run(); err != nil {
				t.Skipf("no process namespace can be made here: %v", err)
			}
		default:
			env = append(env, args[0])
		}
	}
	cmd.Env = append(append(os.Environ(), cmd.Env...), env...)
	if stderr != nil {
		cmd.Stderr = stderr
		defer stderr.Close()
	}
	cmd.Args = append(cmd.Args, loopback(slices.Concat([]string{"-state-dir", "none"}, args)...)...)
	cmd.SysProcAttr.Setsid = true // its successors are in the same session
	d.process = &process{begin(t, cmd)}
	d.now = d.Process.Pid
	t.Cleanup(func() {
		for _, pid := range d.session() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	s.daemons[name] = d
}
