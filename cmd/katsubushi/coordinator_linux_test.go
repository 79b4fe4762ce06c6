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

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// The tests in this file lease worker ids from real ZooKeeper and etcd servers.

// A coordinator is one server with a compare-and-set.
type coordinator struct {
	scheme, addr string
	user         func(name, password string) // makes one for the pool secret
}

// coordinators are the kinds of it.
var coordinators = map[string]func(t *testing.T) *coordinator{
	"etcd": func(t *testing.T) *coordinator {
		m := etcdtest.Start(t)
		return &coordinator{"etcd", m.Addr(), func(name, password string) {
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
		return &coordinator{"zookeeper", zktest.Common(t).Addr(), func(string, string) {}} // whoever comes first
	},
}

// redisServer is a Redis, of which no more is known than its address, and a user.
func redisServer(t *testing.T) *coordinator {
	s := redistest.Start(t)
	return &coordinator{"redis", s.Addr(), func(name, password string) {
		s.Do("ACL", "SETUSER", name, "on", ">"+password, "~*", "+@all")
	}}
}

// overThese runs a test over each kind, beside each other.
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

// A shortPool is one whose leases end soon.
var shortPool = []string{"-lease", "6s", "-heartbeat", "500ms", "-max-skew", "200ms", "-min-worker-id", "1",
	"-max-worker-id", "5"}

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
	overThese(t, coordinators, func(t *testing.T, s *coordinator) {
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

// The daemon, lease and run log in with what is in the file, and tell nobody.
func TestProcessCoordinatorsPasswordFile(t *testing.T) {
	t.Parallel()
	kinds := maps.Clone(coordinators)
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
