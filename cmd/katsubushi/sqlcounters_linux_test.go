package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// Two daemons share a sequence in a database. They are killed in turn, the server is killed, and it stands still:
// no value comes twice, and `generator` works beside them. Package counter/sql does the same with MariaDB.
func TestProcessDaemonsShareADatabase(t *testing.T) {
	t.Parallel()
	server := sqltest.Postgres(t)
	url := "postgres://postgres@/postgres?socket=" + server.Socket
	code, _, stderr := runNameIn(url, "create", "orders sequence batch=40")
	_, statement, ok := strings.Cut(stderr, "This makes it:\n")
	if code != exitFailure || !ok {
		t.Fatal(code, stderr)
	}
	server.Do(t, statement)
	if code, stdout, stderr := runNameIn(url, "create", "orders sequence batch=40"); code != exitOK {
		t.Fatal(stdout, stderr)
	}
	var mu sync.Mutex
	seen := map[uint64]bool{}
	take := func(c *counting) (says string) {
		t.Helper()
		v, says := c.get(t, "orders")
		if says != "" {
			return says
		}
		mu.Lock()
		defer mu.Unlock()
		if seen[v] {
			t.Fatalf("%d came twice", v)
		}
		seen[v] = true
		return ""
	}
	begin := func(i int) *process {
		return start(t, "-worker-id", fmt.Sprint(i), "-state-dir", "none", "-state-any-disk", "-max-wait", "4s", "-counters",
			url)
	}
	daemons := []*process{begin(1), begin(2)}
	clients := []*counting{countFrom(t, daemons[0]), countFrom(t, daemons[1])}
	both := func(n int) {
		t.Helper()
		for i := range n { // a block may take longer than -max-wait
			await(t, "a value", func() bool { return take(clients[i%2]) == "" })
		}
	}
	for i := range 2 {
		both(200)
		daemons[i].end(t, syscall.SIGKILL)
		daemons[i] = begin(i + 1)
		clients[i] = countFrom(t, daemons[i])
	}
	both(100)

	server.Pause() // for longer than max-wait
	says := ""
	for range 200 {
		if says = take(clients[0]); says != "" {
			break
		}
	}
	server.Resume()
	if !strings.HasPrefix(says, "SERVER_ERROR sequence orders: no block for ") {
		t.Errorf("%q", says)
	}
	await(t, "values come again", func() bool { return take(clients[0]) == "" })
	both(100)
	server.Kill()
	for says = ""; says == ""; says = take(clients[1]) {
	}
	server.Launch(t)
	for i := range clients {
		await(t, "values come again", func() bool { return take(clients[i]) == "" })
	}
	both(100)

	if code, stdout, stderr := runNameIn(url, "raise", "orders", "1000000"); !raised(code, stderr) ||
		!strings.Contains(stderr, "daemons that reach the database drop theirs within a second and need no restart") {
		t.Fatal(stdout, stderr)
	}
	for i := range clients {
		await(t, "the daemon has learned of the raise", func() bool {
			v, says := clients[i].get(t, "orders") // a block may take longer than -max-wait
			return says == "" && v >= 1000000
		})
	}
	for _, d := range daemons {
		d.end(t, syscall.SIGTERM)
	}
	if code, stdout, stderr := runNameIn(url, "list"); code != exitOK || !strings.Contains(stdout, "orders") {
		t.Error(stdout, stderr)
	}
}
