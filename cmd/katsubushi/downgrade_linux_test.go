package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/former"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// TestDowngrade: an operator may go back to the version before, and forward again. Ids rise and never
// come twice, and sequences go on, whatever the two versions leave to each other.
func TestDowngrade(t *testing.T) {
	revision := os.Getenv("KATSUBUSHI_FORMER")
	if revision == "" {
		t.Skip("KATSUBUSHI_FORMER names no revision: make test-downgrade does")
	}
	old, err := former.Build(t, "../..", revision)
	if errors.Is(err, former.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, how := range map[string]func(*testing.T, *swapped){
		"CleanStop": func(t *testing.T, s *swapped) { s.p.end(t, syscall.SIGTERM) },
		"Kill":      func(t *testing.T, s *swapped) { s.p.end(t, syscall.SIGKILL) },
		"KillWithoutMemoryPage": func(t *testing.T, s *swapped) {
			s.p.end(t, syscall.SIGKILL)
			pages, err := os.ReadDir(s.pages)
			if err != nil || len(pages) == 0 {
				t.Errorf("no memory page: %v", err)
			}
			for _, page := range pages {
				os.RemoveAll(filepath.Join(s.pages, page.Name()))
			}
		},
	} {
		t.Run("StateFiles/"+name, func(t *testing.T) {
			t.Parallel()
			swapStateFiles(t, old, how, 1)
		})
	}
	t.Run("SharedMark", func(t *testing.T) {
		t.Parallel()
		swapStateFiles(t, old, func(t *testing.T, s *swapped) { s.p.end(t, syscall.SIGKILL) }, 2)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		flags := append([]string{"-store", s.URL(), "-state-dir", "none"}, shortPool...)
		printed(t, binary, slices.Concat([]string{"lease", "init", "-how", "new"}, flags[:2], shortPool)...)
		shareStores(t, old, [2][]string{flags, flags}, "redis://"+s.Addr()+"/0?ns=counters")
		for _, program := range []string{binary, old} {
			if list := printed(t, program,
				slices.Concat([]string{"lease", "list"}, flags[:2], shortPool)...); !strings.Contains(list, "WORKER") {
				t.Errorf("lease list: %s", list)
			}
		}
	})
	t.Run("Etcd", func(t *testing.T) {
		t.Parallel()
		url := etcdtest.URL(t, etcdtest.Start(t))
		shareStores(t, old, [2][]string{append(onDisk(t), "-worker-id", "51"), append(onDisk(t), "-worker-id", "52")}, url)
	})
	t.Run("Upgrade", func(t *testing.T) {
		t.Parallel()
		if exec.Command(old, "upgrade", "-help").Run() == nil {
			upgradeThereAndBack(t, old)
		} else {
			upgradeRefused(t, old)
		}
	})
}

// startProgram starts a version of the daemon; its memory pages go into a directory of their own.
func startProgram(t *testing.T, program, pages string, args ...string) *process {
	t.Helper()
	c := exec.Command(program)
	c.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+pages)
	p := runs(t, c, daemonrun.Loopback(args...)...)
	p.WaitListening(t)
	return p
}

// A swapped daemon is of one version, then of the other one, with the same files.
type swapped struct {
	p     *process
	pages string
}

func swapStateFiles(t *testing.T, old string, end func(*testing.T, *swapped), lanes int) {
	s := &swapped{pages: inMemory(t)[1]}
	ids := []string{"", "51", "51,52"}[lanes]
	args := append(onDisk(t), "-worker-id", ids, "-generator", "orders sequence batch=50")
	c, value := census{lanes: lanes, hasty: true}, uint64(0)
	for life, program := range []string{binary, old, binary, old, binary} {
		largest := c.newRun()
		s.p = startProgram(t, program, s.pages, args...)
		l := c.load(t, s.p.Addr(), 4, 20)
		for conn, n := countFrom(t, s.p), 0; n < 80; n++ {
			v := conn.must(t, "orders")
			if v <= value {
				t.Fatalf("life %d: value %d after %d", life, v, value)
			}
			value = v
		}
		l.awaitMore(t, 30_000)
		l.stopped.Store(true)
		l.clients.Wait()
		end(t, s)
		if life > 0 && lanes == 1 { // lanes are not equally far ahead of the clock
			c.above(t, largest)
		}
	}
	c.verdict(t)
}

