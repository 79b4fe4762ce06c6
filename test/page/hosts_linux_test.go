package page

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A fleet is three hosts in network namespaces, a desk from which an operator reaches them, and the desk's etcd.
type fleet struct {
	t     *testing.T
	root  string // has a folder for each host
	steps []string
}

// The second part of the test runs in namespaces of its own, and has the program to upgrade to in this variable.
const upgradeVariable = "KATSUBUSHI_UPGRADE_TO"

var hosts = []string{"h1", "h2", "h3"}

// TestThreeHosts does what an operator does with a first fleet: install, first id, second and third host, a host
// killed, an upgrade, and an alarm read from the page alone. It prints the commands and what each took, and leaves
// screenshots.
func TestThreeHosts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	for _, program := range []string{"ip", "unshare", "etcd", "nc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if os.Getenv(upgradeVariable) != "" {
		operate(t)
		return
	}
	binary(t)
	newer := t.TempDir() + "/katsubushi"
	build := exec.Command("go", "build", "-C", "../..", "-tags", "grpcnotrace", "-ldflags", "-X main.version=3.9.9",
		"-o", newer, "./cmd/katsubushi")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// All that it starts ends with it.
	c := exec.Command("/proc/self/exe", "-test.run=^TestThreeHosts$", "-test.v", "-test.timeout=20m")
	c.Env = append(os.Environ(), upgradeVariable+"="+newer)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC}
	c.Stdout, c.Stderr = os.Stdout, os.Stderr // what it says is seen as it goes on
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
}

// wired makes the hosts, and an etcd on the desk.
func wired(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, root: t.TempDir()}
	names := "127.0.0.1 localhost\n10.9.0.254 store\n"
	script := "set -e\nmount --make-rprivate /\nmount -t proc proc /proc\nmount -t tmpfs tmpfs /run\n" +
		"mount --bind $1/hosts /etc/hosts\n" +
		"ip link set lo up\nip link add desk type bridge\nip address add 10.9.0.254/24 dev desk\nip link set desk up\n"
	for i, h := range hosts {
		names += fmt.Sprintf("10.9.0.%d %s\n", i+1, h)
		script += fmt.Sprintf("mkdir -p $1/%[1]s/bin\nip netns add %[1]s\n"+
			"ip link add to-%[1]s type veth peer name eth0 netns %[1]s\n"+
			"ip link set to-%[1]s master desk up\nip -n %[1]s link set lo up\n"+
			"ip -n %[1]s address add 10.9.0.%[2]d/24 dev eth0\nip -n %[1]s link set eth0 up\n", h, i+1)
	}
	if err := os.WriteFile(f.root+"/hosts", []byte(names), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bash", "-c", script, "bash", f.root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return f
}

// on returns a command for a shell of a host, or of the desk.
func (f *fleet) on(host, command string) *exec.Cmd {
	bin, dir := filepath.Dir(binary(f.t)), f.root
	args := []string{"bash", "-c", command}
	if host != "desk" {
		dir += "/" + host
		bin = dir + "/bin"
		args = append([]string{"ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c",
			`hostname ` + host + `; exec "$@"`, "sh"}, args...)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Dir = dir
	c.Env = []string{"HOME=" + dir, "PATH=" + bin + ":/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return c
}

// note adds a line to the table of steps.
func (f *fleet) note(host, what string, began time.Time) {
	f.steps = append(f.steps, fmt.Sprintf("%-5s %8.2f s  %s", host, time.Since(began).Seconds(), what))
}

// runs runs a command that must succeed, and returns what it printed.
func (f *fleet) runs(host, command string) string {
	f.t.Helper()
	began := time.Now()
	out, err := f.on(host, command).CombinedOutput()
	f.note(host, command, began)
	f.t.Logf("%s# %s\n%s", host, command, out)
	if err != nil {
		f.t.Fatalf("%s: %s: %v", host, command, err)
	}
	return string(out)
}

// starts starts a command that goes on, and shows what it wrote if the test fails.
func (f *fleet) starts(host, command string) *exec.Cmd {
	f.t.Helper()
	c := f.on(host, "exec "+command)
	log, err := os.CreateTemp(f.root, host+".*.log") // no pipe: a successor would keep it open
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	f.t.Logf("%s# %s &", host, command)
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if f.t.Failed() {
			wrote, _ := os.ReadFile(log.Name())
			f.t.Logf("%s wrote:\n%s", host, wrote)
		}
	})
	return c
}

