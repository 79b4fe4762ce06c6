package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// The tests in this file lease worker ids from real ZooKeeper and etcd servers.

// A coordinator is one server with a compare-and-set.
type coordinator struct {
	kind, scheme, addr string
	dir                string // of its data
	pause, resume      func()
	kill, launch       func()                      // launch waits until it answers
	user               func(name, password string) // makes one for the pool secret
}

// coordinators are the kinds of it.
var coordinators = map[string]func(t *testing.T) *coordinator{
	"etcd": func(t *testing.T) *coordinator {
		m := etcdtest.Start(t)
		return &coordinator{"etcd", "etcd", m.Addr(), m.Dir, m.Pause, m.Resume, m.Kill, m.Launch,
			func(name, password string) {
				for _, args := range []string{
					"user add root:root", "user grant-role root root", "role add ids",
					"role grant-permission ids readwrite --prefix=true /secret/",
					"user add " + name + ":" + password, "user grant-role " + name + " ids", "auth enable",
				} {
					m.Control(strings.Fields(args)...)
				}
			}}
	},
	"zookeeper": func(t *testing.T) *coordinator {
		s := zktest.Start(t)
		return &coordinator{kind: "ZooKeeper", scheme: "zookeeper", addr: s.Addr(), dir: s.Dir, pause: s.Pause,
			resume: s.Resume, kill: s.Kill, launch: s.Launch}
	},
}

// steady returns the kinds of those that nothing happens to. One ZooKeeper is enough for all of them.
func steady() map[string]func(t *testing.T) *coordinator {
	kinds := maps.Clone(coordinators)
	kinds["zookeeper"] = func(t *testing.T) *coordinator {
		return &coordinator{kind: "ZooKeeper", scheme: "zookeeper", addr: zktest.Common(t).Addr(),
			user: func(string, string) {}} // whoever comes first
	}
	return kinds
}

// redisServer is a Redis, of which no more is known than its address, and a user.
func redisServer(t *testing.T) *coordinator {
	s := redistest.Start(t)
	return &coordinator{scheme: "redis", addr: s.Addr(), user: func(name, password string) {
		s.Do("ACL", "SETUSER", name, "on", ">"+password, "~*", "+@all")
	}}
}

// overCoordinators runs a test over each kind, beside each other.
func overCoordinators(t *testing.T, test func(t *testing.T, s *coordinator)) {
	overThese(t, coordinators, test)
}

func overThese(t *testing.T, kinds map[string]func(t *testing.T) *coordinator,
	test func(t *testing.T, s *coordinator)) {
	for kind, begin := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, begin(t))
		})
	}
}

// url is that of a pool.
func (s *coordinator) url(pool string) string { return s.scheme + "://" + s.addr + "?ns=" + pool }

// backup copies the server's data while it does not run.
func (s *coordinator) backup(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s.kill()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	s.launch()
	return dir
}

// wipe ends the server and deletes its data.
func (s *coordinator) wipe(t *testing.T) {
	t.Helper()
	s.kill()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
}

