package daemon

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
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

// administer sends METHOD /path to the admin port that the daemon would have.
func (d *Daemon) administer(t *testing.T, request string) (status int, answer string) {
	t.Helper()
	list, err := users.Load(authFile(t, "ann:top:*=admin"))
	if err != nil {
		t.Fatal(err)
	}
	var all users.Directory
	all.Replace(list)
	c := at(reflect.ValueOf(d.services).Elem(), "g", "Admin").Interface().(adminapi.Config)
	c.Login = func(http.ResponseWriter, *http.Request) *users.Account { return all.Bearer([]byte("top")) }
	method, path, _ := strings.Cut(request, " ")
	w := httptest.NewRecorder()
	adminapi.New(c).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	for tries := 0; method == "GET" && w.Code == http.StatusServiceUnavailable && tries < 20; tries++ { // etcd was late
		w = httptest.NewRecorder()
		adminapi.New(c).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	}
	return w.Code, w.Body.String()
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
