package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A census counts every id that the daemons of a test issue, over all their runs.
type census struct {
	lanes    int  // of the daemon: with more than one, ids on one connection need not increase
	hasty    bool // clients do not wait after an answer
	mu       sync.Mutex
	ids      unique.Set
	began    time.Time // of the first load
	min, max uint64
	runMin   uint64         // the smallest since newRun
	refusals map[string]int // SERVER_ERROR texts
}

func (c *census) add(ids []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.ids.Len() == 0 {
			c.min, c.runMin = id, id
		}
		c.min, c.runMin, c.max = min(c.min, id), min(c.runMin, id), max(c.max, id)
		c.ids.Add(id)
	}
}

// newRun is the largest id so far. All that are issued from now on should lie above it: runMin is
// the smallest of them.
func (c *census) newRun() (largest uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runMin = math.MaxUint64
	return c.max
}

func (c *census) refused(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == nil {
		c.refusals = map[string]int{}
	}
	c.refusals[text]++
}

// verdict prints what was found, fails the test if it was a duplicate, and shows that a planted one
// would have been.
func (c *census) verdict(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Log(c.ids.String())
	if c.ids.Duplicates() != 0 {
		t.Errorf("%v", &c.ids)
	}
	if err := c.ids.Plant(); err != nil {
		t.Error(err)
	}
	if len(c.refusals) > 0 {
		t.Logf("refused: %v", c.refusals)
	}
}

// issuedBetween checks the times in all ids against the machine's clock: the daemon's excursions
// have left no trace in them.
func (c *census) issuedBetween(t *testing.T, began time.Time) {
	t.Helper()
	first, last := generator.Katsubushi().Decompose(c.min).Time, generator.Katsubushi().Decompose(c.max).Time
	if first.Before(began.Add(-time.Second)) || last.After(time.Now().Add(3*time.Second)) {
		t.Errorf("ids of %v to %v", first, last)
	}
}

// noneRefused is for tests in which every request must have been answered with ids. A daemon on a
// machine that stood still could not have known that its window was about to end.
func (c *census) noneRefused(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refusals) == 0 {
		return
	}
	if still := stoodStill.since(c.began); still > time.Second/2 {
		if c.ids.Duplicates() != 0 {
			t.Errorf("%v", &c.ids)
		}
		t.Skipf("refused: %v, on a machine that stood still for %v", c.refusals, still)
	}
	t.Errorf("refused: %v", c.refusals)
}

// A standstill notes when this process could not run, though it wanted to.
type standstill struct {
	mu   sync.Mutex
	late map[time.Time]time.Duration
}

var stoodStill standstill // of this machine, as far as the tests notice

// run looks at the clock a hundred times a second.
func (w *standstill) run() {
	const pause = 10 * time.Millisecond
	for {
		before := time.Now()
		time.Sleep(pause)
		if late := time.Since(before) - pause; late > time.Second/4 {
			w.mu.Lock()
			w.late[before] = late
			w.mu.Unlock()
		}
	}
}

// since returns the longest time that the process has stood still since then.
func (w *standstill) since(began time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, late := range w.late {
		if at.Add(late).After(began) {
			longest = max(longest, late)
		}
	}
	return longest
}

// pace is how long a client waits after an answer: it only has to notice what happens.
const pace = 10 * time.Millisecond

// A load is clients that ask one daemon for ids, for one id and for several in turn, each on its own connection.
type load struct {
	census  *census
	t       *testing.T
	stopped atomic.Bool
	taken   atomic.Int64
	newest  atomic.Uint64 // id, or one that came shortly before
	refused atomic.Int64  // answers
	cut     atomic.Int64  // clients whose connection failed
	clients sync.WaitGroup
}

func (c *census) load(t *testing.T, addr string, clients, keys int) *load {
	t.Helper()
	l := &load{census: c, t: t}
	if c.began.IsZero() {
		c.began = time.Now()
	}
	t.Cleanup(l.clients.Wait)
	for range clients {
		conn := dial(t, "tcp", addr) // closed at the end of the test, before the above
		l.clients.Go(func() { l.client(conn, keys) })
	}
	return l
}

func (l *load) client(conn net.Conn, keys int) {
	lines := [2][]byte{[]byte("get id\r\n"), []byte("get" + strings.Repeat(" id", keys) + "\r\n")}
	r := bufio.NewReaderSize(conn, 64<<10)
	var last uint64
	var a answer
	for i := 0; !l.stopped.Load(); i++ {
		_, err := conn.Write(lines[i%2])
		if err == nil {
			err = a.read(r)
		}
		l.census.add(a.ids)
		for _, id := range a.ids {
			if id <= last && l.census.lanes == 1 {
				l.t.Errorf("id %d came after %d on one connection", id, last)
			}
			last = id
		}
		l.newest.Store(last)
		l.taken.Add(int64(len(a.ids)))
		if a.refusal != "" {
			l.refused.Add(1)
			l.census.refused(a.refusal)
			time.Sleep(time.Millisecond) // a client that was refused does not storm
		}
		if !l.census.hasty {
			time.Sleep(pace)
		}
		if a.strange != "" {
			l.t.Errorf("the daemon answered %q", a.strange)
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			conn.Close()
			l.cut.Add(1)
			return
		}
		a = answer{ids: a.ids[:0]}
	}
}

// An answer is what a get was answered, as far as it came: ids, perhaps a SERVER_ERROR, or a line
// that should not be there.
type answer struct {
	ids              []uint64
	refusal, strange string
}

func (a *answer) read(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(line, []byte("VALUE ")):
			if line, err = r.ReadSlice('\n'); err != nil {
				return err
			}
			id, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
			if err != nil {
				a.strange = string(line)
				return nil
			}
			a.ids = append(a.ids, id)
		case string(line) == "END\r\n":
			return nil
		case bytes.HasPrefix(line, []byte("SERVER_ERROR ")):
			a.refusal = strings.TrimSpace(string(line))
			return nil
		default:
			a.strange = string(line)
			return nil
		}
	}
}

// awaitMore waits until the clients were given n more ids.
func (l *load) awaitMore(t *testing.T, n int64) {
	t.Helper()
	target := l.taken.Load() + n
	await(t, fmt.Sprintf("%d more ids", n), func() bool { return l.taken.Load() >= target || l.cut.Load() > 0 })
	if l.cut.Load() > 0 {
		t.Fatal("a connection was cut")
	}
}

// finish ends the clients, none of whose connections may have been cut.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stopped.Store(true)
	l.clients.Wait()
	if n := l.cut.Load(); n > 0 {
		t.Errorf("%d connections were cut", n)
	}
}

// kill kills the daemon with SIGKILL while the clients are at it, and waits until they have read
// what it had sent.
func (l *load) kill(p *process) {
	p.Kill()
	l.clients.Wait()
}

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

// statistic asks for a number, on a connection of its own.
func statistic(t *testing.T, addr, name string) int64 {
	t.Helper()
	return statisticOf(t, "tcp", addr, name)
}

// statisticOf is statistic, also on a unix socket, and also of one of `stats generators`.
func statisticOf(t *testing.T, network, addr, name string) int64 {
	t.Helper()
	conn := dial(t, network, addr)
	defer conn.Close()
	io.WriteString(conn, "stats\r\nstats generators\r\nquit\r\n")
	for s := bufio.NewScanner(conn); s.Scan(); {
		if value, found := strings.CutPrefix(s.Text(), "STAT "+name+" "); found {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("stats has no %s", name)
	return 0
}