// restore puts a backup in place of the server's data.
func (s *coordinator) restore(t *testing.T, backup string) {
	t.Helper()
	s.wipe(t)
	if err := os.CopyFS(s.dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	s.launch()
}

// pace is that of clients that only have to notice what happens while a test waits for leases.
const pace = 5 * time.Millisecond

// A shortPool is one whose leases end soon.
var shortPool = []string{"-lease", "6s", "-heartbeat", "500ms", "-max-skew", "200ms", "-min-worker-id", "1",
	"-max-worker-id", "5"}

const (
	shortPoolLease = 6 * time.Second
	shortPoolFloor = shortPoolLease + 1400*time.Millisecond // after it, everything is over that was granted before
)

// A poolOf is a pool in a coordinator, and the flags with which it is used.
type poolOf struct{ flags []string }

func (s *coordinator) pool(name string, flags ...string) poolOf {
	return poolOf{append([]string{"-store", s.url(name)}, flags...)}
}

// lease runs `katsubushi lease`.
func (p poolOf) lease(args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = p.leasePatiently(args...)
	return code, stdout, stderr
}

func (p poolOf) leasePatiently(args ...string) (code int, stdout, stderr string, again bool) {
	return patiently(environment(), slices.Concat([]string{"lease", args[0]}, p.flags, args[1:])...)
}

// says runs `katsubushi lease`, which must succeed and say this.
func (p poolOf) says(t *testing.T, want string, args ...string) {
	t.Helper()
	code, stdout, stderr, again := p.leasePatiently(args...)
	if code != exitOK || !strings.Contains(stdout, want) && !(again && strings.Contains(stdout, " already: ")) {
		t.Fatalf("lease %q: exit code %d: %s%s", args, code, stdout, stderr)
	}
}

// told is says for what is so at times.
func (p poolOf) told(t *testing.T, text string, args ...string) bool {
	t.Helper()
	code, stdout, stderr := p.lease(args...)
	if code != exitOK {
		t.Fatalf("lease %q: exit code %d: %s%s", args, code, stdout, stderr)
	}
	return strings.Contains(stdout, text)
}

func (p poolOf) init(t *testing.T) {
	t.Helper()
	p.says(t, "made: its worker ids can be had", "init", "-how", "new")
}

func (p poolOf) list(t *testing.T) (list []workerid.Lease) {
	t.Helper()
	code, stdout, stderr := p.lease("list", "-all", "-json")
	if err := json.Unmarshal([]byte(stdout), &list); code != exitOK || err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return list
}

func (p poolOf) launch(t *testing.T, more ...string) *process {
	t.Helper()
	return launch(t, slices.Concat(p.flags, more)...)
}

func (p poolOf) start(t *testing.T, more ...string) *process {
	t.Helper()
	d := p.launch(t, more...)
	await(t, "the daemon listens", func() bool { return d.Entry("listening") != nil || d.HasEnded() })
	d.WaitListening(t)
	return d
}

// A pool is made, daemons of one and of two lanes lease from it, an operator looks at it and takes a
// worker id away, daemons stop in order and are killed, and `run` leases one too.
func TestProcessLeasesFromCoordinators(t *testing.T) {
	t.Parallel()
	overThese(t, steady(), func(t *testing.T, s *coordinator) {
		pool, port := s.pool("p", shortPool...), freePort(t)
		c := census{lanes: 1}
		first := pool.launch(t, "-http-port", port, "-advertise", "127.0.0.9:4711")
		await(t, "it says how to make the pool", func() bool {
			return strings.Contains(first.Logged(), "lease init")
		})
		awaitReadyz(t, port, http.StatusServiceUnavailable, "no worker id yet", "lease init")
		awaitReadyz(t, port, http.StatusServiceUnavailable, "no worker id yet", "\nstore: "+s.scheme+"_addr "+s.addr+", ")
		pool.init(t)
		pool.says(t, "there already", "init", "-how", "new")
		first.WaitListening(t)
		awaitReadyz(t, port, http.StatusOK, "ready", "")
		c.add(hurry(t, first, 5_000))

		second := pool.start(t, "-lanes", "2")
		// A busy machine may leave records in use that no lane has: after a slow answer. They end.
		await(t, "both lanes of the second have worker ids, and the lists say so", func() bool {
			held := 0
			for _, l := range pool.list(t) {
				if l.Using {
					held++
				}
			}
			return second.serve(2) && held == 3 && pool.told(t, "\n2 free: -all lists them\n", "list") &&
				pool.told(t, " at 127.0.0.9:4711\n", "list") && pool.told(t, "\nheld         3\n", "stats")
		})
		c.add(hurry(t, second, 5_000))
		if code, _, stderr := pool.lease("replicas"); code != exitFailure ||
			!strings.Contains(stderr, "lease replicas: "+s.kind+" has no replicas to wait for") {
			t.Errorf("lease replicas: exit code %d: %s", code, stderr)
		}
		if code, _, stderr := pool.lease("init", "-how", "migrated"); code != exitFailure ||
			!strings.Contains(stderr, "-how=migrated") {
			t.Errorf("lease init -how migrated: exit code %d: %s", code, stderr)
		}
		if code, _, stderr := pool.lease("reset-clock"); code != exitFailure ||
			!strings.Contains(stderr, "nothing to reset") {
			t.Errorf("lease reset-clock: exit code %d: %s", code, stderr)
		}

		was := workerOf(t, first)
		if code, _, stderr := pool.lease("release", fmt.Sprint(was)); code != exitOK {
			t.Fatal(stderr)
		}
		await(t, "it has another worker id", func() bool { return workerOf(t, first) != was })
		c.add(hurry(t, first, 5_000))

		second.end(t, syscall.SIGKILL)
		for range 2 {
			again := pool.start(t)
			c.add(hurry(t, again, 5_000))
			again.end(t, syscall.SIGTERM)
		}
		first.end(t, syscall.SIGTERM)
		var free []uint64
		for _, l := range pool.list(t) {
			if l.Owner == "" {
				free = append(free, l.Worker)
			}
		}
		if len(free) < 2 {
			t.Errorf("without an owner: %v; lease list: %+v", free, pool.list(t))
		}
		out, err := exec.Command(binary,
			slices.Concat([]string{"run"}, pool.flags, []string{"-log-level", "error", "--", "echo", "it is {}"})...).
			CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "it is ") {
			t.Errorf("run: %v: %s", err, out)
		}
		c.verdict(t)
	})
}

