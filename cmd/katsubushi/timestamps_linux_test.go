package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
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
		from := c.largest.Load()
		values, err := askRedis(conn, in, timestamps, n)
		if errors.Is(err, strconv.ErrSyntax) {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
		if err != nil {
			return
		}
		c.took(from, values)
		got.Add(1)
	}
}

func (c *takers) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.errs) > 0
}

// A rising is the timestamps that clients take, ranges of them: each above all that was answered before it was asked
// for.
type rising struct{ last atomic.Uint64 }

// take asks for n in a row.
func (s *rising) take(conn net.Conn, in *bufio.Reader, n uint64) error {
	before := s.last.Load()
	fmt.Fprintf(conn, "incr %s %d\r\n", timestamps, n)
	says, _ := in.ReadString('\n')
	v, err := strconv.ParseUint(strings.TrimSpace(says), 10, 64)
	if err != nil || v-(n-1) <= before {
		return fmt.Errorf("%q after %d", says, before)
	}
	for was := s.last.Load(); v > was && !s.last.CompareAndSwap(was, v); was = s.last.Load() {
	}
	return nil
}

// ahead returns how far the largest is ahead of the clock.
func (s *rising) ahead() time.Duration {
	return time.Until(generator.Katsubushi().Decompose(s.last.Load()).Time)
}

// TestAMillionTimestampsASecond: one name issues as many for ten minutes, and its ids stay near the clock.
func TestAMillionTimestampsASecond(t *testing.T) {
	soakOnly(t)
	t.Parallel()
	const lasts, clients, inRow, every = 10 * time.Minute, 10, 1000, 10 * time.Millisecond
	p := start(t, "-worker-id", "1", "-counters", etcdtest.URL(t, etcdtest.Start(t)), "-max-wait", "1m",
		"-name", timestamps+" snowflake layout=katsubushi order=strict node=1023")
	var ids rising
	var farthest, answers atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			conn := dial(t, "tcp", p.Addr())
			defer conn.Close()
			conn.SetDeadline(began.Add(2 * lasts))
			in := bufio.NewReader(conn)
			for i := time.Duration(1); time.Since(began) < lasts; i++ {
				if err := ids.take(conn, in, inRow); err != nil {
					t.Error(err)
					return
				}
				answers.Add(1)
				ahead := int64(ids.ahead())
				for was := farthest.Load(); ahead > was && !farthest.CompareAndSwap(was, ahead); was = farthest.Load() {
				}
				time.Sleep(max(time.Until(began.Add(i*every)), every*4/5)) // a client that stood still makes up for it slowly
			}
		})
	}
	all.Wait()
	ahead := time.Duration(farthest.Load())
	rate := float64(answers.Load()*inRow) / time.Since(began).Seconds()
	t.Logf("%.0f ids a second, at most %v ahead of the clock", rate, ahead)
	if ahead > time.Second {
		t.Error("they are farther than a second")
	}
}

// TestTimestampsAfterAWrongClock: a daemon whose clock is ahead leads alone, so its ids are ahead too. When two with
// right clocks have come, it is not ready and leads no more. Under as many requests as there can be, its ids are less
// than a second from the clock again within ten times of what they were.
func TestTimestampsAfterAWrongClock(t *testing.T) {
	soakOnly(t)
	t.Parallel()
	const wrong = 20 * time.Second
	url := etcdtest.URL(t, etcdtest.Start(t))
	args := func(worker int) []string {
		return []string{"-worker-id", strconv.Itoa(worker), "-counters", url, "-max-wait", "1m",
			"-name", timestamps + " snowflake layout=katsubushi order=strict node=1023"}
	}
	var ids rising
	over, failed := make(chan struct{}), make(chan error, 100)
	var all sync.WaitGroup
	ask := func(p *process) { // for whole ticks, as fast as they are answered
		all.Go(func() {
			conn := dial(t, "tcp", p.Addr())
			defer conn.Close()
			for in := bufio.NewReader(conn); ; {
				select {
				case <-over:
					return
				default:
				}
				if err := ids.take(conn, in, 4096); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	first := startShifted(t, wrong, args(1)...)
	ask(first)
	await(t, "its ids are ahead", func() bool { return ids.ahead() > wrong-time.Second })
	right := []*process{start(t, args(2)...), start(t, args(3)...)}
	for _, p := range right {
		ask(p)
		ask(p)
	}
	await(t, "one with a right clock leads", func() bool {
		out, _ := exec.Command(binary, "name", "show", timestamps, "-json", "-counters", url).Output()
		return bytes.Contains(out, []byte(right[0].Addr())) || bytes.Contains(out, []byte(right[1].Addr()))
	})
	began, was := time.Now(), ids.ahead()
	for ids.ahead() >= time.Second && len(failed) == 0 {
		if time.Since(began) > 10*was {
			t.Fatalf("ids that were %v ahead are %v ahead after %v", was, ids.ahead(), time.Since(began))
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("ids that were %v ahead are within 1 s after %v", was, time.Since(began))
	close(over)
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
}
