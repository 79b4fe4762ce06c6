package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// An asker asks for one key at a time.
type asker struct {
	net.Conn
	r *bufio.Reader
}

func newAsker(t *testing.T, p *process) *asker {
	c := dial(t, "tcp", p.Addr())
	return &asker{c, bufio.NewReader(c)}
}

func (c *asker) ask(t *testing.T, key string) {
	t.Helper()
	if _, err := io.WriteString(c, "get "+key+"\r\n"); err != nil {
		t.Fatal(err)
	}
}

// answered returns why the request was refused, or "".
func (c *asker) answered(t *testing.T) string {
	t.Helper()
	var a answer
	if err := a.read(c.r); err != nil || a.strange != "" {
		t.Fatalf("%v %q", err, a.strange)
	}
	return a.refusal
}

// asked asks a daemon for a key, waits until it has counted that, and returns when it began.
func (c *asker) asked(t *testing.T, p *process, key, figure string) (at time.Time) {
	t.Helper()
	before := statistic(t, p.Addr(), figure)
	at = time.Now()
	c.ask(t, key)
	await(t, "the request waits: "+figure, func() bool { return statistic(t, p.Addr(), figure) != before })
	return at
}

// stoppedFor is how long processes are stopped here: for longer than -max-wait, and than a window is.
const stoppedFor = 2500 * time.Millisecond

// stands stops the process for that long, with what happens meanwhile, and returns when it went on.
func (p *process) stands(t *testing.T, meanwhile func()) time.Time {
	t.Helper()
	p.Pause(t)
	<-time.After(stoppedFor)
	meanwhile()
	at := time.Now()
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	return at
}

// servedWithin tries until a request that waited while the process stood still is served. It may be refused only if it
// has waited for about limit while the process ran: on a busy machine.
func servedWithin(t *testing.T, limit time.Duration, try func() (refusal string, ran time.Duration)) {
	t.Helper()
	for range 10 {
		refusal, ran := try()
		if refusal == "" {
			return
		}
		if ran < limit*4/5 {
			t.Fatalf("refused after %v in which the process ran: %s", ran, refusal)
		}
	}
	t.Log("this machine is too busy to tell")
}

// A window that ended meanwhile is extended first.
func TestProcessStandsStillWithoutRefusals(t *testing.T) {
	t.Parallel()
	p := start(t, append(inMemory(t), "-worker-id", "31")...)
	c := newAsker(t, p)
	servedWithin(t, 250*time.Millisecond, func() (string, time.Duration) {
		c.ask(t, "id")
		before := time.Now()
		if refusal := c.answered(t); refusal != "" {
			return refusal, time.Hour
		}
		p.Pause(t)
		c.ask(t, "id")
		ran := time.Since(before)
		went := p.stands(t, func() {})
		return c.answered(t), ran + time.Since(went)
	})
}

// A request for a strict sequence that waits for a block, or for the leader, goes on waiting.
func TestProcessStandsStillBesideStrictSequences(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	args := func(worker int) []string {
		return []string{"-counters", etcdtest.URL(t, m), "-worker-id", fmt.Sprint(worker),
			"-generator", "orders sequence order=strict batch=1"}
	}
	leader := start(t, args(1)...)
	led := newAsker(t, leader)
	await(t, "the first daemon leads", func() bool {
		led.ask(t, "orders")
		return led.answered(t) == "" && statistic(t, leader.Addr(), "leader_groups") == 16
	})
	follower := start(t, args(2)...)
	follows := newAsker(t, follower)
	await(t, "the second daemon follows", func() bool {
		follows.ask(t, "orders")
		return follows.answered(t) == "" && statistic(t, follower.Addr(), "forward_requests_total") != 0
	})
	servedWithin(t, time.Second, func() (string, time.Duration) {
		leader.Pause(t)
		asked := follows.asked(t, follower, "orders", "forward_requests_total")
		ran := time.Since(asked)
		went := follower.stands(t, func() {})
		leader.Resume(t)
		return follows.answered(t), ran + time.Since(went)
	})
	servedWithin(t, time.Second, func() (string, time.Duration) {
		m.Pause()
		before, asked, requests := statistic(t, leader.Addr(), "orders:waits"), time.Now(), 0
		await(t, "a request waits", func() bool { // the first ones have the values at hand
			led.ask(t, "orders")
			requests++
			return statistic(t, leader.Addr(), "orders:waits") != before
		})
		ran := time.Since(asked)
		went := leader.stands(t, m.Resume)
		refusal := ""
		for range requests {
			if why := led.answered(t); why != "" && refusal == "" {
				refusal, ran = why, ran+time.Since(went)
			}
		}
		return refusal, ran
	})
}