// The server stands still for longer than a lease, and is killed and started again. Daemons with long
// leases refuse nothing, one with a short lease until the server is back; all keep their worker ids.
func TestProcessCoordinatorsAway(t *testing.T) {
	t.Parallel()
	overCoordinators(t, func(t *testing.T, s *coordinator) {
		short, long := s.pool("short", shortPool...), s.pool("long", "-heartbeat", "1s")
		short.init(t)
		long.init(t)
		hurt, unhurt := short.start(t), long.start(t, "-lanes", "2")
		await(t, "all lanes serve", func() bool { return unhurt.came("serving") >= 2 && settled(unhurt) })
		lost := func() int { return unhurt.came("draining") + unhurt.came("exhausted") + unhurt.came("acquiring") }
		begun := lost()
		refusing, steady := census{lanes: 1, pace: pace}, census{lanes: 2, pace: pace}
		// The one client of the former has counted all its ids when it is refused.
		loads := []*load{refusing.load(t, hurt.Addr(), 1, 3), steady.load(t, unhurt.Addr(), 2, 3)}
		worker := workerOf(t, hurt)

		s.pause()
		before := loads[0].refused.Load() // a busy machine may have refused already
		await(t, "it refuses", func() bool { return loads[0].refused.Load() > before && !settled(hurt) })
		largest, back := refusing.newRun(), time.Now()
		s.resume()
		await(t, "it serves again", func() bool { return settled(hurt) })
		t.Logf("away for longer than a lease of %v; serving again %v after it came back", shortPoolLease,
			time.Since(back).Round(time.Millisecond))
		await(t, "all lanes of the other one are extended again", func() bool { return settled(unhurt) })

		s.kill()
		await(t, "it is noticed", func() bool { return !settled(unhurt) })
		s.launch()
		await(t, "all lanes are extended again", func() bool { return settled(unhurt) && settled(hurt) })
		for _, l := range loads {
			l.awaitMore(t, 100)
			l.finish(t)
		}
		if w := workerOf(t, hurt); w != worker {
			t.Errorf("worker id %d before and %d after", worker, w)
		}
		if n := lost() - begun; n > 0 && stoodStill.since(steady.began) < time.Second/2 { // see noneRefused
			t.Errorf("a lane that was never without its lease had lost it %d times", n)
		}
		steady.noneRefused(t)
		steady.verdict(t)
		refusing.above(t, largest)
		refusing.verdict(t)
	})
}

// settled reports whether the last change of every lane of a daemon was to serving.
func settled(p *process) bool { return p.serve(len(p.states())) }

