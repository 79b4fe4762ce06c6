package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
)

const (
	patience = 3 * time.Minute // how long the commands of one room may take
	// how often a room is run: on a machine that stands still, time-outs of the programs that it runs
	// pass
	tries = 4
)

// A room is where blocks run: a host of their own, with its own network, processes, /etc, /tmp and
// /run, so that they can be run as they stand, with the ports and the files that they name, beside
// other rooms. The servers that its first block asks for run in it.
type room struct {
	first   *block
	steps   []step
	servers []string
}

// A step is one command, or a file to write.
type step struct {
	at     string // where it stands
	script string
	shown  []string // what it should print, if compared
	check  bool     // compare
	input  string   // what the command reads
	file   string   // where body goes
	body   string
}

// servers are what a block may ask for, by `with:`. All but redis and etcd take seconds to start.
var servers = map[string]struct {
	script string
	heavy  bool
	needs  []string // programs or files that must be there
}{
	"redis": {"redis-server --save '' --protected-mode no --dir $SRV --logfile $SRV/redis.log &\nopens 6379 $!\n", false,
		[]string{"redis-server"}},
	"etcd": {"etcd --data-dir $SRV/etcd --unsafe-no-fsync --listen-client-urls http://0.0.0.0:2379 " +
		"--advertise-client-urls http://127.0.0.1:2379 >$SRV/etcd.log 2>&1 &\n" +
		"healthy $!\n", false, []string{"etcd", "etcdctl"}},
	"zookeeper": {`printf 'tickTime=500\nadmin.enableServer=false\ndataDir=%s\nclientPort=2181\n' $SRV/zk >$SRV/zoo.cfg
jars=/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar
printf '#!/bin/sh\nexec java -cp %s org.apache.zookeeper.ZooKeeperMain "$@"\n' $jars >$BIN/zkCli.sh
chmod +x $BIN/zkCli.sh
java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp $jars org.apache.zookeeper.server.quorum.QuorumPeerMain $SRV/zoo.cfg >$SRV/zk.log 2>&1 &
until [[ $(exec 3<>/dev/tcp/127.0.0.1/2181 && printf srvr >&3 && timeout 5 cat <&3) == *Mode* ]] 2>/dev/null; do kill -0 $! && sleep 0.1; done
`, true, []string{"java", "/usr/share/java/zookeeper.jar"}},
	"postgres": {`pg=$(echo /usr/lib/postgresql/*/bin)
mkdir -p /run/postgresql $SRV/pg && chown postgres /run/postgresql $SRV/pg
setpriv --reuid=postgres --clear-groups $pg/initdb -D $SRV/pg -A trust -U postgres --no-sync >$SRV/pg.log
echo "host all all all trust" >>$SRV/pg/pg_hba.conf
certificate $SRV/pg/server postgres
setpriv --reuid=postgres --clear-groups $pg/postgres -D $SRV/pg -k /run/postgresql -c 'listen_addresses=*' -c ssl=on >>$SRV/pg.log 2>&1 &
until psql -U postgres -c 'SELECT 1' >/dev/null 2>&1; do kill -0 $! && sleep 0.1; done
createdb -U postgres app
export PGUSER=postgres PGDATABASE=app
`, true, []string{"/usr/lib/postgresql", "psql", "openssl"}},
	"mariadb": {`mkdir -p /run/mysqld $SRV/db && chown mysql /run/mysqld $SRV/db
mariadb-install-db --no-defaults --user=mysql --datadir=$SRV/db --auth-root-authentication-method=normal --skip-test-db >$SRV/db.log 2>&1
certificate $SRV/db/server mysql
setpriv --reuid=mysql --clear-groups mariadbd --no-defaults --ssl-cert=$SRV/db/server.crt --ssl-key=$SRV/db/server.key --datadir=$SRV/db --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/pid >>$SRV/db.log 2>&1 &
until mariadb -e 'SELECT 1' >/dev/null 2>&1; do kill -0 $! && sleep 0.1; done
mariadb -e 'CREATE DATABASE app'
`, true, []string{"mariadb-install-db", "mariadbd", "openssl"}},
}

