package systemd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A machine is a container in which systemd runs.
type machine struct {
	t    *testing.T
	root string
	pid  int // of systemd, outside
}

// off are services of this host's files that would only take time.
const off = "haproxy nginx redis-server mariadb postgresql podman-auto-update podman-restart etcd zookeeper " +
	"memcached cron ssh exim4 apt-daily.timer apt-daily-upgrade.timer"

// boot starts a container. before may write files of it.
func boot(t *testing.T, before func(*machine)) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	layer := filepath.Join(dir, "layer")
	must(os.Mkdir(m.root, 0o755))
	must(os.Mkdir(layer, 0o755))
	must(syscall.Mount("tmpfs", layer, "tmpfs", 0, ""))
	t.Cleanup(func() { syscall.Unmount(layer, syscall.MNT_DETACH) })
	must(os.Mkdir(layer+"/up", 0o755))
	must(os.Mkdir(layer+"/work", 0o755))
	must(syscall.Mount("overlay", m.root, "overlay", 0,
		fmt.Sprintf("lowerdir=/,upperdir=%[1]s/up,workdir=%[1]s/work", layer)))
	t.Cleanup(func() { syscall.Unmount(m.root, syscall.MNT_DETACH) })

	for name := range strings.FieldsSeq(off) {
		if !strings.Contains(name, ".") {
			name += ".service"
		}
		os.Remove(m.root + "/etc/systemd/system/" + name)
		must(os.Symlink("/dev/null", m.root+"/etc/systemd/system/"+name))
	}
	for _, path := range []string{"/var/lib/katsubushi", "/var/lib/private/katsubushi", "/etc/katsubushi",
		"/etc/default/katsubushi"} {
		must(os.RemoveAll(m.root + path)) // this host's own
	}
	before(m)
	c := exec.Command("systemd-nspawn", "--register=no", "--keep-unit", "-q", "-D", m.root, "-b",
		"--machine=katsubushi-test", "--private-network")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	must(c.Start())
	exited := make(chan struct{})
	go func() {
		c.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM) // it ends the container
		select {
		case <-exited:
		case <-time.After(20 * time.Second):
			c.Process.Kill()
			<-exited
		}
	})
	m.await("systemd runs", func() bool {
		select {
		case <-exited:
			t.Fatalf("systemd-nspawn: %s", out.Bytes())
		default:
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", c.Process.Pid))
		m.pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		if m.pid == 0 {
			return false
		}
		state := m.run("systemctl", "is-system-running", "--wait")
		return state == "running" || state == "degraded" // by another service of this host's
	})
	m.run("ip", "link", "set", "lo", "up")
	return m
}

// installByHand puts a new program and the unit where the unit's comment says.
func (m *machine) installByHand() {
	m.t.Helper()
	build := exec.Command("go", "build", "-o", m.root+"/usr/local/bin/katsubushi", "../../cmd/katsubushi")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		m.t.Fatal(err)
	}
	unit, err := os.ReadFile("../../deploy/katsubushi.service")
	if err != nil {
		m.t.Fatal(err)
	}
	m.write("/etc/systemd/system/katsubushi.service", string(unit))
}

// write writes a file of the container's.
func (m *machine) write(path, text string) {
	m.t.Helper()
	os.MkdirAll(filepath.Dir(m.root+path), 0o755)
	if err := os.WriteFile(m.root+path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a command in the container and returns what it printed.
func (m *machine) run(args ...string) string {
	out, _ := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.pid), "-a", "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// show returns a property of the unit.
func (m *machine) show(property string) string {
	return m.run("systemctl", "show", "katsubushi", "--value", "-p", property)
}

func (m *machine) await(what string, ok func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("not in two minutes: %s\n%s", what, m.run("journalctl", "-u", "katsubushi", "--no-pager"))
		}
	}
}

// id asks the daemon for an id, from the container's own network.
func (m *machine) id() string { return m.ask("id") }

// ask asks for the value of a key.
func (m *machine) ask(key string) string {
	return m.run("python3", "-c", `
import socket
s = socket.create_connection(("127.0.0.1", 11212))
s.sendall(b"get `+key+`\r\nquit\r\n")
print(s.recv(100).split()[4].decode())`)
}