// A backup is restored while daemons hold leases, and then while none does, which is said with
// `lease restored`; in the end the store is wiped, and `lease init` mends that. No id comes twice.
func TestProcessCoordinatorsForget(t *testing.T) {
	t.Parallel()
	overCoordinators(t, func(t *testing.T, s *coordinator) {
		pool := s.pool("p", shortPool...)
		pool.init(t)
		c := census{lanes: 1, pace: pace}
		first := pool.start(t)
		l := c.load(t, first.Addr(), 2, 20)
		backup := s.backup(t)
		taken := time.Now()
		second := pool.start(t) // of which the backup knows nothing
		l2 := c.load(t, second.Addr(), 2, 20)
		await(t, "both go on for longer than W", func() bool {
			return settled(first) && settled(second) && time.Since(taken) > 5*time.Second
		})

		// On a busy machine the window is over before the server is back: then there is nothing to drain.
		losses := func(d *process) int { return d.came("draining") + d.came("acquiring") }
		before := []int{losses(first), losses(second)}
		s.restore(t, backup)
		var third *process
		for i, d := range []*process{first, second} {
			await(t, "the loss is noticed", func() bool { return losses(d) > before[i] })
			if i == 0 {
				third = pool.launch(t) // which shall not get what the second has
			}
		}
		for _, d := range []*process{first, second} {
			await(t, "it serves again", func() bool { return settled(d) })
		}
		await(t, "the newcomer serves", func() bool { return third.Entry("listening") != nil })
		third.WaitListening(t)
		c.add(hurry(t, third, 5_000))
		for _, l := range []*load{l, l2} {
			l.awaitMore(t, 1000)
			l.finish(t)
		}
		for _, d := range []*process{first, second, third} {
			d.end(t, syscall.SIGKILL)
		}

		s.restore(t, backup)
		restored := time.Now()
		pool.says(t, "", "restored")
		last := pool.start(t)
		if waited := time.Since(restored); waited < shortPoolFloor-time.Second { // clocks are compared to within less
			t.Errorf("a newcomer served %v after lease restored", waited)
		}
		c.add(hurry(t, last, 5_000))

		s.wipe(t)
		s.launch()
		await(t, "it says what to do", func() bool {
			return strings.Contains(last.Logged(), "`katsubushi lease init` does it")
		})
		pool.says(t, "one lease from now", "init")
		await(t, "the loss is noticed", func() bool {
			return strings.Contains(last.Logged(), "the store has forgotten it")
		})
		await(t, "it serves again", func() bool { return settled(last) })
		c.add(hurry(t, last, 5_000))
		c.verdict(t)
	})
}

// The daemon, lease and run log in with what is in the file, and tell nobody.
func TestProcessCoordinatorsPasswordFile(t *testing.T) {
	t.Parallel()
	kinds := steady()
	kinds["redis"] = redisServer
	overThese(t, kinds, func(t *testing.T, s *coordinator) {
		const password = "hush-7f3a"
		s.user("katsubushi", password)
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		url := s.scheme + "://katsubushi@" + s.addr + "?ns=secret"
		pool := poolOf{append([]string{"-store", url, "-store-password-file", file}, shortPool...)}
		told := map[string]string{}
		command := func(args ...string) {
			t.Helper()
			told[args[0]] = printed(t, args...)
		}
		command(slices.Concat([]string{"lease", "init", "-how", "new"}, pool.flags)...)
		p := pool.start(t, "-http-port", freePort(t))
		c := dial(t, "tcp", p.Addr())
		fmt.Fprint(c, "stats leases\r\nstats settings\r\nquit\r\n")
		stats, _ := io.ReadAll(c)
		told["stats"] = string(stats)
		for _, path := range []string{"/stats", "/metrics", "/readyz"} {
			_, _, told[path] = httpGet(p.HTTP(), path)
		}
		command(slices.Concat([]string{"run"}, pool.flags, []string{"-log-level", "debug", "--", "true"})...)
		command(slices.Concat([]string{"lease", "list"}, pool.flags)...)
		if err := os.WriteFile(file, []byte(password+"-old"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := pool.lease("list")
		if told["refused"] = stdout + stderr; code != exitFailure {
			t.Errorf("lease list with a wrong password: exit code %d: %s%s", code, stdout, stderr)
		}
		told["log"] = p.Logged()
		for _, of := range []string{"cmdline", "environ"} {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Process.Pid, of))
			told[of] = string(b)
		}
		for what, text := range told {
			if strings.Contains(text, password) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(password))) {
				t.Errorf("%s tells the password: %s", what, text)
			}
		}
		if !strings.Contains(told["stats"], s.addr) || !strings.Contains(told["log"], "listening") {
			t.Errorf("nothing was told: %q", told)
		}
	})
}
