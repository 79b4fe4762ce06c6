package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// TestProcessTimestampsKillLoop kills the one daemon of a directory while clients take ids in a row. Each life begins
// beyond what the one before had recorded, so ahead of the clock. It serves all the same, nothing twice and nothing
// smaller, and the record does not run away.
func TestProcessTimestampsKillLoop(t *testing.T) {
	t.Parallel()
	const lives, clients, perLife = 6, 6, 300
	c, layout := takers{dir: t.TempDir()}, generator.Katsubushi()
	for life := range lives {
		p := start(t, "-worker-id", "1", "-counters", "file://"+c.dir, "-state-any-disk", "-max-wait", "1m", "-name",
			timestamps+" snowflake layout=katsubushi order=strict node=1023")
		var got atomic.Int64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() { c.inARow(p, &got, rand.New(rand.NewPCG(uint64(life), uint64(i)))) })
		}
		await(t, fmt.Sprintf("life %d serves", life), func() bool { return got.Load() >= perLife || c.failed() })
		p.end(t, syscall.SIGKILL)
		all.Wait()
		for _, err := range c.errs {
			t.Fatalf("life %d: %v", life, err)
		}
		// What is granted ahead, the run-ahead, and what a kill adds.
		ahead := time.Until(layout.Decompose(c.largest.Load()).Time)
		if ahead > 5*time.Second {
			t.Fatalf("life %d: ids are %v ahead of the clock", life, ahead)
		}
		t.Logf("life %d: %v, %v ahead", life, &c.seen, ahead.Round(time.Millisecond))
	}
}

// inARow takes timestamps in a row until the daemon has gone.
func (c *takers) inARow(p *process, got *atomic.Int64, r *rand.Rand) {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // killed already
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		n := []int{1, 1 + r.IntN(4096), 4096}[r.IntN(3)]
		from, by := c.largest.Load(), strconv.Itoa(n)
		fmt.Fprintf(conn, "*3\r\n$6\r\nINCRBY\r\n$2\r\n%s\r\n$%d\r\n%s\r\n", timestamps, len(by), by)
		says, err := oneLine(in)
		if err != nil {
			return
		}
		last, err := strconv.ParseUint(string(says[1:]), 10, 64)
		if says[0] != ':' || err != nil {
			c.mu.Lock()
			c.errs = append(c.errs, said(says))
			c.mu.Unlock()
			return
		}
		c.took(0, from, last, n)
		got.Add(1)
	}
}

func (c *takers) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.errs) > 0
}