// prelude makes the room. Its arguments are a directory to write to, and the one of the daemon's program.
const prelude = `set -e
OUT=$1
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /mnt
BIN=/mnt/bin SRV=/mnt/srv
mkdir -p $BIN /mnt/upper /mnt/work /mnt/home /mnt/out /mnt/tmp
install -d -m 777 $SRV
cp "$2" $BIN/katsubushi
mount --bind "$OUT" /mnt/out
mount --bind "$OUT/home" /mnt/home
OUT=/mnt/out
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro / # the rest is the host's
mkdir -p /etc/katsubushi
ip link set lo up
export HOME=/mnt/home PATH=$BIN:$PATH:/usr/sbin:/sbin LC_ALL=C FAKETTY=1 # redis-cli prints as to a terminal
cd $HOME

# opens PORT PID: waits until the process listens.
opens() {
  until (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null; do
    kill -0 $2 2>/dev/null || return 1
    sleep 0.05
  done
}

# healthy PID: waits until etcd, which is this process, has a leader.
healthy() {
  until ETCDCTL_API=3 etcdctl endpoint health >/dev/null 2>&1; do kill -0 $1 2>/dev/null || return 1; done
}

# certificate NAME USER: makes NAME.crt and NAME.key.
certificate() {
  openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -out $1.crt -keyout $1.key 2>/dev/null
  chown $2 $1.crt $1.key
}

# serves PID LOG FLAGS...: waits until the daemon that has these flags issues ids; if it asks for a password, until it listens.
serves() {
  local pid=$1 log=$2 said
  shift 2
  until said=$(katsubushi healthcheck -ready "$@" 2>&1) || [[ $said == *"has to log in"* ]] && katsubushi healthcheck "$@" 2>&1; do
    kill -0 $pid 2>/dev/null || { cat $log; return 1; }
    sleep 0.05
  done
}
`

// rooms groups the blocks of a page: a block that `goes on` is run in the room of the one before it.
func rooms(p *page) (all []*room, unrun int) {
	var r *room
	for _, b := range p.blocks {
		kind := b.kind()
		file, isFile := b.mark("file")
		_, notRun := b.mark("not run")
		_, elsewhere := b.mark("run by")
		with, isSQL := b.mark("with")
		isSQL = (isSQL || slices.Contains(b.marks, "goes on")) &&
			slices.Contains([]string{"sql", "mysql", "postgresql"}, kind)
		shell := kind == "sh" || kind == "console"
		if notRun || elsewhere {
			if shell {
				unrun++
			}
			continue
		}
		if !shell && !isFile && !isSQL {
			continue
		}
		if _, on := b.mark("goes on"); !on || r == nil {
			r = &room{first: b, servers: strings.FieldsFunc(with, func(c rune) bool { return c == ' ' || c == ',' })}
			all = append(all, r)
		}
		r.addHidden(b, "before")
		switch {
		case isFile:
			r.steps = append(r.steps, step{at: b.String(), file: file, body: strings.Join(b.lines, "\n") + "\n"})
		case isSQL:
			client := "psql -X -q -A -t -v ON_ERROR_STOP=1"
			if kind == "mysql" || !slices.Contains(r.servers, "postgres") {
				client = "mariadb -N -B app"
			}
			r.steps = append(r.steps,
				step{at: b.String(), script: client + " <<'END_OF_SQL'\n" + strings.Join(b.lines, "\n") + "\nEND_OF_SQL"})
		default:
			r.add(b)
		}
		r.addHidden(b, "then")
	}
	return all, unrun
}

// addHidden makes steps of commands that only the test sees.
func (r *room) addHidden(b *block, word string) {
	if script, ok := b.mark(word); ok {
		r.add(&block{page: b.page, line: b.line, language: "sh", lines: strings.Split(script, "\n")})
	}
}

// add makes steps of the commands of a block.
func (r *room) add(b *block) {
	for _, c := range b.commands() {
		s := step{at: fmt.Sprintf("%s: %s", b, c.text), script: c.text, shown: trimmed(c.shown), check: b.kind() == "console"}
		if dialog := s.dialog(); dialog != "" {
			s.script = dialog
		}
		s.input, _ = b.mark("input")
		s.script = inBackground(s.script, len(r.steps))
		r.steps = append(r.steps, s)
	}
}

// dialog is what stands for telnet or nc with nothing before it: what is typed there begins with a
// small letter, answers do not.
func (s *step) dialog() string {
	m := regexp.MustCompile(`^(?:telnet|nc) (\S+) (\d+)$`).FindStringSubmatch(s.script)
	if m == nil {
		return ""
	}
	var typed, answers []string
	for _, line := range s.shown {
		if line != "" && line[0] >= 'a' && line[0] <= 'z' {
			typed = append(typed, line)
		} else {
			answers = append(answers, line)
		}
	}
	s.shown = answers
	if !slices.Contains(typed, "quit") {
		typed = append(typed, "quit") // the daemon hangs up
	}
	return fmt.Sprintf("printf '%%s\\r\\n' '%s' | nc -N %s %s", strings.Join(typed, "' '"), m[1], m[2])
}

