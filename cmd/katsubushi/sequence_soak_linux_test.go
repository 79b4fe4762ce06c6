package main

import (
	"bufio"
	"bytes"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// TestProcessSequenceKillLoop asks one sequence for values in all dialects at once while the daemon is
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
		"kill: %d, or %.2f blocks; values by dialect: %v",
		c.seed, &c.seen, c.asking.Round(time.Second), c.lives, c.kills, c.raises, c.largest.Load(), c.worst, c.worstBlocks,
		c.perDialect)
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
	perDialect           [len(dialects)]uint64

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
	c.took(0, from, first, 1)
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
		if code, _, stderr := runCounters(c.dir, "raise", "orders",
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
	next := c.nextBlock(t)
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

func runCounters(dir string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append(append([]string{"name"}, args...), "-counters", "file://"+dir, "-state-any-disk"), variables{},
		&out, &errs)
	return code, out.String(), errs.String()
}

// nextBlock returns the first value that no daemon has.
func (c *takers) nextBlock(t *testing.T) uint64 {
	code, stdout, stderr := runCounters(c.dir, "show", "orders", "-json")
	var next uint64
	if _, err := fmt.Sscanf(stdout[max(0, bytes.Index([]byte(stdout), []byte(`"next"`))):], `"next":"%d"`,
		&next); code != exitOK || err != nil {
		t.Fatalf("%d %v %s %s", code, err, stdout, stderr)
	}
	return next
}

// took notes n values, of which the last is given, that were asked for when from was the largest.
func (c *takers) took(dialect int, from, last uint64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.perDialect[dialect] += uint64(n)
	first := last - uint64(n) + 1
	if first <= from || first > last {
		c.errs = append(c.errs,
			fmt.Errorf("%s got %d to %d, and %d had been received before it asked", dialects[dialect].name, first, last, from))
	}
	if c.seen.AddRun(first, 1, n) > 0 {
		c.errs = append(c.errs,
			fmt.Errorf("%s got %d to %d, of which some had been issued", dialects[dialect].name, first, last))
	}
	if c.largest.Load() < last {
		c.largest.Store(last)
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
	d := i % len(dialects)
	var request []byte
	for !stop.Load() {
		n := 1 + r.IntN(100)
		if r.IntN(4) > 0 {
			n = 100
		}
		request = dialects[d].request(request[:0], n)
		from := c.largest.Load()
		asked := dialects[d].values(n)
		if _, err := conn.Write(request); err == nil {
			var last uint64 // values in a row are noted at once
			var run int
			err = dialects[d].replies(in, n, func(v uint64, k int) {
				asked -= k
				if run > 0 && v-uint64(k) == last {
					last, run = v, run+k
					return
				}
				if run > 0 {
					c.took(d, from, last, run)
				}
				last, run = v, k
			})
			if run > 0 {
				c.took(d, from, last, run)
			}
			if err == nil {
				continue
			}
			var says said
			if errors.As(err, &says) {
				c.mu.Lock()
				c.errs = append(c.errs, fmt.Errorf("%s: %w", dialects[d].name, err))
				c.mu.Unlock()
				return
			}
		}
		c.mu.Lock()
		c.missed += uint64(asked)
		c.mu.Unlock()
		return
	}
}

// said is an answer that is no value.
type said string

func (s said) Error() string { return strconv.Quote(string(s)) }

// dialects are all ways to ask for about n values, and to read them: got is called with the last one of a
// range, and how many it has.
var dialects = [...]struct {
	name    string
	values  func(n int) int // how many a request asks for
	request func(b []byte, n int) []byte
	replies func(r *bufio.Reader, n int, got func(last uint64, n int)) error
}{
	{"get", same, func(b []byte, n int) []byte {
		return append(append(append(b, "get"...), bytes.Repeat([]byte(" orders"), n)...), "\r\n"...)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		return errors.Join(itemLines(r, n, "VALUE orders 0 ", got), wantLine(r, "END"))
	}},
	{"incr", same, func(b []byte, n int) []byte {
		return fmt.Appendf(b, "incr orders %d\r\n", n)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		return rangeLine(r, "", n, got)
	}},
	{"mg", same, func(b []byte, n int) []byte {
		return append(b, bytes.Repeat([]byte("mg orders v\r\n"), n)...)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		return itemLines(r, n, "VA ", got)
	}},
	{"binary", func(n int) int { return 2 * n }, func(b []byte, n int) []byte {
		for range n {
			b = append(binaryHeader(b, 0x09, 6, 0), "orders"...) // GETQ
		}
		b = binaryHeader(b, 0x05, 6, 20) // INCREMENT
		b = append(bigendian.BigEndian.AppendUint64(b, uint64(n)), make([]byte, 12)...)
		return append(b, "orders"...)
	}, binaryReplies},
	{"MGET", same, func(b []byte, n int) []byte {
		return append(fmt.Appendf(b, "*%d\r\n$4\r\nMGET\r\n", n+1), bytes.Repeat([]byte("$6\r\norders\r\n"), n)...)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		if err := wantLine(r, fmt.Sprintf("*%d", n)); err != nil {
			return err
		}
		return itemLines(r, n, "$", got)
	}},
	{"INCR", same, func(b []byte, n int) []byte {
		return append(b, bytes.Repeat([]byte("*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n"), n)...)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) (err error) {
		for i := 0; i < n && err == nil; i++ {
			err = rangeLine(r, ":", 1, got)
		}
		return err
	}},
	{"INCRBY", same, incrBy, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		return rangeLine(r, ":", n, got)
	}},
	{"MULTI", func(n int) int { return n + 2 }, func(b []byte, n int) []byte {
		b = append(b, "*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n"...)
		return append(incrBy(b, n), "*2\r\n$3\r\nGET\r\n$6\r\norders\r\n*1\r\n$4\r\nEXEC\r\n"...)
	}, func(r *bufio.Reader, n int, got func(uint64, int)) error {
		for _, want := range []string{"+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3"} {
			if err := wantLine(r, want); err != nil {
				return err
			}
		}
		if err := rangeLine(r, ":", 1, got); err != nil {
			return err
		}
		if err := rangeLine(r, ":", n, got); err != nil {
			return err
		}
		return itemLines(r, 1, "$", got)
	}},
}

