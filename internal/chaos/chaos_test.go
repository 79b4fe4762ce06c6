//go:build chaos && linux

package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/internal/redistest"
)

const (
	lease   = 6 * time.Second
	skew    = 200 * time.Millisecond
	epsilon = 2*skew + time.Second
	workers = 8 // for six lanes: what one daemon loses, another one soon has
)

// fleet is the lanes of each daemon.
var fleet = []int{1, 2, 1, 2}

// A world is all there is. One goroutine, the test's, lets the faults happen.
type world struct {
	t        testing.TB
	rand     *rand.Rand
	began    time.Time
	redis    *set
	daemons  []*daemon
	refusing map[*daemon]bool // whose proxy is to refuse connections
	census   census
	done     chan struct{} // ends the clients
	story    []string
	counts   map[string]int
	heals    []heal // to come
}

type heal struct {
	at time.Time
	do func()
}

func TestChaos(t *testing.T) {
	minutes, err := strconv.ParseFloat(or(os.Getenv("KATSUBUSHI_CHAOS_MINUTES"), "3"), 64)
	if err != nil {
		t.Fatal("KATSUBUSHI_CHAOS_MINUTES: ", err)
	}
	seed, err := strconv.ParseUint(or(os.Getenv("KATSUBUSHI_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal("KATSUBUSHI_SEED: ", err)
	}
	length := time.Duration(minutes * float64(time.Minute))
	t.Logf("KATSUBUSHI_SEED=%d KATSUBUSHI_CHAOS_MINUTES=%v", seed, minutes)
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), redis: newSet(t), refusing: map[*daemon]bool{}, done: make(chan struct{}), counts: map[string]int{}}
	w.launch(t)
	var clients sync.WaitGroup
	w.began = time.Now()
	for _, d := range w.daemons {
		d.seen.last = w.began
		for range clientsEach {
			clients.Go(func() { w.client(d) })
		}
	}
	w.run(length)
	w.recover()
	close(w.done)
	clients.Wait()
	w.verdict()
	for _, d := range w.daemons {
		d.end(syscall.SIGTERM)
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// launch makes the pool and starts the fleet.
func (w *world) launch(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "katsubushi")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/katsubushi").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pool := func(addr string) []string {
		return []string{"-redis", "redis://" + addr + "/0?ns=chaos", "-max-skew", skew.String(), "-lease", lease.String(), "-min-worker-id", "1", "-max-worker-id", strconv.Itoa(workers)}
	}
	if out, err := exec.Command(binary, append([]string{"lease", "init"}, pool(w.redis.master.Addr())...)...).CombinedOutput(); err != nil {
		t.Fatalf("lease init: %v\n%s", err, out)
	}
	for i, lanes := range fleet {
		d := &daemon{t: t, name: fmt.Sprintf("daemon %d", i+1), proxy: redistest.NewProxy(t, w.redis.master.Addr())}
		// A pool that was emptied while nobody held anything is made again, under the floor.
		d.args = append([]string{binary, "-bind", "127.0.0.1", "-port", "0", "-log-format", "json", "-claim", "off", "-lease-auto-init", "-lanes", strconv.Itoa(lanes)}, pool(d.proxy.Addr())...)
		d.start()
		w.daemons = append(w.daemons, d)
		t.Cleanup(func() {
			d.cmd.Process.Kill()
			<-d.exited
			if t.Failed() {
				t.Logf("%s logged last:\n%s", d.name, d.tail(80))
			}
		})
	}
	for _, d := range w.daemons {
		redistest.Until(t, d.name+" listens", func() bool { return d.addr.Load() != nil })
	}
}

