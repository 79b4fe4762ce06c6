//go:build chaos && linux

package chaos

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/former"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A version is a build of the daemon, or a program that takes its place.
type version struct {
	name, path string
	library    bool // it is that program: it answers get, and nothing else
}

// versions builds this tree's daemon. If KATSUBUSHI_CHAOS_OLD names a revision, that one's comes
// first: then every restart of a daemon swaps the two. With KATSUBUSHI_CHAOS_LIBRARY=1 they are the daemon and
// a program that issues ids itself.
func versions(t *testing.T) []version {
	t.Helper()
	now := version{name: "this tree", path: daemonrun.Program(t)}
	if os.Getenv("KATSUBUSHI_CHAOS_LIBRARY") == "1" {
		program := filepath.Join(t.TempDir(), "library")
		if out, err := exec.Command("go", "build", "-o", program, "./library").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return []version{now, {name: "the library", path: program, library: true}}
	}
	old := os.Getenv("KATSUBUSHI_CHAOS_OLD")
	if old == "" {
		return []version{now}
	}
	program, err := former.Build(t, "../..", old)
	if err != nil {
		t.Fatalf("KATSUBUSHI_CHAOS_OLD=%s: %v", old, err)
	}
	return []version{{name: old, path: program}, now}
}

// TestStateFilesOfTwoVersions: two builds take over each other's state files, at a random moment
// under load: after a clean stop, after kill -9, and after a try to start beside the other, which
// stands still meanwhile. The host's clock is a little wrong after each start. Hosts are many since
// most of their time is waiting: after a kill -9, a version that does not know where the other one
// kept its last position waits for the end of its window.
func TestStateFilesOfTwoVersions(t *testing.T) {
	builds := versions(t)
	if len(builds) == 1 {
		t.Skip("KATSUBUSHI_CHAOS_OLD names no revision: make mixed OLD=...")
	}
	length, seed := settingsOf(t)
	for host := range 6 {
		t.Run(fmt.Sprint(host), func(t *testing.T) {
			t.Parallel() // with -parallel 6, beside each other
			swapOnOneHost(t, builds, host, length, seed+uint64(host))
		})
	}
}

func swapOnOneHost(t *testing.T, builds []version, host int, length time.Duration, seed uint64) {
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, length: length,
		done: make(chan struct{}), counts: map[string]int{}, began: time.Now(),
		servers: &set{setting: setting{name: "state files"}},
	}
	d := &daemon{t: t, name: "the daemon", lanes: 2, versions: builds, first: host % 2, args: []string{
		"-bind", "127.0.0.1", "-port", "0", "-log-format", "json", "-worker-id", fmt.Sprintf("%d-%d", 2*host, 2*host+1),
		"-state-dir", t.TempDir(), "-state-any-disk", "-claim", "off",
	}}
	w.daemons = []*daemon{d}
	d.cleanUp()
	d.start()
	d.seen.last, d.seen.heard = w.began, w.began
	var clients sync.WaitGroup
	for range clientsEach {
		clients.Go(func() { w.client(d) })
	}
	figures := map[string]map[string]bool{}
	for time.Since(w.began) < length && !w.census.repeated() {
		started := time.Now()
		redistest.Until(t, "ids come", func() bool {
			_, ok := d.seen.servesSince(started)
			if d.HasEnded() {
				t.Fatal("it ended by itself")
			}
			return ok
		})
		time.Sleep(w.between(0, 3*time.Second)) // the load of this life
		name := d.version().name
		if figures[name] == nil {
			figures[name] = map[string]bool{}
		}
		if !d.version().library {
			maps.Copy(figures[name], numbers(t, d.at.Load().address)) // some come later than the first id
		}
		w.replace(d)
	}
	close(w.done)
	clients.Wait()
	w.verdict()
	for figure := range figures[builds[0].name] {
		if !builds[1].library && !figures[builds[1].name][figure] {
			t.Errorf("stats of %s have no %s, which those of %s have", builds[1].name, figure, builds[0].name)
		}
	}
}

// numbers returns which of a daemon's general statistics are numbers.
func numbers(t *testing.T, address string) map[string]bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "stats\r\nquit\r\n")
	found := map[string]bool{}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "STAT" {
			if _, err := strconv.ParseFloat(f[2], 64); err == nil {
				found[f[1]] = true
			}
		}
	}
	if len(found) < 20 {
		t.Fatalf("stats show %d numbers", len(found))
	}
	return found
}

// replace ends the daemon in a random way, and starts its other version.
func (w *world) replace(d *daemon) {
	how := []string{"clean stop", "kill -9", "kill -9", "start beside one that stands still, then kill -9"}[w.rand.IntN(4)]
	w.counts[how+" of "+d.version().name]++
	switch how {
	case "clean stop":
		d.end(syscall.SIGTERM)
	case "kill -9":
		d.end(syscall.SIGKILL)
	default:
		d.Pause(d.t)
		w.inVain(d, d.args)
		d.Resume(d.t)
		time.Sleep(w.between(0, 200*time.Millisecond)) // what it says when it wakes up matters most
		d.end(syscall.SIGKILL)
	}
	d.off = w.between(-300*time.Millisecond, 300*time.Millisecond)
	d.start()
}

// settingsOf reads how long the faults shall last, and the seed.
func settingsOf(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	minutes, err := strconv.ParseFloat(or(os.Getenv("KATSUBUSHI_CHAOS_MINUTES"), "3"), 64)
	if err != nil {
		t.Fatal("KATSUBUSHI_CHAOS_MINUTES: ", err)
	}
	seed, err = strconv.ParseUint(or(os.Getenv("KATSUBUSHI_SEED"), strconv.FormatInt(time.Now().UnixNano(), 10)), 10, 64)
	if err != nil {
		t.Fatal("KATSUBUSHI_SEED: ", err)
	}
	return time.Duration(minutes * float64(time.Minute)), seed
}

// takeovers tells how often each version started, of all daemons.
func (w *world) takeovers() string {
	var b strings.Builder
	of := map[string]int{}
	for _, d := range w.daemons {
		for i := range d.starts {
			of[d.versions[(d.first+i)%len(d.versions)].name]++
		}
	}
	for name, n := range of {
		fmt.Fprintf(&b, "%d starts of %s; ", n, name)
	}
	return strings.TrimSuffix(b.String(), "; ")
}
