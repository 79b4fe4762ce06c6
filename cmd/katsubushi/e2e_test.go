package main

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// memoryOf is a figure of a process in /proc, in bytes: VmRSS now, VmHWM at most.
func memoryOf(t *testing.T, pid int, figure string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip(err)
	}
	m := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no %s in %s", figure, status)
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb << 10
}

// hurry fetches at least n ids so fast that they run ahead of the clock.
func hurry(t *testing.T, p *process, n int) []uint64 {
	t.Helper()
	conn := dial(t, "tcp", p.Addr())
	go func() {
		for line := []byte("get" + strings.Repeat(" id", 500) + "\r\n"); ; { // until the connection is closed
			if _, err := conn.Write(line); err != nil {
				return
			}
		}
	}()
	defer conn.Close()
	var ids []uint64
	for r := bufio.NewScanner(conn); len(ids) < n && r.Scan(); {
		if id, err := strconv.ParseUint(r.Text(), 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) < n {
		t.Fatalf("%d ids of %d", len(ids), n)
	}
	return ids
}

// freePort is a port for flags in which 0 means off.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(redistest.FreePort(t))
}
