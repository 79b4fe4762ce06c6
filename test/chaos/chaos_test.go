//go:build chaos && linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

const (
	lease   = 6 * time.Second
	skew    = 200 * time.Millisecond
	epsilon = 2*skew + time.Second

	// How long may be waited, after the last fault, until there is one master that has all its
	// replicas, and from then on until every daemon serves. Sentinels take some 20 s to notice that
	// a former master came back; a lease and epsilon are for what the servers have forgotten, a minute
	// is for a clock that is half a second off, which is brought back by 5 ms a second, and the
	// rest is for the machine. How long it really took is told.
	patienceServers = 2 * time.Minute
	patienceDaemons = 3*(lease+epsilon) + time.Minute
)

// lanesOf reads the fleet: the lanes of each daemon, separated by commas. There is one worker id
// for each lane, so that what one daemon loses, another one soon has.
func lanesOf(fleet string) (lanes []int, workers int, err error) {
	for s := range strings.SplitSeq(fleet, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 64 {
			return nil, 0, fmt.Errorf("KATSUBUSHI_CHAOS_LANES: %q: 1 to 64 lanes for each daemon, separated by commas", fleet)
		}
		lanes, workers = append(lanes, n), workers+n
	}
	if len(lanes) < 2 {
		return nil, 0, fmt.Errorf("KATSUBUSHI_CHAOS_LANES: %q: at least two daemons", fleet)
	}
	return lanes, workers, nil
}

// A world is all there is. One goroutine, the test's, lets the faults happen.
type world struct {
	t       testing.TB
	rand    *rand.Rand
	seed    uint64
	length  time.Duration
	began   time.Time
	servers servers
	redis   *set      // or nil
	members *ensemble // or nil
	files   *files    // or nil
	daemons []*daemon
	census  census
	done    chan struct{} // ends the clients

	ofDaemons, ofServers pack
	heals                []heal          // to come
	struck               map[string]bool // what has a fault and is spared others of that kind

	story  []string
	counts map[string]int
	lease  func(args ...string) // runs `katsubushi lease`
}

// theServers is who has the faults that no daemon has.
const theServers = "the servers"

// Servers are where the fleet's worker ids come from.
type servers interface {
	title() string
	// missing says why the next server may not fail yet; empty: all are there, and in sync.
	missing() string
	// pool returns the flags of the pool, straight to the servers.
	pool() []string
	// connect gives a daemon its ways to the servers, and returns the flags that lead over them.
	connect(d *daemon) []string
	// follow learns what has become of the servers, and doors shuts and opens the daemons' ways.
	follow(w *world)
	doors(w *world)
}

// A heal ends a fault, or goes on to its next stage: then it says how long that lasts.
type heal struct {
	at time.Time
	do func() (more time.Duration)
}

func TestChaos(t *testing.T) {
	length, seed := settingsOf(t)
	chaos(t, length, seed, settings[seed%uint64(len(settings))], versions(t), "1,2,1,2")
}

// TestLibrary: two daemons and four programs that issue ids themselves, over each kind of store, and over state
// directories. The seed chooses which one of a kind.
func TestLibrary(t *testing.T) {
	if os.Getenv("KATSUBUSHI_CHAOS_LIBRARY") != "1" {
		t.Skip("make chaos-library runs it")
	}
	length, seed := settingsOf(t)
	builds, ids := versions(t), uint64(0)
	for _, kind := range []string{"", "etcd", "ZooKeeper", "files"} {
		t.Run(or(kind, "Redis"), func(t *testing.T) {
			some := slices.DeleteFunc(slices.Concat(settings, fileSettings), func(s setting) bool { return s.kind != kind })
			ids += chaos(t, length, seed, some[seed%uint64(len(some))], builds, "1,2,1,1,2,1")
		})
	}
	t.Logf("%d ids in all", ids)
}

// roleOf is what the i-th of a fleet runs: all builds in turn, or always the same if one of them is the library.
func roleOf(builds []version, i int) (versions []version, first int) {
	switch {
	case !builds[len(builds)-1].library:
		return builds, i % len(builds)
	case i%3 == 0:
		return builds[:1], 0
	}
	return builds[1:], 0
}