// inBackground lets a command that serves do so beside the next ones, and waits until it serves.
func inBackground(script string, n int) string {
	list := words(script)
	if len(list) != 1 || strings.Contains(script, "$(") {
		return script
	}
	log := fmt.Sprintf("/mnt/out/%d.log", n)
	bare := strings.TrimRight(strings.TrimSpace(withoutComment(script)), " &")
	name := filepath.Base(list[0][0])
	if args, ok := ours(list[0]); ok &&
		(len(args) == 0 || strings.HasPrefix(args[0], "-") &&
			!regexp.MustCompile(`^--?(help|h|version)$`).MatchString(args[0])) {
		quoted := make([]string, len(args))
		for i, a := range args {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		return fmt.Sprintf("%s >%s 2>&1 &\nserves $! %s %s", bare, log, log, strings.Join(quoted, " "))
	}
	wait := map[string]string{"etcd": "healthy", "redis-server": "opens 6379"}[name]
	if wait == "" {
		return script
	}
	return fmt.Sprintf("%s >%s 2>&1 &\n%s $! || { cat %s; false; }", bare, log, wait, log)
}

// withoutComment cuts the comment at the end of a command.
func withoutComment(script string) string {
	for i := 1; i < len(script); i++ {
		if script[i] == '#' && (script[i-1] == ' ' || script[i-1] == '\t') && len(words(script[:i])) == len(words(script)) &&
			strings.Count(script[:i], "'")%2 == 0 && strings.Count(script[:i], `"`)%2 == 0 {
			return script[:i]
		}
	}
	return script
}

// script is what the room's bash runs. Each step leaves its output and its exit code in files.
func (r *room) script(dir string) (string, error) {
	var b strings.Builder
	b.WriteString(prelude)
	if names := r.named(hostname); len(names) > 0 {
		fmt.Fprintf(&b, "echo '127.0.0.1 %s' >>/etc/hosts\n", strings.Join(names, " "))
	}
	for _, address := range r.named(address) {
		fmt.Fprintf(&b, "ip address add %s/32 dev lo\n", address)
	}
	for _, name := range r.servers {
		b.WriteString(servers[name].script)
	}
	b.WriteString("set +e\n")
	for i, s := range r.steps {
		if s.file != "" {
			name := fmt.Sprintf("%d.file", i)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(s.body), 0o644); err != nil {
				return "", err
			}
			s.script = fmt.Sprintf("mkdir -p $(dirname %s); cp $OUT/%s %[1]s", s.file, name)
		}
		fmt.Fprintf(&b, "{ %s\n} >$OUT/%d.out 2>$OUT/%[2]d.err <$OUT/%[2]d.in\ncode=$?; echo $code >$OUT/%[2]d.code\n",
			s.script, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.in", i)), []byte(s.input+"\n"), 0o644); err != nil {
			return "", err
		}
		if !s.check {
			b.WriteString("[ $code = 0 ] || exit 1\n")
		}
	}
	return b.String(), nil
}

var (
	hostname = regexp.MustCompile(`\b(?:[a-z0-9-]+\.)*(?:[a-z0-9-]+\.example|(?:h|e|zk)[0-9]|host)\b`)
	address  = regexp.MustCompile(`\b10\.[0-9]+\.[0-9]+\.[0-9]+\b`)
)

// named are the hosts in the commands, by name or by address; this one stands for all of them.
func (r *room) named(pattern *regexp.Regexp) (names []string) {
	for _, s := range r.steps {
		for _, name := range pattern.FindAllString(s.script+s.body, -1) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missing says which server of the room is not installed.
func (r *room) missing() string {
	for _, name := range r.servers {
		s, ok := servers[name]
		if !ok {
			return "there is no server called " + name
		}
		for _, need := range s.needs {
			_, inPath := exec.LookPath(need)
			if _, err := os.Stat(need); err != nil && inPath != nil {
				return name + " is not installed"
			}
		}
	}
	return ""
}

func (r *room) heavy() bool {
	_, heavy := r.first.mark("heavy")
	return heavy || slices.ContainsFunc(r.servers, func(name string) bool { return servers[name].heavy })
}

// isolated lets a command have a room. Root needs no user namespace.
func isolated(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWIPC, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}

// environment is that of a person who has set nothing.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "KATSUBUSHI_") || strings.HasPrefix(v, "XDG_")
	})
}

// try runs the room until all its steps are as they should be, but not for ever.
func (r *room) try(t *testing.T) {
	for n := range tries {
		problems := r.run(t)
		if len(problems) == 0 {
			return
		}
		if n+1 < tries {
			t.Logf("tried again: %s", problems)
			continue
		}
		for _, problem := range problems {
			t.Error(problem)
		}
	}
}

