package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// TestProcessSequenceKillLoop asks one sequence for values in both protocols at once while the daemon is
// killed, stopped and restarted again and again and an operator raises the sequence. No value may come twice; each
// request gets larger values than all that were received before it was sent; a clean stop leaves no gap, and
// a kill at most two blocks and what was on its way to clients. KATSUBUSHI_SOAK=1 takes 100 million
// values from 64 connections. KATSUBUSHI_SEED repeats a plan.
func TestProcessSequenceKillLoop(t *testing.T) {
	t.Parallel()
	c := takers{conns: 8, dir: t.TempDir(), seed: rand.Uint64()}
	values, life := uint64(200_000), uint64(40_000)
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		c.conns, values, life = 64, 100_000_000, 4_000_000
	}
	if s := os.Getenv("KATSUBUSHI_SEED"); s != "" {
		var err error
		if c.seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(c.seed, 0))
	for c.seen.Len() < values {
		plan := drawLife(r, life)
		switch c.lives { // a short run has a kill and a clean stop too
		case 1:
			plan = soakedLife{Batch: 5000, Values: life / 2}
		case 2:
			plan = soakedLife{Batch: 5000, Values: life / 2, Stop: true}
		}
		c.live(t, r.Uint64(), plan)
		if t.Failed() {
			t.Fatalf("KATSUBUSHI_SEED=%d: life %d, %+v", c.seed, c.lives, plan)
		}
	}
	if err := c.seen.Plant(); err != nil {
		t.Error(err)
	}
	t.Logf("KATSUBUSHI_SEED=%d: %v in %v of asking, %d lives, %d kills, %d raises, largest value %d; most lost by a "+
		"kill: %d, or %.2f blocks",
		c.seed, &c.seen, c.asking.Round(time.Second), c.lives, c.kills, c.raises, c.largest.Load(), c.worst, c.worstBlocks)
}

// A soakedLife is one run of the daemon, drawn from the seed.
type soakedLife struct {
	Batch  uint64 // 0 = adaptive
	Values uint64 // after so many it ends
	Stop   bool   // by SIGTERM when all clients have their answers, not by SIGKILL
	Raise  uint64 // half-way the sequence is raised by so much; 0 = it is not
}

func drawLife(r *rand.Rand, values uint64) soakedLife {
	l := soakedLife{Batch: []uint64{0, 1000, 10_000, 100_000}[r.IntN(4)], Values: values/4 + r.Uint64N(values),
		Stop: r.IntN(4) == 0}
	if r.IntN(4) == 0 {
		l.Raise = 1 + r.Uint64N(1_000_000)
	}
	return l
}

// takers are all clients and what they got.
type takers struct {
	conns                int
	dir                  string
	seed                 uint64
	lives, kills, raises int
	asking               time.Duration
	worst                uint64 // most values that a kill lost
	worstBlocks          float64

	largest atomic.Uint64 // value that anybody has received

	mu     sync.Mutex
	seen   unique.Set
	before uint64 // values expected up to the end of the last life; 0 = a raise or a kill lies between
	missed uint64 // asked for in this life and not received
	errs   []error
}

