package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A counting client asks one daemon for values.
type counting struct {
	net.Conn
	r *bufio.Reader
}

func countFrom(t *testing.T, p *process) *counting {
	t.Helper()
	return &newAsker(t, "tcp", p.Addr()).counting
}

// An asker asks one daemon for ids, each of which must be above the one before.
type asker struct {
	counting
	last uint64
}

func newAsker(t *testing.T, network, address string) *asker {
	t.Helper()
	conn := dial(t, network, address)
	return &asker{counting: counting{conn, bufio.NewReader(conn)}}
}

func (a *asker) id(t *testing.T) uint64 {
	t.Helper()
	id := a.must(t, "id")
	if id <= a.last {
		t.Errorf("id %d after %d", id, a.last)
	}
	a.last = id
	return id
}

// raised reports whether a sequence was raised, be it that a daemon has been killed, or is slow to confirm it.
func raised(code int, stderr string) bool {
	return code == exitOK || code == exitFailure && strings.Contains(stderr, "has not confirmed it")
}

// get returns the value of a key, or what the daemon says instead.
func (c *counting) get(t *testing.T, key string) (v uint64, says string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintf(c, "get %s\r\n", key)
	line, err := c.r.ReadString('\n')
	if strings.HasPrefix(line, "VALUE ") {
		line, err = c.r.ReadString('\n')
		c.r.ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	line = strings.TrimSpace(line)
	if v, err = strconv.ParseUint(line, 10, 64); err != nil {
		return 0, line
	}
	return v, ""
}

// must returns a value. On a busy machine the store may not have answered the daemon when it started.
func (c *counting) must(t *testing.T, key string) (v uint64) {
	t.Helper()
	says := ""
	await(t, "the store answers", func() bool {
		v, says = c.get(t, key)
		return !strings.HasPrefix(says, "SERVER_ERROR the counter store does not answer")
	})
	if says != "" {
		t.Fatal(says)
	}
	return v
}

// The disk does not answer: values come while the block lasts, then a refusal after -max-wait. Other keys of the same
// loop are answered all the time, and with the disk values come back.
func TestProcessSequenceDiskStandsStill(t *testing.T) {
	t.Parallel()
	dir, freeze, thaw := frozenDisk(t)
	p := start(t, "-worker-id", "28", "-state-dir", dir, "-loops", "1", "-max-wait", "300ms", "-generator",
		"orders sequence batch=40")
	c, other := countFrom(t, p), countFrom(t, p)
	var last uint64
	await(t, "a value", func() (ok bool) { // on a busy machine, the first block may take longer than -max-wait
		v, says := c.get(t, "orders")
		last = v
		return says == ""
	})
	freeze()
	says := ""
	n := 0
	for ; says == ""; n++ {
		var v uint64
		if v, says = c.get(t, "orders"); says == "" {
			if v != last+1 {
				t.Fatalf("%d after %d", v, last)
			}
			last = v
		}
		other.must(t, "id")
	}
	if n < 20 || n > 200 {
		t.Errorf("%d values came from the blocks at hand", n)
	}
	if !strings.HasPrefix(says, "SERVER_ERROR sequence orders: no block for ") {
		t.Errorf("the refusal is %q", says)
	}
	other.must(t, "id")
	thaw()
	await(t, "values come again", func() bool {
		v, says := c.get(t, "orders")
		if says == "" && v <= last {
			t.Fatalf("%d after %d", v, last)
		}
		return says == ""
	})
	p.end(t, syscall.SIGTERM)
}
