package main

import (
	"encoding/base64"
	"fmt"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
)

// The tests in this file lease worker ids from real ZooKeeper and etcd servers.

// A coordinator is one server with a compare-and-set.
type coordinator struct {
	scheme, addr string
	user         func(name, password string) // makes one for the pool secret
}

// coordinators are the kinds of it, and Redis, of which no more is known than its address, and a user.
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
	"redis": func(t *testing.T) *coordinator {
		s := redistest.Start(t)
		return &coordinator{"redis", s.Addr(), func(name, password string) {
			s.Do("ACL", "SETUSER", name, "on", ">"+password, "~*", "+@all")
		}}
	},
}

// overCoordinators runs a test over each kind, beside each other.
func overCoordinators(t *testing.T, test func(t *testing.T, s *coordinator)) {
	for kind, begin := range coordinators {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, begin(t))
		})
	}
}

// url is that of a pool.
func (s *coordinator) url(pool string) string { return s.scheme + "://" + s.addr + "?ns=" + pool }

func (s *coordinator) pool(name string, flags ...string) poolOf {
	return poolOf{append([]string{"-store", s.url(name)}, flags...)}
}

// A pool is made, daemons of one and of two lanes lease from it, an operator looks at it and takes a
// worker id away, daemons stop in order and are killed, and `run` leases one too.
func TestProcessLeasesFromCoordinators(t *testing.T) {
	t.Parallel()
	overCoordinators(t, func(t *testing.T, s *coordinator) {
		pool, port := s.pool("p", shortPool...), freePort(t)
		c := census{lanes: 1}
		first := pool.launch(t, "-http-port", port, "-advertise", "127.0.0.9:4711")
		await(t, "it says how to make the pool", func() bool {
			return strings.Contains(first.Logged(), "lease init")
		})
		awaitReadyz(t, port, http.StatusServiceUnavailable, "no worker id yet", "lease init")
		announces := s.scheme != "redis" // by default
		if announces {
			awaitReadyz(t, port, http.StatusServiceUnavailable, "no worker id yet", "\nstore: "+s.scheme+"_addr "+s.addr+", ")
		}
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
			return second.serve(2) && held == 3 && pool.told(t, " 2 free: -all lists them", "list") &&
				pool.told(t, " at 127.0.0.9:4711 ", "list") == announces && pool.told(t, " held 3", "stats")
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
	overCoordinators(t, func(t *testing.T, s *coordinator) {
		const password = "hush-7f3a"
		s.user("katsubushi", password)
		file := tempfile.Write(t, "password", password+"\n")
		url := s.scheme + "://katsubushi@" + s.addr + "?ns=secret"
		pool := poolOf{append([]string{"-store", url, "-store-password-file", file}, shortPool...)}
		told := map[string]string{}
		command := func(args ...string) {
			t.Helper()
			told[args[0]] = printed(t, binary, args...)
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
		tempfile.Write(t, file, password+"-old")
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
