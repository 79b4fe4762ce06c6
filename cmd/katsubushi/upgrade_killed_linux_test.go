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
