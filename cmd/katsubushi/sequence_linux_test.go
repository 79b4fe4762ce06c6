package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
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
	conn := dial(t, "tcp", p.Addr())
	return &counting{conn, bufio.NewReader(conn)}
}

// startWithoutCounters starts a daemon while the counter store is away, which has the sequence items. The
// daemon serves its other kinds, and refuses items and the sequence orders that it declares.
func startWithoutCounters(t *testing.T, counters []string) (*process, *counting) {
	t.Helper()
	p := start(t,
		append([]string{"-worker-id", "1", "-max-wait", "300ms", "-generator", "orders sequence batch=40", "-generator",
			"texts uuid7"}, counters...)...)
	c := countFrom(t, p)
	c.must(t, "id")
	if _, says := c.get(t, "texts"); len(says) != 36 {
		t.Errorf("a UUID: %q", says)
	}
	if _, says := c.get(t, "orders"); !strings.HasPrefix(says, "SERVER_ERROR sequence orders: no block for ") {
		t.Errorf("the refusal is %q", says)
	}
	if v, says := c.get(t, "items"); !strings.HasPrefix(says, "SERVER_ERROR the counter store does not answer") {
		t.Errorf("%d, %q for a name that is a sequence in the store", v, says)
	}
	return p, c
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

// A clean stop leaves no gap, and a kill one of at most two blocks. A sequence is raised beside the daemon.
func TestProcessSequenceAcrossRuns(t *testing.T) {
	t.Parallel()
	const batch = 50
	dir := t.TempDir()
	args := []string{"-worker-id", "1", "-max-wait", "1m", "-state-dir", dir, "-state-any-disk", "-generator",
		fmt.Sprintf("orders sequence batch=%d", batch)}
	last := uint64(0)
	var before syscall.Signal
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM,
		syscall.SIGTERM, syscall.SIGKILL, 0} {
		p := start(t, args...)
		c := countFrom(t, p)
		first := c.must(t, "orders")
		most := last + 1
		if before == syscall.SIGKILL {
			most = last + 1 + 2*batch
		}
		if first <= last || first > most {
			t.Fatalf("run %d: the first value is %d, want %d to %d", i, first, last+1, most)
		}
		last, before = first, signal
		for range 30 * (i + 1) {
			if v := c.must(t, "orders"); v != last+1 {
				t.Fatalf("%d after %d", v, last)
			} else {
				last = v
			}
		}
		if signal != 0 {
			p.end(t, signal)
			continue
		}
		if code, _, stderr := runName(dir, "raise", "orders", "1000000"); !raised(code, stderr) {
			t.Fatal(stderr)
		}
		await(t, "the daemon has learned of the raise", func() bool {
			last = c.must(t, "orders")
			return last >= 1000000
		})
		if last != 1000000 {
			t.Errorf("the first value after the raise is %d", last)
		}
	}
}

// Flickr's pair: each daemon has a directory of its own, one the odd values and one the even ones. One is killed.
func TestProcessTwoTicketServers(t *testing.T) {
	t.Parallel()
	seen := map[uint64]bool{}
	var daemons []*process
	var clients []*counting
	for offset := 1; offset <= 2; offset++ {
		p := start(t, "-worker-id", fmt.Sprint(offset), "-max-wait", "1m", "-state-dir", t.TempDir(), "-state-any-disk",
			"-generator", fmt.Sprintf("tickets sequence start=1000001 step=2 offset=%d", offset))
		daemons, clients = append(daemons, p), append(clients, countFrom(t, p))
	}
	take := func(i int) {
		v := clients[i].must(t, "tickets")
		if seen[v] || v%2 != uint64(1-i) || v < 1000001 {
			t.Fatalf("daemon %d: %d, seen before: %v", i, v, seen[v])
		}
		seen[v] = true
	}
	for n := range 2000 {
		take(n % 2)
	}
	daemons[0].end(t, syscall.SIGKILL)
	for range 1000 {
		take(1)
	}
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

// The disk has no room: what is there is overwritten, also by the next run.
func TestProcessSequenceFullDisk(t *testing.T) {
	t.Parallel()
	dir, _, _ := frozenDisk(t)
	args := []string{"-worker-id", "29", "-max-wait", "1m", "-state-dir", dir, "-generator", "orders sequence batch=10"}
	p := start(t, args...)
	c := countFrom(t, p)
	last := c.must(t, "orders")
	f, err := os.Create(filepath.Join(dir, "filler"))
	for size := 1 << 20; err == nil || size > 1; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
	f.Close()
	for run := range 2 {
		for range 200 {
			v := c.must(t, "orders")
			if v != last+1 {
				t.Fatalf("run %d: %d after %d", run, v, last)
			}
			last = v
		}
		p.end(t, syscall.SIGTERM)
		if run == 0 {
			p = start(t, args...)
			c = countFrom(t, p)
		}
	}
	if !strings.Contains(p.Logged(), "overwritten in place") {
		t.Error("the disk was not full")
	}
}