// until waits for something, and notes how long it took.
func (f *fleet) until(host, what string, began time.Time, is func() bool) {
	f.t.Helper()
	await(f.t, what, is)
	f.note(host, what, began)
}

// ready reports whether a host's daemon issues ids.
func ready(host string) bool {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get("http://" + host + ":8081/readyz")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

var answered = regexp.MustCompile(`VALUE \w+ 0 \d+\r?\n(\d+)`)

// asks takes an id by the command that docs/GETTING-STARTED.md shows.
func (f *fleet) asks(host, key string) string {
	f.t.Helper()
	out := f.runs("desk", `printf 'get `+key+`\r\nquit\r\n' | nc `+host+` 11212`)
	m := answered.FindStringSubmatch(out)
	if m == nil {
		f.t.Fatalf("%s: %q", host, out)
	}
	return m[1]
}

// next returns the commands that init printed.
func next(said string) (commands []string) {
	for line := range strings.Lines(said) {
		if c, ok := strings.CutPrefix(line, "  katsubushi "); ok {
			commands = append(commands, "katsubushi "+strings.TrimSpace(c))
		}
	}
	return commands
}

// operate is the test, inside.
func operate(t *testing.T) {
	f := wired(t)
	defer func() { t.Logf("host      time   command, or what was waited for\n%s", strings.Join(f.steps, "\n")) }()
	etcd := f.starts("desk", "etcd --data-dir "+f.root+"/etcd --unsafe-no-fsync --log-level error "+
		"--listen-client-urls http://0.0.0.0:2379 --advertise-client-urls http://store:2379")
	await(t, "etcd is there", func() bool {
		return f.on("desk", "etcdctl --endpoints store:2379 endpoint health").Run() == nil
	})

	began := time.Now()
	commands := next(f.runs("desk", `katsubushi init -hosts plain:h1,h2,h3 -store etcd://store:2379 `+
		`-ports "11212 8081" -tls none -sequences orders`))
	if len(commands) != 2 {
		t.Fatalf("init does not say two commands that are next: %q", commands)
	}
	f.runs("desk", commands[0])
	daemons := map[string]*exec.Cmd{}
	var ids, orders []string
	for _, h := range hosts {
		daemons[h] = f.installs(h, commands[1])
		ids, orders = append(ids, f.asks(h, "id")), append(orders, f.asks(h, "orders"))
		if h == "h1" {
			f.note("desk", "FIRST ID, from init on", began)
		}
	}
	f.note("desk", "THREE HOSTS, from init on", began)
	distinct(t, "ids", ids)
	distinct(t, "values of orders", orders)
	f.seesAll()
	pages := map[string]*tab{}
	for _, h := range []string{"h1", "h3"} {
		pages[h] = newTab(t, "http://"+h+":8081/")
		pages[h].look(1240, "light")
		pages[h].open("http://" + h + ":8081/")
	}
	pages["h1"].shot("hosts-served")

	f.killed(daemons, commands[1])
	f.upgrades()
	pages["h1"].open("http://h1:8081/")
	pages["h1"].shot("hosts-upgraded")
	f.alarms(pages["h3"], etcd)
}

func distinct(t *testing.T, what string, list []string) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(list))
	if len(slices.Compact(sorted)) != len(list) {
		t.Errorf("%s: %q", what, list)
	}
}

// installs puts program and settings on a host, and starts the daemon as init said.
func (f *fleet) installs(host, start string) *exec.Cmd {
	f.t.Helper()
	began := time.Now()
	f.runs("desk", "install "+binary(f.t)+" "+f.root+"/"+host+"/bin/ && cp katsubushi.conf "+host+"/")
	f.runs(host, "katsubushi check-config -config katsubushi.conf")
	c := f.starts(host, start)
	f.until(host, start+" & # until it is ready", began, func() bool { return ready(host) })
	return c
}

// seesAll: the pool's list has each host.
func (f *fleet) seesAll() {
	f.t.Helper()
	list := f.runs("desk", "katsubushi lease list -config katsubushi.conf")
	for i := range hosts {
		if !strings.Contains(list, fmt.Sprintf("10.9.0.%d", i+1)) {
			f.t.Errorf("h%d is not in the list", i+1)
		}
	}
}