// chaos lets faults happen to a fleet. It returns how many ids there were.
func chaos(t *testing.T, length time.Duration, seed uint64, of setting, builds []version, fleet string) uint64 {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, length: length,
		done: make(chan struct{}), counts: map[string]int{}, struck: map[string]bool{},
	}
	can := func(all []fault) []fault {
		return slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return f.unless != nil && f.unless(of) })
	}
	t.Logf("KATSUBUSHI_SEED=%d, for %v\n%s", seed, length, of.name)
	switch w.ofDaemons.drawn = can(daemonFaults); of.kind {
	case "":
		w.redis = newSet(t, of)
		w.servers, w.ofServers.drawn = w.redis, can(redisFaults)
	case "files":
		w.files = newFiles(t, of)
		w.servers, w.ofDaemons.drawn = w.files, append(w.ofDaemons.drawn, can(fileFaults)...)
	default:
		w.members = newEnsemble(t, of)
		w.servers, w.ofServers.drawn = w.members, can(ensembleFaults)
	}
	lanes, workers, err := lanesOf(or(os.Getenv("KATSUBUSHI_CHAOS_LANES"), fleet))
	if err != nil {
		t.Fatal(err)
	}
	w.launch(t, builds, lanes, workers)
	var clients sync.WaitGroup
	w.began = time.Now()
	for _, d := range w.daemons {
		d.seen.last, d.seen.heard = w.began, w.began
		for range clientsEach {
			clients.Go(func() { w.client(d) })
		}
	}
	w.run()
	w.recover()
	close(w.done)
	clients.Wait()
	w.verdict()
	for _, d := range w.daemons {
		d.end(syscall.SIGTERM)
	}
	return w.census.ids.Len()
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// launch makes the pool and starts the fleet, each host with a clock that is a little off.
func (w *world) launch(t *testing.T, builds []version, fleet []int, workers int) {
	if w.members != nil {
		workers += spare
	}
	pool := func(flags []string) []string {
		if w.files != nil {
			return flags
		}
		return append(flags, "-max-skew", skew.String(), "-lease", lease.String(), "-min-worker-id", "1", "-max-worker-id",
			strconv.Itoa(workers))
	}
	w.lease = func(args ...string) {
		t.Helper()
		redistest.Until(t, "the pool answers", func() bool {
			out, err := exec.Command(builds[0].path, slices.Concat([]string{"lease"}, args, pool(w.servers.pool()))...).
				CombinedOutput()
			if err != nil && !strings.Contains(string(out), "no answer from") { // on a busy machine
				t.Fatalf("lease %v: %v\n%s", args, err, out)
			}
			return err == nil
		})
	}
	args := []string{"-bind", "127.0.0.1", "-port", "0", "-log-format", "json"}
	if w.files == nil {
		w.lease("init", "-how", "new")
		// A pool that was emptied while nobody held anything is made again, under the floor.
		args = append(args, "-claim", "off", "-lease-auto-init")
	}
	for i, lanes := range fleet {
		d := &daemon{t: t, name: fmt.Sprintf("daemon %d", i+1), lanes: lanes, off: w.between(-skew/2, skew/2)}
		d.versions, d.first = roleOf(builds, i)
		d.args = slices.Concat(args, pool(w.servers.connect(d)))
		if w.files == nil {
			d.args = append(d.args, "-lanes", strconv.Itoa(lanes))
		}
		w.daemons = append(w.daemons, d)
		d.cleanUp()
	}
	w.servers.doors(w)
	for _, d := range w.daemons {
		d.start()
	}
	for _, d := range w.daemons {
		redistest.Until(t, d.name+" listens", func() bool { return d.at.Load() != nil })
	}
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)+1))
}

