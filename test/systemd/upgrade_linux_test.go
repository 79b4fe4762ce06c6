package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestUpgradeUnderSystemd: a new process takes over a unit, by the command and by the signal, and systemd
// follows it: its watchdog, its status, its stop, and its restart after a kill. A user logs in, for which
// the daemon starts a second process. Then systemd has the port: clients wait while the daemon restarts.
func TestUpgradeUnderSystemd(t *testing.T) {
	if os.Getenv("KATSUBUSHI_SYSTEMD") == "" {
		t.Skip("make test-systemd runs it")
	}
	m := boot(t, (*machine).installByHand)
	m.write("/etc/default/katsubushi", "WORKER_ID=7\nKATSUBUSHI_STATE_ANY_DISK=true\n")
	m.write("/etc/systemd/system/katsubushi.service.d/quick.conf", "[Service]\nWatchdogSec=2\n")
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "start", "katsubushi")

	last := uint64(0)
	rises := func(when string) {
		t.Helper()
		id, err := strconv.ParseUint(m.id(), 10, 64)
		if err != nil || id <= last {
			t.Fatalf("%s: id %d after %d, %v\n%s", when, id, last, err,
				m.do("journalctl -u katsubushi --no-pager -o cat | tail -30"))
		}
		last = id
	}
	rises("started")
	follows := func(before string) (pid string) {
		t.Helper()
		m.await("systemd follows the new process", func() bool {
			pid = m.show("MainPID")
			return pid != before && pid != "0"
		})
		m.await("the old process ends", func() bool {
			return !m.isThere("/proc/"+before) && m.run("ls", "-d", "/proc/"+before) != "/proc/"+before
		})
		if state, n := m.show("ActiveState"), m.show("NRestarts"); state != "active" || n != "0" {
			t.Errorf("after an upgrade: %s, %s restarts", state, n)
		}
		return pid
	}
	pid := m.show("MainPID")
	said := m.do("katsubushi upgrade")
	now := follows(pid)
	if !strings.HasPrefix(said, "process "+now+" of version ") {
		t.Errorf("the main process is %s, and the upgrade said %q", now, said)
	}
	rises("upgraded by the command")
	m.do("systemctl kill --kill-whom=main -s USR2 katsubushi")
	now = follows(now)
	rises("upgraded by the signal")
	m.await("the status is the new process's", func() bool { return m.show("StatusText") == "serving, worker id 7" })
	if status := m.do("systemctl status katsubushi --no-pager"); !strings.Contains(status, "Main PID: "+now+" ") {
		t.Errorf("systemctl status names another process than %s", now)
	}

	// The watchdog: it gets signs of life of the new process, and notices when there are none any more.
	heard := m.show("WatchdogTimestampMonotonic")
	m.await("two signs of life come", func() bool {
		at := m.show("WatchdogTimestampMonotonic")
		if at == heard {
			return false
		}
		heard, said = at, said+"."
		return strings.HasSuffix(said, "..")
	})
	if m.show("MainPID") != now || m.show("NRestarts") != "0" {
		t.Error("the watchdog ended the new process")
	}
	for i, signal := range []string{"STOP", "KILL"} {
		m.run("sh", "-c", "kill -"+signal+" "+m.show("MainPID"))
		m.await("restarted after SIG"+signal, func() bool {
			return m.show("NRestarts") == strconv.Itoa(i+1) && m.show("ActiveState") == "active"
		})
		rises("restarted after SIG" + signal)
		if i == 0 {
			pid = m.show("MainPID")
			m.do("katsubushi upgrade")
			m.await("systemd follows", func() bool { return m.show("MainPID") != pid })
		}
	}
	pid = m.show("MainPID")
	m.do("katsubushi upgrade")
	m.await("systemd follows", func() bool { return m.show("MainPID") != pid })
	m.do("systemctl stop katsubushi")
	if result, left := m.show("Result"), m.run("pgrep", "-x", "katsubushi"); result != "success" || left != "" {
		t.Errorf("after a stop: %s, processes %s", result, left)
	}
	m.logIn()
	m.socket(rises)
}