// killed cuts a host off and kills its daemon: the others issue ids all the time, and it comes back by itself.
func (f *fleet) killed(daemons map[string]*exec.Cmd, start string) {
	f.t.Helper()
	clients := []*client{f.client("h1"), f.client("h3")}
	began := time.Now()
	f.runs("desk", "ip link set to-h2 down")
	daemons["h2"].Process.Kill()
	f.until("h2", "HOST KILLED: no answer", began, func() bool { return !ready("h2") })
	f.asks("h1", "orders")
	f.asks("h3", "id")
	began = time.Now()
	f.runs("desk", "ip link set to-h2 up")
	f.starts("h2", start)
	f.until("h2", start+" & # after the kill, until it is ready", began, func() bool { return ready("h2") })
	f.asks("h2", "id")
	for _, c := range clients {
		c.ends(f.t, "while h2 was away")
	}
}

// upgrades replaces the program of h1 under a client.
func (f *fleet) upgrades() {
	f.t.Helper()
	c := f.client("h1")
	began := time.Now()
	f.runs("desk", "install "+os.Getenv(upgradeVariable)+" "+f.root+"/h1/bin/katsubushi")
	f.runs("h1", "katsubushi upgrade")
	f.note("h1", "UPGRADE, with the copy", began)
	c.ends(f.t, "in the upgrade")
	if said := f.runs("desk", `printf 'version\r\nquit\r\n' | nc h1 11212`); !strings.Contains(said, "3.9.9") {
		f.t.Errorf("after the upgrade: %s", said)
	}
}

// alarms stops the store. The page alone says what is wrong and what to type.
func (f *fleet) alarms(b *tab, etcd *exec.Cmd) {
	f.t.Helper()
	findings := func() string { return eval[string](b, `document.getElementById("findings").innerText`) }
	if got := strings.TrimSpace(findings()); got != "Nothing is wrong." {
		f.t.Errorf("before the alarm: %s", got)
	}
	began := time.Now()
	etcd.Process.Signal(syscall.SIGSTOP)
	f.until("h3", "ALARM: the page says that leases are not extended", began, func() bool {
		return strings.Contains(findings(), "is not extended")
	})
	found := findings()
	f.t.Logf("the page of h3 says:\n%s", found)
	b.shot("hosts-alarm")
	const ask = "etcdctl --endpoints store:2379 endpoint status" // which is to be typed
	if !strings.Contains(found, ask) {
		f.t.Error("it does not say how to ask the store")
	}
	f.asks("h3", "id") // ids go on
	began = time.Now()
	etcd.Process.Signal(syscall.SIGCONT)
	f.runs("h3", ask)
	f.until("h3", "REPAIRED: the page says so", began, func() bool {
		return !strings.Contains(findings(), "is not extended")
	})
	b.shot("hosts-repaired")
}

// A client asks a daemon for one id after the other over one connection.
type client struct {
	host  string
	stop  chan struct{}
	ended sync.WaitGroup
	ids   map[string]bool
	wrong []string
}

func (f *fleet) client(host string) *client {
	f.t.Helper()
	conn, err := net.Dial("tcp", host+":11212")
	if err != nil {
		f.t.Fatal(err)
	}
	c := &client{host: host, stop: make(chan struct{}), ids: map[string]bool{}}
	c.ended.Go(func() {
		defer conn.Close()
		for r := bufio.NewReader(conn); ; {
			select {
			case <-c.stop:
				return
			case <-time.After(time.Millisecond):
			}
			conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprint(conn, "get id\r\n")
			head, _ := r.ReadString('\n')
			id, _ := r.ReadString('\n')
			end, err := r.ReadString('\n')
			if err != nil || !strings.HasPrefix(head, "VALUE id ") || end != "END\r\n" || c.ids[id] {
				c.wrong = append(c.wrong, fmt.Sprintf("%q %q %q %v", head, id, end, err))
				return
			}
			c.ids[id] = true
		}
	})
	return c
}

// ends ends the client, which must have got ids and nothing else.
func (c *client) ends(t *testing.T, when string) {
	t.Helper()
	close(c.stop)
	c.ended.Wait()
	if len(c.wrong) > 0 || len(c.ids) == 0 {
		t.Errorf("%s, %s got %d ids, and %q", when, c.host, len(c.ids), c.wrong)
	}
	t.Logf("%s, a client of %s got %d ids and no error", when, c.host, len(c.ids))
}