// shareStores has both versions work at the same time, with a sequence in a store. One of them is then swapped
// for the other version, after a clean stop or a kill.
func shareStores(t *testing.T, old string, flags [2][]string, counters string) {
	printed(t, binary, "generator", "create", "orders sequence batch=50", "-counters", counters)
	var mu sync.Mutex
	values, all := map[uint64]bool{}, census{lanes: 1, hasty: true}
	largest := map[uint64]uint64{} // by worker id
	live := func(p *process) {
		ids := hurry(t, p, 30_000)
		all.add(ids)
		worker := ids[0] >> 12 & 1023
		conn := countFrom(t, p)
		v := uint64(0)
		for range 120 {
			next := conn.must(t, "orders")
			mu.Lock()
			if next <= v || values[next] {
				t.Errorf("value %d after %d, or twice", next, v)
			}
			v, values[next] = next, true
			mu.Unlock()
		}
		mu.Lock()
		defer mu.Unlock()
		if before := largest[worker]; slices.Min(ids) <= before {
			t.Errorf("worker id %d: id %d after %d", worker, slices.Min(ids), before)
		}
		largest[worker] = slices.Max(ids)
	}
	programs, pages := [2]string{binary, old}, [2]string{inMemory(t)[1], inMemory(t)[1]}
	var daemons [2]*process
	begin := func(i int) {
		daemons[i] = startProgram(t, programs[i], pages[i],
			append([]string{"-counters", counters, "-max-wait", "20s"}, flags[i]...)...)
	}
	begin(0)
	begin(1)
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, 0} {
		var both sync.WaitGroup
		both.Go(func() { live(daemons[0]) })
		live(daemons[1])
		both.Wait()
		if signal == 0 {
			break
		}
		which := i % 2
		daemons[which].end(t, signal)
		if programs[which] == old {
			programs[which] = binary
		} else {
			programs[which] = old
		}
		begin(which)
	}
	all.verdict(t)
}

// upgradeThereAndBack replaces the daemon by the other version again and again, under clients of ids, of a
// sequence and of a name with another layout, none of whose connections may be cut.
func upgradeThereAndBack(t *testing.T, old string) {
	const upgrades = 6
	u := startUpgradable(t, append(inMemory(t), "-worker-id", "53", "-max-wait", "20s",
		"-generator", "orders sequence batch=50", "-generator", "other snowflake layout=instagram")...)
	c := census{lanes: 1, hasty: true}
	l := c.load(t, u.Addr(), 4, 20)
	var taken [2]atomic.Int64
	var refused atomic.Int64
	for i, name := range []string{"orders", "other"} {
		conn := countFrom(t, u.process)
		l.clients.Go(func() {
			for last := uint64(0); !l.stopped.Load(); {
				switch v, says := conn.get(t, name); {
				case says != "" && name == "other" && strings.HasPrefix(says, "SERVER_ERROR"): // for a part of a second
					refused.Add(1)
				case says != "" || v <= last:
					t.Errorf("%s: %d after %d, %q", name, v, last, says)
					return
				default:
					last = v
					taken[i].Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { l.stopped.Store(true) })
	served := func() {
		before := [2]int64{taken[0].Load(), taken[1].Load()}
		l.awaitMore(t, 20_000)
		await(t, "names are served", func() bool {
			return t.Failed() || taken[0].Load() > before[0] && taken[1].Load() > before[1]
		})
	}
	served()
	for n := range upgrades {
		program := [2]string{old, binary}[n%2]
		t.Log(u.succeedTo(t, program))
		want, err1 := os.Stat(program)
		is, err2 := os.Stat(fmt.Sprintf("/proc/%d/exe", u.now))
		if err := errors.Join(err1, err2); err != nil || !os.SameFile(want, is) {
			t.Fatalf("upgrade %d: another program serves than %s: %v", n, program, err)
		}
		served()
	}
	l.finish(t)
	c.verdict(t)
	t.Logf("%d upgrades, %d values of a sequence, %d ids of another layout (refused %d times)", upgrades, taken[0].Load(),
		taken[1].Load(), refused.Load())
}

// upgradeRefused: the version before knows no upgrade without a gap. Whoever asks for one reads that, and what
// runs goes on.
func upgradeRefused(t *testing.T, old string) {
	pages := inMemory(t)[1]
	args := append(onDisk(t), "-worker-id", "53")
	c := census{lanes: 1, hasty: true}
	before := startProgram(t, old, pages, args...)
	c.add(hurry(t, before, 1000))
	u := &upgradable{process: before, now: before.Process.Pid}
	if code, said := u.upgrade(t); code != exitFailure || !strings.Contains(said, "daemon that can be upgraded") {
		t.Errorf("from the version before: exit code %d, %s", code, said)
	}
	before.Process.Signal(syscall.SIGUSR2) // Go's runtime takes no notice of it
	c.add(hurry(t, before, 1000))
	if before.HasEnded() {
		t.Error("USR2 ends the version before")
	}
	before.end(t, syscall.SIGTERM)

	u = startUpgradable(t, append(args, "-port", freePort(t))...)
	ids, largest := newAsker(t, "tcp", u.Addr()), c.newRun()
	c.add([]uint64{ids.id(t)})
	c.above(t, largest)
	u.install(t, old)
	code, said := u.upgrade(t)
	if code != exitFailure || !strings.Contains(said, "address already in use") ||
		!strings.Contains(said, fmt.Sprintf("process %d goes on", u.now)) {
		t.Errorf("to the version before: exit code %d, %s", code, said)
	}
	largest = c.newRun()
	c.add([]uint64{ids.id(t)})
	c.above(t, largest)
	c.verdict(t)
}