// run runs the steps of the room, and says what went wrong.
func (r *room) run(t *testing.T) (problems []string) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := r.script(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "bash", dir, daemonrun.Program(t))
	cmd.Env = environment()
	isolated(cmd)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run() // everything in the room ends with its first process
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	for i, s := range r.steps {
		code, out, errs := r.result(dir, i)
		switch {
		case code < 0:
			log, _ := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
			return append(problems, fmt.Sprintf("%s\ndid not end: %v\n%s%s%s%s", s.at, err, out, errs, log, &said))
		case s.check:
			got := [][]string{trimmed(strings.Split(out, "\n")), trimmed(strings.Split(out+errs, "\n")),
				trimmed(strings.Split(errs+out, "\n"))}
			if !slices.ContainsFunc(got, func(lines []string) bool { return alike(s.shown, lines) }) {
				problems = append(problems,
					fmt.Sprintf("%s\nexit code %d; it prints\n%s\nnot\n%s", s.at, code, strings.Join(got[1], "\n"),
						strings.Join(s.shown, "\n")))
			}
		case code != 0:
			return append(problems, fmt.Sprintf("%s\nexit code %d\n%s%s", s.at, code, out, errs))
		}
	}
	return problems
}

// result is what a step left behind; its exit code is negative if it did not end.
func (r *room) result(dir string, i int) (code int, out, errs string) {
	read := func(ending string) string {
		text, _ := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)+ending))
		return string(text)
	}
	code, err := strconv.Atoi(strings.TrimSpace(read(".code")))
	if err != nil {
		code = -1
	}
	return code, read(".out"), read(".err")
}

// needNamespaces skips a test where rooms cannot be made.
func needNamespaces(t *testing.T) {
	t.Helper()
	probe := exec.Command("bash", "-c", prelude, "bash", t.TempDir(), "/bin/true")
	if err := os.Mkdir(filepath.Join(probe.Args[4], "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	isolated(probe)
	if out, err := probe.CombinedOutput(); err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
			t.Fatalf("no namespaces: %v\n%s", err, out)
		}
		t.Skipf("no namespaces: %v\n%s", err, out)
	}
}

// TestWhatGoesWrongInARoom: a block that is wrong is an error, and one that is right is not.
func TestWhatGoesWrongInARoom(t *testing.T) {
	needNamespaces(t)
	t.Cleanup(func() {
		if _, err := os.Stat("/etc/here"); err == nil {
			t.Error("a room wrote to the host's /etc")
		}
	})
	const daemon = "<!-- before: katsubushi -worker-id 1 -->\n"
	for _, c := range []struct{ text, problem string }{
		{daemon + "```console\n$ telnet localhost 11212\nget id\nVALUE id 0 19\n1573304824835870720\nEND\nquit\n```\n<!-- " +
			"goes on -->\n```sh\nkatsubushi healthcheck -ready\n```", ""},
		{daemon + "```console\n$ nc localhost 11212\nget id\nVALUE id 0 18\n1573304824835870720\nEND\n```",
			"it prints\nVALUE id 0 19"},
		{"```sh\nkatsubushi -worker-id 1 -port 1121x\n```", "exit code 1"},
		{"```sh\ntrue\nfalse || false\ntrue\n```", "false || false\nexit code 1"},
		{"```console\n$ echo a\n```", "it prints\na"},
		{"```sh\ntouch /usr/here\n```", "Read-only"},
		{"```console\n$ echo $((6*7)); false\n42\n```\n<!-- then: touch /etc/here -->\n```sh\ntest ! -e " +
			"/etc/here\n```\n```sh\ntest ! -e /etc/here\n```", ""},
		{"<!-- file: /etc/katsubushi/x -->\n```text\nx\n```\n<!-- goes on -->\n<!-- input: y -->\n```console\n$ cat " +
			"/etc/katsubushi/x -\nx\ny\n```", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			var problems []string
			for range tries {
				problems = nil
				all, _ := rooms(parse("a.md", c.text))
				for _, r := range all {
					problems = append(problems, r.run(t)...)
				}
				if got := strings.Join(problems, "\n"); (got == "") == (c.problem == "") && strings.Contains(got, c.problem) {
					return
				}
			}
			t.Errorf("%s\nwant %q", problems, c.problem)
		})
	}
}

// TestCommands runs the commands of README.md and docs/. Those whose room takes seconds to furnish
// are run by make test-docs.
func TestCommands(t *testing.T) {
	all := os.Getenv("KATSUBUSHI_DOCS") == "1"
	needNamespaces(t)
	ran, left, unrun := 0, 0, 0
	for _, p := range manual(t) {
		rooms, n := rooms(p)
		unrun += n
		for _, r := range rooms {
			if r.heavy() && !all {
				left++
				continue
			}
			ran++
			t.Run(r.first.String(), func(t *testing.T) {
				t.Parallel()
				if why := r.missing(); why != "" {
					if os.Getenv("KATSUBUSHI_REQUIRE") == "1" || strings.HasPrefix(why, "there is no") {
						t.Fatal(why)
					}
					t.Skip(why)
				}
				r.try(t)
			})
		}
	}
	t.Logf("%d rooms run, %d are for make test-docs, %d blocks are not run", ran, left, unrun)
	if ran+left < 10 {
		t.Errorf("only %d blocks of commands were found", ran)
	}
}
