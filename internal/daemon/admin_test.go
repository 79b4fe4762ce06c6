package daemon

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// authFile writes a file of users with tokens: lines of NAME:TOKEN:RIGHTS.
func authFile(t *testing.T, lines ...string) (path string) {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		f := strings.SplitN(line, ":", 3)
		fmt.Fprintf(&text, "%s:$token-sha256$%x:%s\n", f[0], sha256.Sum256([]byte(f[1])), f[2])
	}
	path = filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask sends METHOD /path to a service of the daemon, with a token as the bearer or as a user's password.
func (d *Daemon) ask(t *testing.T, name, user, token, request, body string) (status int, says string) {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	for _, s := range d.services.Addresses() {
		if s.Title != name {
			continue
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.At.String()+target,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if user == "" {
			r.Header.Set("Authorization", "Bearer "+token)
		} else {
			r.SetBasicAuth(user, token)
		}
		return answer(t, r)
	}
	t.Fatal("no port " + name)
	return 0, ""
}

// What is done on the admin port of one daemon is served there at once, and soon by another one.
func TestAdminPort(t *testing.T) {
	dir, auth := t.TempDir(), authFile(t, "ann:top:*=get,admin", "bob:low:orders*=get", "eve:mid:orders*=admin;id=get")
	start := func(worker uint64, port int) (*Daemon, func(key string) string) {
		d, address := run(t, func(c *Config) {
			c.WorkerIDs, c.Counters, c.AnyDisk, c.MaxWait = []uint64{worker}, stores.Counters{Dir: dir, AnyDisk: true}, true,
				patience
			c.AuthFile, c.AdminPort, c.HTTPPort, c.Definitions, c.RefuseUnknown = auth, port, redistest.FreePort(t), "u7 uuid7",
				true
		})
		conn := dial(t, address)
		r := bufio.NewReader(conn)
		line := func(format string, args ...any) string {
			fmt.Fprintf(conn, format+"\r\n", args...)
			got, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(got)
		}
		if got := line("set x 0 0 7\r\nann top"); got != "STORED" {
			t.Fatal(got)
		}
		return d, func(key string) string {
			got := line("get %s", key)
			if strings.HasPrefix(got, "VALUE") {
				got, _ = r.ReadString('\n')
				r.ReadString('\n')
			}
			return strings.TrimSpace(got)
		}
	}
	d, get := start(1, redistest.FreePort(t))
	other, getOther := start(2, 0)
	do := func(token, request, body string, status int, answer string) {
		t.Helper()
		if got, text := d.ask(t, "admin", "", token, request, body); got != status || !strings.Contains(text, answer) {
			t.Errorf("%s: %d %s", request, got, text)
		}
	}

	if got := get("orders"); got != "CLIENT_ERROR no such generator: orders" {
		t.Error(got)
	}
	do("top", "PUT /generators/orders", "orders sequence start=100", 201, `"next":"100"`)
	if got := get("orders"); got != "100" {
		t.Errorf("right after it was created: %s", got)
	}
	await(t, "the other daemon serves it", func() bool { return getOther("orders") == "200" }) // the second block
	do("top", "PUT /generators/orders", "orders sequence start=100", 200, `"definition":"orders sequence start=100"`)
	do("top", "PUT /generators/orders", "orders sequence start=7", 409, "a sequence never changes")
	do("top", "PUT /generators/u7", "u7 sequence", 409, `"u7 sequence start=1": the name is served as "u7 uuid7"`)
	do("top", "GET /generators/u7", "", 404, "no such sequence") // and is not recorded
	do("eve", "PUT /generators/orders2", "orders2 sequence", 401, "a token")
	do("mid", "PUT /generators/orders2", "orders2 sequence", 201, "orders2")
	do("mid", "PUT /generators/evens", "evens sequence", 403, "not permitted: evens\n")
	do("low", "GET /generators/orders", "", 403, "not permitted: orders\n")
	do("top", "GET /leaders", "", 409, "leaders are elected in etcd only")
	do("top", "POST /generators/orders/raise?at_least=5000000", "", 200, `"floor":"5000000"`)
	for _, get := range []func(string) string{get, getOther} {
		await(t, "smaller values are dropped", func() bool {
			v, _ := strconv.Atoi(get("orders"))
			return v >= 5_000_000
		})
	}
	do("top", "DELETE /generators/orders?force=true", "", 200, "retired")
	for _, get := range []func(string) string{get, getOther} {
		await(t, "it is retired", func() bool { return get("orders") == "SERVER_ERROR sequence orders is retired" })
	}

	// The same users get ids over HTTP.
	for _, c := range []struct {
		user, token, target string
		status              int
		answer              string
	}{
		{"", "top", "/id/u7", 200, ""}, {"ann", "top", "/ids/orders2?n=2", 200, "1\n2"}, {"", "low", "/id/orders2", 200, "3"},
		{"bob", "low", "/id/u7", 403, "not permitted: u7\n"}, {"", "low", "/id", 403, "not permitted: id\n"},
		{"", "mid", "/ids?n=5", 200, ""},
		{"", "mid", "/id/orders2", 403, "not permitted: orders2\n"}, {"", "none", "/id", 401, ""},
		{"bob", "top", "/id/orders2", 401, ""},
	} {
		if status, text := d.ask(t, "HTTP", c.user, c.token, "GET "+c.target, ""); status != c.status ||
			!strings.HasPrefix(text, c.answer) {
			t.Errorf("%s as %s %s: %d %s", c.target, c.user, c.token, status, text)
		}
	}

	// Users change while all run.
	do("top", "PUT /users/bob", `{"rights":"u7=get"}`, 200, `"rights":"u7=get"`)
	for _, d := range []*Daemon{d, other} {
		await(t, "another right", func() bool {
			s1, _ := d.ask(t, "HTTP", "", "low", "GET /id/u7", "")
			s2, _ := d.ask(t, "HTTP", "", "low", "GET /id/orders2", "")
			return s1 == 200 && s2 == 403
		})
	}
	do("top", "DELETE /users/eve", "", 200, "eve")
	await(t, "she is gone", func() bool {
		s, _ := d.ask(t, "admin", "", "mid", "GET /generators", "")
		return s == 401
	})
}

// Wrong passwords are counted, and limited, on all ports together.
func TestLoginsOfTheAdminPort(t *testing.T) {
	d, _ := run(t, func(c *Config) {
		c.AuthFile, c.AdminPort, c.HTTPPort = authFile(t, "ann:top:*=get,admin"), redistest.FreePort(t), redistest.FreePort(t)
	})
	ask := func(port, path, token string) int {
		status, _ := d.ask(t, port, "ann", token, "GET "+path, "")
		return status
	}
	if got := ask("admin", "/users", "top"); got != 200 {
		t.Error(got)
	}
	for i := range loginlimit.Burst + 1 {
		if got := ask("admin", "/users", fmt.Sprint("guess", i)); got != 401 {
			t.Errorf("a guess: %d", got)
		}
	}
	wrong := func(name string) (value uint64) {
		for _, s := range d.observer.GeneralStats() {
			if s.Stat == name {
				value = s.Value.(uint64)
			}
		}
		return value
	}
	if n, of := wrong("auth_errors"), wrong("auth_cmds"); n != loginlimit.Burst+1 || of != n+1 {
		t.Errorf("%d of %d logins are counted as wrong", n, of)
	}
	var text strings.Builder
	d.observer.Figures(func(f figure.Figure) {
		if f.Metric == "errors_total" {
			fmt.Fprintln(&text, f.Labels[1], f.Value)
		}
	})
	if !strings.Contains(text.String(), fmt.Sprintln("authentication", loginlimit.Burst+1)) {
		t.Errorf("/metrics has %s", &text)
	}
}

// Once the admin port has answered a raise, no daemon on the files issues a smaller value.
func TestARaiseHoldsOnceItIsAnswered(t *testing.T) {
	dir, auth := t.TempDir(), authFile(t, "ann:top:*=get,admin")
	var ports []int
	var daemons []*Daemon
	for worker := range uint64(2) {
		ports = append(ports, redistest.FreePort(t))
		d, _ := run(t, func(c *Config) {
			c.Counters, c.AnyDisk = stores.Counters{Dir: dir, AnyDisk: true}, true
			c.WorkerIDs, c.MaxWait = []uint64{worker}, patience
			c.AuthFile, c.AdminPort, c.Definitions = auth, ports[worker], "orders sequence batch=1000"
		})
		daemons = append(daemons, d)
	}
	next := func(d *Daemon) uint64 {
		runs, err := d.names.Catalog.Batch(t.Context(), []byte("orders"), 1)
		if err != nil {
			t.Fatal(err)
		}
		return runs[0].First
	}
	for round := range uint64(3) {
		floor := (round + 1) * 1_000_000
		for _, d := range daemons {
			next(d)
		}
		await(t, "both daemons confirm a raise", func() bool { // each has four seconds, which a busy machine may need
			floor++
			request := fmt.Sprint("POST /generators/orders/raise?at_least=", floor)
			status, text := daemons[0].ask(t, "admin", "", "top", request, "")
			if status != 200 {
				t.Fatal(status, text)
			}
			return !strings.Contains(text, "unconfirmed")
		})
		for i, d := range daemons {
			smaller := 0
			for range 100 {
				if next(d) < floor {
					smaller++
				}
			}
			if smaller > 0 {
				t.Errorf("daemon %d issued %d values below %d after the answer", i, smaller, floor)
			}
		}
	}
}