// run lets faults happen: one every two seconds, each to a part of the world that has none of its
// kind, so that several overlap. A duplicate ends it.
func (w *world) run() {
	next := w.began
	for now := w.began; now.Sub(w.began) < w.length && !w.census.repeated(); now = time.Now() {
		w.servers.follow(w)
		w.heal(now)
		if now.After(next) {
			next = now.Add(w.between(0, 4*time.Second))
			w.strike(now)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// strike begins one fault. Short ones are likelier than long ones.
func (w *world) strike(now time.Time) {
	d, where, pack := w.daemons[w.rand.IntN(len(w.daemons))], theServers, &w.ofServers
	if w.rand.IntN(4) == 0 {
		d = nil
	} else {
		where, pack = d.name, &w.ofDaemons
	}
	share := w.rand.Float64()
	intact := sync.OnceValue(func() bool { return w.servers.missing() == "" })
	f := w.draw(pack, func(f fault) bool { return !w.struck[where+": "+f.part] && (f.part != server || intact()) })
	if f == nil {
		return
	}
	if f.whole {
		share = 1
	}
	part, lasts := where+": "+f.part, time.Duration(float64(f.lasts)*share*share).Round(time.Millisecond)
	w.counts[f.name]++
	w.note("%s: %s, for %v", where, f.name, lasts)
	end := f.on(w, d)
	if end == nil {
		return
	}
	w.struck[part] = true
	w.heals = append(w.heals, heal{now.Add(lasts), func() time.Duration {
		more := end()
		if more == 0 {
			delete(w.struck, part)
			w.note("%s: over: %s", where, f.name)
		}
		return more
	}})
}

// A pack is faults in random order. One that was drawn goes under those that were not, so each
// comes about as often as the others.
type pack struct{ fresh, drawn []fault }

// draw takes the first fault that can be, nil if none can.
func (w *world) draw(p *pack, can func(fault) bool) *fault {
	for range 2 {
		for i, f := range p.fresh {
			if can(f) {
				p.fresh, p.drawn = slices.Delete(p.fresh, i, i+1), append(p.drawn, f)
				return &f
			}
		}
		w.rand.Shuffle(len(p.drawn), func(i, j int) { p.drawn[i], p.drawn[j] = p.drawn[j], p.drawn[i] })
		p.fresh, p.drawn = append(p.fresh, p.drawn...), nil
	}
	return nil
}

// heal ends the faults whose time has come.
func (w *world) heal(now time.Time) {
	due := w.heals
	w.heals = nil
	for _, h := range due {
		if h.at.After(now) {
			w.heals = append(w.heals, h)
		} else if more := h.do(); more > 0 {
			w.heals = append(w.heals, heal{now.Add(more), h.do})
		}
	}
}

// recover ends all faults, and waits until every daemon serves again.
func (w *world) recover() {
	for now := time.Now(); len(w.heals) > 0; now = now.Add(time.Hour) {
		w.heal(now.Add(time.Hour))
	}
	w.note("all faults are over")
	over := time.Now()
	for missing := w.servers.missing(); missing != ""; missing = w.servers.missing() {
		if time.Since(over) > patienceServers {
			w.t.Errorf("the servers are not whole again, %v after the last fault: %s", time.Since(over), missing)
			break
		}
		time.Sleep(20 * time.Millisecond)
		w.servers.follow(w)
	}
	healed := time.Now()
	w.note("the servers are whole, %v after the last fault", healed.Sub(over).Round(time.Millisecond))
	for missing := slices.Clone(w.daemons); len(missing) > 0; time.Sleep(20 * time.Millisecond) {
		w.servers.follow(w)
		missing = slices.DeleteFunc(missing, func(d *daemon) bool {
			took := time.Since(healed).Round(time.Millisecond)
			resumed, serves := d.seen.servesSince(healed.Add(lease)) // by then a window from before has ended
			switch {
			case serves:
				w.note("%s serves for good since %v after that", d.name, max(0, resumed.Sub(healed)).Round(time.Millisecond))
			case took > patienceDaemons:
				w.t.Errorf("%s does not serve again, %v after the end of all faults", d.name, took)
			default:
				return false
			}
			return true
		})
	}
}

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%8.3f s  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}