// TestTheUnit starts, reloads, freezes, kills and misconfigures the daemon as a unit.
func TestTheUnit(t *testing.T) {
	if os.Getenv("KATSUBUSHI_SYSTEMD") == "" {
		t.Skip("make test-systemd runs it")
	}
	m := boot(t, (*machine).installByHand)
	// The files of the container are in memory: the daemon would not trust its state to them.
	m.write("/etc/default/katsubushi", "WORKER_ID=7\nKATSUBUSHI_STATE_ANY_DISK=true\n")
	m.write("/etc/systemd/system/katsubushi.service.d/quick.conf", "[Service]\nWatchdogSec=2\n")
	m.run("systemctl", "daemon-reload")

	if said := m.run("systemctl", "start", "katsubushi"); said != "" {
		t.Fatalf("%s\n%s", said, m.run("journalctl", "-u", "katsubushi", "--no-pager"))
	}
	if id := m.id(); !regexp.MustCompile(`^\d{18,19}$`).MatchString(id) { // at once: started means that ids are served
		t.Errorf("get id: %q", id)
	}
	if text := m.show("StatusText"); text != "serving, worker id 7" {
		t.Errorf("the status is %q", text)
	}
	if engine := m.run("journalctl", "-u", "katsubushi", "--no-pager", "-g", "engine=uring"); !strings.Contains(engine,
		"listening") && ioUring() {
		t.Errorf("the unit forbids io_uring: %s", m.run("journalctl", "-u", "katsubushi", "--no-pager"))
	}
	lines := func(priority string) string {
		return m.run("journalctl", "-u", "katsubushi", "--no-pager", "-o", "cat", "-p", priority)
	}
	if all := lines("info"); !strings.Contains(all, "\ntime=") || !strings.Contains(all, "msg=listening") ||
		strings.Contains(all, "<6>") {
		t.Errorf("in the journal: %s", all)
	}
	if wrong := lines("warning"); strings.Contains(wrong, "msg=listening") {
		t.Errorf("with the priority of warnings, and all is well: %s", wrong)
	}
	if said := m.run("systemctl", "reload", "katsubushi"); said != "" || m.show("ActiveState") != "active" {
		t.Errorf("reload: %s %s", said, m.show("ActiveState"))
	}
	exposure := m.run("systemd-analyze", "security", "--no-pager", "katsubushi")
	score := regexp.MustCompile(`katsubushi.service: ([0-9.]+)`).FindStringSubmatch(exposure)
	if len(score) == 0 {
		t.Fatal(exposure)
	}
	if x, _ := strconv.ParseFloat(score[1], 64); x > 1.5 {
		t.Errorf("exposure %v, at most 1.5 wanted:\n%s", x, exposure)
	}
	t.Log("exposure", score[1])

	for i, signal := range []string{"STOP", "KILL"} { // the first ends by the watchdog
		m.run("sh", "-c", "kill -"+signal+" "+m.show("MainPID"))
		m.await("restarted after SIG"+signal, func() bool {
			return m.show("NRestarts") == strconv.Itoa(i+1) && m.show("ActiveState") == "active"
		})
		m.id()
	}
	m.run("systemctl", "stop", "katsubushi")
	if result := m.show("Result"); result != "success" {
		t.Errorf("after a stop: %s", result)
	}

	m.write("/etc/default/katsubushi", "WORKER_ID=99999\n")
	m.run("systemctl", "start", "katsubushi")
	if state, status, n := m.show("ActiveState"), m.show("ExecMainStatus"), m.show("NRestarts"); state != "failed" ||
		status != "2" || n != "0" {
		t.Errorf("with a wrong setting: %s, exit code %s, %s restarts", state, status, n)
	}
	if wrong := lines("err"); !strings.Contains(wrong, "WORKER_ID: 99999") {
		t.Errorf("the journal's errors do not say which setting is wrong: %s", wrong)
	}
}

// ioUring reports whether this kernel lets this process use io_uring.
func ioUring() bool {
	_, _, errno := syscall.Syscall(425, 0, 0, 0) // io_uring_setup without parameters
	return errno == syscall.EINVAL || errno == syscall.EFAULT
}