// run lets faults happen for so long: one every second or two, each to a daemon or to Redis that has none, so that several overlap.
func (w *world) run(length time.Duration) {
	next := w.began
	for now := w.began; now.Sub(w.began) < length; now = time.Now() {
		w.follow()
		w.heal(now)
		if now.After(next) {
			next = now.Add(time.Duration(w.rand.Int64N(int64(3 * time.Second))))
			w.strike(now)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// strike begins one fault.
func (w *world) strike(now time.Time) {
	f, d := daemonFaults[w.rand.IntN(len(daemonFaults))], w.daemons[w.rand.IntN(len(w.daemons))]
	onRedis := w.rand.IntN(4) == 0
	if onRedis {
		f = redisFaults[w.rand.IntN(len(redisFaults))]
	}
	lasts := time.Duration(w.rand.Int64N(int64(f.lasts) + 1))
	if onRedis && (w.redis.busy || !w.redis.whole()) || !onRedis && d.busy {
		return
	}
	busy, where := &w.redis.busy, "Redis"
	if !onRedis {
		busy, where = &d.busy, d.name
	}
	w.counts[f.name]++
	w.note("%s: %s, for %v", where, f.name, lasts.Round(time.Millisecond))
	if end := f.on(w, d); end != nil {
		*busy = true
		w.heals = append(w.heals, heal{now.Add(lasts), func() {
			end()
			*busy = false
			w.note("%s: over: %s", where, f.name)
		}})
	}
}

// heal ends the faults whose time has come.
func (w *world) heal(now time.Time) {
	due := w.heals
	w.heals = nil
	for _, h := range due {
		if h.at.After(now) {
			w.heals = append(w.heals, h)
		} else {
			h.do()
		}
	}
}

// recover ends all faults, and waits until every daemon serves again. The wait is generous, since the machine may be busy; how long it
// really took is told.
func (w *world) recover() {
	w.heal(time.Now().Add(time.Hour))
	healed := time.Now()
	w.note("all faults are over")
	for missing := slices.Clone(w.daemons); len(missing) > 0; time.Sleep(20 * time.Millisecond) {
		w.follow()
		missing = slices.DeleteFunc(missing, func(d *daemon) bool {
			took := time.Since(healed).Round(time.Millisecond)
			resumed, serves := d.seen.servesSince(healed.Add(lease)) // by then a window from before has ended
			switch {
			case serves:
				w.note("%s serves for good since %v after the end of all faults", d.name, max(0, resumed.Sub(healed)).Round(time.Millisecond))
			case took > patience:
				w.t.Errorf("%s does not serve again, %v after the end of all faults", d.name, took)
			default:
				return false
			}
			return true
		})
	}
}

// patience is how long a daemon may take to serve again: a lease and epsilon are for what Redis has forgotten, the rest is for the machine.
const patience = 3 * (lease + epsilon)

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8.3f s  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// verdict prints what there was, and fails the test if it was a duplicate. The clients have ended.
func (w *world) verdict() {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "FAULT\tTIMES\n")
	total := 0
	for _, name := range slices.Sorted(maps.Keys(w.counts)) {
		fmt.Fprintf(table, "%s\t%d\n", name, w.counts[name])
		total += w.counts[name]
	}
	fmt.Fprintf(table, "all\t%d\nfail-overs by Sentinel\t%d\n\n", total, w.redis.failovers)
	fmt.Fprintf(table, "DAEMON\tLANES\tIDS\tREFUSALS\tREFUSED\tUNREACHABLE\tLONGEST GAP\n")
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	for i, d := range w.daemons {
		s := &d.seen
		s.mu.Lock()
		s.close(time.Now())
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%v\t%v\t%v\n", d.name, fleet[i], s.ids, s.refusals, ms(s.refused), ms(s.unreachable), ms(s.longest))
		s.mu.Unlock()
	}
	table.Flush()
	c := &w.census
	w.t.Logf("%v of chaos and recovery\n%s\n%v", ms(time.Since(w.began)), &b, &c.ids)
	if c.ids.Duplicates() != 0 {
		w.t.Errorf("%v:\n%s", &c.ids, strings.Join(c.twice, "\n"))
	}
	if err := c.ids.Plant(); err != nil {
		w.t.Error(err)
	}
	w.t.Logf("what happened when:\n%s", strings.Join(w.story, "\n"))
}
