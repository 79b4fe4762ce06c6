package daemon

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
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
	tempfile.Write(t, path, text.String())
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

// later are values that depend on how many blocks were taken.
var later = regexp.MustCompile(`"(next|left)":"[2-9]\d+"`)

// TestAdminPort: testdata/admin.txt has what is done on the admin port of one daemon, which is served there at once,
// and soon by another one on the same files. The token of a user is the name.
func TestAdminPort(t *testing.T) {
	script.Run(t, "testdata/admin.txt", func(t *testing.T, play func(script.Do)) {
		dir, daemons, clients := t.TempDir(), map[string]*Daemon{}, map[string]*bufio.ReadWriter{}
		auth := authFile(t, "ann:ann:*=get,admin", "bob:bob:orders*=get", "eve:eve:orders*=admin;id=get")
		line := func(c *bufio.ReadWriter, request string) string {
			fmt.Fprintf(c, "%s\r\n", request)
			c.Flush()
			got, err := c.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(got)
		}
		get := func(who, key string) string {
			got := line(clients[who], "get "+key)
			if strings.HasPrefix(got, "VALUE") {
				got, _ = clients[who].ReadString('\n')
				clients[who].ReadString('\n')
			}
			return strings.TrimSpace(got)
		}
		ask := func(port, who, user, token, request, body string) string {
			status, text := daemons[who].ask(t, port, user, token, request, body)
			text = forms["u7"].ReplaceAllString(snowflakes.ReplaceAllString(strings.TrimSpace(text), "ID"), "UUID")
			return fmt.Sprint(status, " ", later.ReplaceAllString(strings.ReplaceAll(text, dir, "DIR"), `"$1":..`))
		}
		calls := script.Calls{
			"daemon": func(who string, worker uint64) string {
				d, address := run(t, func(c *Config) {
					c.WorkerIDs, c.Counters, c.AnyDisk = []uint64{worker}, stores.Counters{Dir: dir, AnyDisk: true}, true
					c.AuthFile, c.AdminPort, c.HTTPPort = auth, redistest.FreePort(t), redistest.FreePort(t)
					c.Definitions, c.RefuseUnknown, c.MaxWait = "u7 uuid7", true, patience
				})
				conn := dial(t, address)
				daemons[who] = d
				clients[who] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
				return line(clients[who], "set x 0 0 7\r\nann ann")
			},
			"get": get,
			"from": func(who, key string, least int) bool { // it gets no value below
				v, _ := strconv.Atoi(get(who, key))
				return v >= least
			},
			"admin": func(who, token, request, body string) string { return ask("admin", who, "", token, request, body) },
			"http":  func(who, token, path string) string { return ask("HTTP", who, "", token, "GET "+path, "") },
			"http-as": func(who, user, password, path string) string {
				return ask("HTTP", who, user, password, "GET "+path, "")
			},
		}
		play(func(words []string) string { return calls.Do(t, words) })
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