// live runs the daemon once.
func (c *takers) live(t *testing.T, seed uint64, plan soakedLife) {
	c.lives++
	definition := "orders sequence"
	if plan.Batch > 0 {
		definition = fmt.Sprintf("orders sequence batch=%d", plan.Batch)
	}
	p := start(t, "-worker-id", "1", "-counters", "file://"+c.dir, "-state-any-disk", "-max-wait", "1m", "-generator",
		definition)
	from, had := c.largest.Load(), c.seen.Len()
	// The first value of a life is known, so that the values of the life before can be counted.
	first := countFrom(t, p).must(t, "orders")
	c.took(from, []uint64{first})
	if c.before != 0 && first != c.before {
		t.Errorf("after a clean stop the first value is %d, want %d", first, c.before)
	}
	c.missed = 0
	began, goal := time.Now(), had+plan.Values
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range c.conns {
		all.Go(func() { c.client(p, &stop, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	got := func() uint64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.errs) > 0 {
			return goal
		}
		return c.seen.Len()
	}
	progress := func(until uint64) {
		for have := got(); have < until; {
			last := have
			await(t, "clients get values", func() bool {
				have = got()
				return have > last
			})
		}
	}
	progress(had + plan.Values/2)
	if plan.Raise > 0 {
		c.raises++
		if code, _, stderr := runNameIn("file://"+c.dir, "raise", "orders",
			fmt.Sprint(c.largest.Load()+10_000_000+plan.Raise)); !raised(code, stderr) {
			t.Error(stderr)
		}
	}
	progress(goal)
	if !plan.Stop {
		c.kills++
		p.end(t, syscall.SIGKILL)
	}
	stop.Store(true)
	all.Wait()
	c.asking += time.Since(began)
	if plan.Stop {
		p.end(t, syscall.SIGTERM)
	}
	for _, err := range c.errs {
		t.Error(err)
	}
	c.account(t, plan, first, c.seen.Len()-had)
}

// account compares the values of a life with the record: nothing may be missing but what a kill may lose.
func (c *takers) account(t *testing.T, plan soakedLife, first, got uint64) {
	next := nextOf(t, "file://"+c.dir, "orders")
	c.before = 0
	if plan.Stop {
		c.before = next
		if largest := c.largest.Load(); next != largest+1 && plan.Raise == 0 {
			t.Errorf("after a clean stop %d is next, and the largest value was %d", next, largest)
		}
	}
	if plan.Raise > 0 {
		return
	}
	lost := next - first - got
	switch {
	case plan.Stop && lost != 0:
		t.Errorf("%d of the values from %d to %d were issued to nobody", lost, first, next-1)
	case plan.Stop:
		return
	}
	lost -= min(lost, c.missed)
	block := plan.Batch
	if block == 0 {
		block = 10_000_000 // the largest that a daemon chooses
	} else {
		c.worstBlocks = max(c.worstBlocks, float64(lost)/float64(block))
	}
	c.worst = max(c.worst, lost)
	if lost > 2*block {
		t.Errorf("a kill lost %d values, blocks had %d", lost, block)
	}
}

// took notes values that were asked for when from was the largest.
func (c *takers) took(from uint64, values []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range values {
		if v <= from {
			c.errs = append(c.errs, fmt.Errorf("got %d, and %d had been received before it asked", v, from))
		}
		if !c.seen.Add(v) {
			c.errs = append(c.errs, fmt.Errorf("%d came twice", v))
		}
		if c.largest.Load() < v {
			c.largest.Store(v)
		}
	}
}

// client asks until stop, or until the daemon has gone.
func (c *takers) client(p *process, stop *atomic.Bool, i int, r *rand.Rand) {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // killed already
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	in := bufio.NewReaderSize(conn, 64<<10)
	ask := askMemcached
	if i%2 == 1 {
		ask = askRedis
	}
	for !stop.Load() {
		n := 1 + r.IntN(100)
		if r.IntN(4) > 0 {
			n = 100
		}
		from := c.largest.Load()
		values, err := ask(conn, in, "orders", n)
		c.took(from, values)
		if err == nil {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.missed += uint64(n - len(values))
		if errors.Is(err, strconv.ErrSyntax) { // it says something else
			c.errs = append(c.errs, err)
		}
		return
	}
}

// askMemcached asks for n values one by one, in one line. It returns those that came, and a strconv.ErrSyntax if the
// answer is none.
func askMemcached(conn net.Conn, in *bufio.Reader, name string, n int) (values []uint64, err error) {
	io.WriteString(conn, "get"+strings.Repeat(" "+name, n)+"\r\n")
	var a answer
	err = a.read(in)
	if err == nil && len(a.ids) < n {
		err = fmt.Errorf("%w: %d values, and %q", strconv.ErrSyntax, len(a.ids), a.refusal+a.strange)
	}
	return a.ids, err
}

// askRedis is askMemcached for n values in a row, of which only the last is told.
func askRedis(conn net.Conn, in *bufio.Reader, name string, n int) (values []uint64, err error) {
	by := strconv.Itoa(n)
	fmt.Fprintf(conn, "*3\r\n$6\r\nINCRBY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(name), name, len(by), by)
	says, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	last, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(says), ":"), 10, 64)
	for left := uint64(n); err == nil && left > 0; left-- {
		values = append(values, last-left+1)
	}
	return values, err
}
