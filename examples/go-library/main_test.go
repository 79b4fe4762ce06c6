//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// TestMain is the service itself in a child of the test.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_ORDERS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestOrders: two such services share a pool, and one that ends gives its worker id back.
func TestOrders(t *testing.T) {
	if os.Getenv("KATSUBUSHI_REQUIRE_EXAMPLES") != "1" {
		t.Skip("make test-examples runs it: a new pool waits for three times the clock skew that it allows, 15 s")
	}
	store := redistest.Start(t)
	layout := generator.Katsubushi()
	pool := redis.Leased(store.URL()).Lease(workerid.Terms{
		Layout: layout.Fingerprint(), Min: 1, Max: layout.MaxWorker(), Lease: workerid.DefaultLease,
	})
	admin, err := pool.OpenAdmin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Init(t.Context(), workerid.InitNew); err != nil {
		t.Fatal(err)
	}
	a, b := startOrders(t, store.URL()), startOrders(t, store.URL())
	seen, workers := map[uint64]bool{}, map[uint64]bool{}
	for range 20 {
		for _, s := range []*service{a, b} {
			id := s.order()
			if seen[id] {
				t.Errorf("%d came twice", id)
			}
			seen[id] = true
			workers[layout.Decompose(id).Worker] = true
		}
	}
	if len(workers) != 2 {
		t.Errorf("worker ids %v, want two", workers)
	}
	a.end()
	leases, err := admin.List(t.Context())
	used := slices.DeleteFunc(leases, func(l workerid.Lease) bool { return !l.Using })
	if err != nil || len(used) != 1 {
		t.Errorf("worker ids in use after one of two services has ended: %v, %v", used, err)
	}
	b.end()
}

// A service is the program.
type service struct {
	t   *testing.T
	url string
	*childprocess.Child
}

func startOrders(t *testing.T, pool string) *service {
	t.Helper()
	var out childprocess.Log
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RUN_ORDERS=1", "POOL="+pool, "LISTEN=127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &out, &out
	child, err := childprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Kill)
	s := &service{t: t, Child: child}
	said := regexp.MustCompile(`orders at (\S+)`)
	childprocess.Until(t, "the service listens", func() bool {
		if child.HasEnded() {
			t.Fatalf("the service has ended: %s", out.String())
		}
		found := said.FindStringSubmatch(out.String())
		if found != nil {
			s.url = found[1]
		}
		return found != nil
	})
	return s
}

func (s *service) order() uint64 {
	s.t.Helper()
	answer, err := http.Post(s.url, "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	var o order
	if err := json.NewDecoder(answer.Body).Decode(&o); err != nil || answer.StatusCode != http.StatusCreated {
		s.t.Fatalf("%s, %v", answer.Status, err)
	}
	return o.ID
}

func (s *service) end() {
	s.t.Helper()
	if code, err := s.End(syscall.SIGTERM, time.Minute); err != nil || code != 0 {
		s.t.Errorf("it ended with %d, %v", code, err)
	}
}
