package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestProcessUpgradeKilled kills the old process or the new one at each step. The other one serves, and
// no id is issued twice.
func TestProcessUpgradeKilled(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	u := startUpgradable(t, append(inMemory(t), "-worker-id", "35", "-port", port, "-http-port", freePort(t))...)
	c := census{lanes: 1}
	var last uint64
	ask := func(what string) {
		t.Helper()
		// A process that died may have left its connections, and the kernel takes its time with some sockets.
		await(t, "somebody serves after "+what, func() bool {
			conn, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
			if err != nil {
				return false
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			r := bufio.NewReader(conn)
			for range 50 {
				var a answer
				if _, err := io.WriteString(conn, "get id id id\r\n"); err != nil || a.read(r) != nil || len(a.ids) != 3 {
					return false
				}
				c.add(a.ids)
				if a.ids[0] <= last {
					t.Errorf("%s: id %d after %d", what, a.ids[0], last)
				}
				last = a.ids[2]
			}
			return true
		})
	}
	ask("the start")
	for _, kind := range []string{"sockets", "begin", "hello", "take", "moved", "ready", "serve", "serving"} {
		for _, victim := range []string{"new", "old"} {
			for _, when := range []string{"before", "after"} {
				if victim == "new" && when == "after" && kind == "serving" {
					continue // a daemon that is killed, and nothing else
				}
				what := fmt.Sprintf("kill -9 of the %s process %s %s", victim, when, kind)
				idle := newAsker(t, "tcp", "127.0.0.1:"+port) // so that something moves
				idle.id(t)
				u.pretend(t, strings.Join([]string{"between", binary, kind, victim, when}, " "))
				code, said := u.upgrade(t)
				t.Logf("%s: exit code %d, %s", what, code, said)
				ask(what)
				idle.Close()
				u.now = u.serving(t)
				if t.Failed() {
					return
				}
			}
		}
	}
	c.verdict(t)
}

// serving finds the process that serves: the only one of its session that can be asked for an upgrade.
func (u *upgradable) serving(t *testing.T) (pid int) {
	t.Helper()
	await(t, "one process serves", func() bool {
		pid = 0
		list, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(list)) {
			_, name, ok := strings.Cut(line, "@katsubushi/control/")
			if !ok {
				continue
			}
			p, _ := strconv.Atoi(strings.TrimSpace(name))
			if !slices.Contains(u.session(), p) {
				continue
			}
			if pid != 0 && pid != p {
				return false
			}
			pid = p
		}
		return pid != 0
	})
	return pid
}

// TestProcessUpgradeKilledLate: a new process that issued ids, and is killed before it has said that it
// serves, has issued none of those that the old one goes on with; also without a record.
func TestProcessUpgradeKilledLate(t *testing.T) {
	t.Parallel()
	for _, record := range [][]string{inMemory(t), {"-state-dir", "none"}} {
		u := startUpgradable(t, append(record, "-worker-id", "37")...)
		ids := newAsker(t, "tcp", u.Addr())
		ids.id(t)
		u.pretend(t, "between "+binary+" serving new later")
		answered := u.upgrading(t)
		await(t, "it is under way", func() bool { return strings.Contains(u.Logged(), `"took over"`) })
		// Of the new process, which has the connection. The old one kills it after some seconds, if it is not
		// killed here before: then that has come.
		for begun, n := time.Now(), 0; n < 1_000 && time.Since(begun) < 2*time.Second; n++ {
			var a answer
			if _, err := io.WriteString(ids, "get id\r\n"); err != nil || a.read(ids.r) != nil {
				break
			}
			if len(a.ids) != 1 || a.ids[0] <= ids.last {
				t.Fatalf("%+v after %d", a, ids.last)
			}
			ids.last = a.ids[0]
		}
		tempfile.Write(t, u.program+".now", "")
		if said := <-answered; !strings.Contains(said, "1 connections are lost") {
			t.Errorf("the upgrade: %s", said)
		}
		after := newAsker(t, "tcp", u.Addr()) // the old process goes on above what the new one had issued
		after.last = ids.last
		after.id(t)
	}
}

// TestProcessUpgradeAsleep: an old process that stands still from just before the new one says that it serves
// until after the time that it had for that, hears it then. It neither kills the new one nor serves again.
func TestProcessUpgradeAsleep(t *testing.T) {
	t.Parallel()
	u := startUpgradable(t, append(inMemory(t), "-worker-id", "38")...)
	ids := newAsker(t, "tcp", u.Addr())
	ids.id(t)
	u.pretend(t, "between "+binary+" serving old asleep")
	answered := u.upgrading(t)
	await(t, "the old process stands still", func() bool { return asleep(u.now) })
	for woken := time.Now().Add(11 * time.Second); time.Now().Before(woken); time.Sleep(100 * time.Millisecond) {
		ids.id(t) // of the new process
	}
	u.Resume(t)
	if said := <-answered; !strings.Contains(said, "with 1 connections") {
		t.Errorf("the upgrade: %s", said)
	}
	await(t, "the old process ends", func() bool { return gone(u.Process.Pid) })
	ids.id(t)
}