func same(n int) int { return n }

func incrBy(b []byte, n int) []byte {
	s := strconv.Itoa(n)
	return fmt.Appendf(b, "*3\r\n$6\r\nINCRBY\r\n$6\r\norders\r\n$%d\r\n%s\r\n", len(s), s)
}

// oneLine reads one line.
func oneLine(r *bufio.Reader) ([]byte, error) {
	s, err := r.ReadSlice('\n')
	return bytes.TrimRight(s, "\r\n"), err
}

func wantLine(r *bufio.Reader, want string) error {
	s, err := oneLine(r)
	if err == nil && string(s) != want {
		err = said(s)
	}
	return err
}

// rangeLine reads a line with the last of n values.
func rangeLine(r *bufio.Reader, prefix string, n int, got func(uint64, int)) error {
	s, err := oneLine(r)
	if err != nil {
		return err
	}
	rest, ok := bytes.CutPrefix(s, []byte(prefix))
	v, ok2 := digits(rest)
	if !ok || !ok2 {
		return said(s)
	}
	got(v, n)
	return nil
}

// itemLines reads n values, each with a line before it.
func itemLines(r *bufio.Reader, n int, header string, got func(uint64, int)) error {
	for range n {
		s, err := oneLine(r)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(s, []byte(header)) {
			return said(s)
		}
		if err := rangeLine(r, "", 1, got); err != nil {
			return err
		}
	}
	return nil
}

func digits(s []byte) (v uint64, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, len(s) > 0 && len(s) < 19
}

// binaryHeader appends the header of a binary request.
func binaryHeader(b []byte, opcode byte, key, extras int) []byte {
	h := [24]byte{0: 0x80, 1: opcode, 3: byte(key), 4: byte(extras), 11: byte(key + extras)}
	return append(b, h[:]...)
}

// binaryReplies reads n values of GETQ, and the last of n others of INCREMENT.
func binaryReplies(r *bufio.Reader, n int, got func(uint64, int)) error {
	var h [24]byte
	var body [128]byte
	for i := range n + 1 {
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return err
		}
		size := int(bigendian.BigEndian.Uint32(h[8:]))
		if size > len(body) {
			return said(h[:])
		}
		if _, err := io.ReadFull(r, body[:size]); err != nil {
			return err
		}
		switch status := bigendian.BigEndian.Uint16(h[6:]); {
		case status == 0 && i == n && size == 8:
			got(bigendian.BigEndian.Uint64(body[:]), n)
		case status == 0 && i < n && size > 4:
			v, ok := digits(body[4:size])
			if !ok {
				return said(body[:size])
			}
			got(v, 1)
		default:
			return said(body[:size])
		}
	}
	return nil
}