// logIn has a user log in: the unit lets the daemon start the process that compares passwords.
func (m *machine) logIn() {
	t := m.t
	m.do("mkdir -p /etc/katsubushi && echo secret | katsubushi user add ann '*=get' -auth-file /etc/katsubushi/users")
	m.write("/etc/systemd/system/katsubushi.service.d/users.conf",
		"[Service]\nLoadCredential=users:/etc/katsubushi/users\nEnvironment=KATSUBUSHI_AUTH_FILE=%d/users\n")
	m.do("systemctl daemon-reload; systemctl start katsubushi")
	answer := m.run("python3", "-c", `
import socket
s = socket.create_connection(("127.0.0.1", 11212))
def ask(text):
    s.sendall(text)
    return s.recv(200).decode().split("\r\n")[0]
print(ask(b"set key 0 0 9\r\nann wrong\r\n"), ask(b"set key 0 0 10\r\nann secret\r\n"), ask(b"get id\r\n"))`)
	if !regexp.MustCompile(`^CLIENT_ERROR .*STORED VALUE id 0 \d+$`).MatchString(answer) {
		t.Errorf("login: %s\n%s", answer, m.do("journalctl -u katsubushi --no-pager -o cat | tail -20"))
	}
	main := m.show("MainPID")
	tasks := m.do(`for p in $(pgrep -P ` + main +
		`); do tr '\0' ' ' </proc/$p/cmdline; awk '{print $19}' /proc/$p/stat; done`)
	if tasks != "katsubushi -compare-passwords-for-the-daemon 10" {
		t.Errorf("the niceness of the process that compares passwords is %q\n%s", tasks,
			m.do("journalctl -u katsubushi --no-pager -o cat | tail -20"))
	}
	m.do("systemctl stop katsubushi; rm /etc/systemd/system/katsubushi.service.d/users.conf; systemctl daemon-reload")
}

// socket lets systemd open the port.
func (m *machine) socket(rises func(string)) {
	t := m.t
	unit, err := os.ReadFile("../../deploy/katsubushi.socket")
	if err != nil {
		t.Fatal(err)
	}
	m.write("/etc/systemd/system/katsubushi.socket", string(unit))
	m.do("systemctl daemon-reload; systemctl start katsubushi.socket")
	if state := m.show("ActiveState"); state == "active" {
		t.Errorf("the daemon is %s before a client came", state)
	}
	rises("started by a client")
	before := m.show("MainPID")
	client := exec.Command("nsenter", "-t", strconv.Itoa(m.pid), "-a", "--", "python3", "-c", `
import socket, subprocess, sys, time
done = None
last, n, waited = 0, 0, 0
while True:
    if n == 20:
        done = subprocess.Popen(["systemctl", "restart", "katsubushi"])
    over = done is not None and done.poll() is not None
    begun = time.monotonic()
    s = socket.create_connection(("127.0.0.1", 11212)) # refused: a traceback
    try:
        s.sendall(b"get id\r\nquit\r\n")
        got = s.recv(100).split()
    except ConnectionResetError: # accepted by the old process, which ends
        got = []
    s.close()
    waited = max(waited, time.monotonic() - begun)
    n += 1
    if got:
        assert int(got[4]) > last, (got, last)
        last = int(got[4])
    if over and got:
        break
print("all", n, "connected; the longest waited", round(waited, 2), "s")`)
	out, err := client.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || m.show("MainPID") == before {
		t.Errorf("a client during a restart: %v", err)
	}
	rises("restarted")
	before = m.show("MainPID")
	if said := m.do("katsubushi upgrade"); !strings.HasPrefix(said, "process ") {
		t.Errorf("upgrade of a daemon with systemd's socket: %s", said)
	}
	m.await("systemd follows", func() bool { return m.show("MainPID") != before })
	rises("upgraded")
	m.do("systemctl restart katsubushi")
	rises("restarted after an upgrade")
	m.do("systemctl stop katsubushi.socket katsubushi")
	if state := fmt.Sprint(m.show("ActiveState"), m.show("Result")); state != "inactivesuccess" {
		t.Errorf("in the end: %s", state)
	}
}
