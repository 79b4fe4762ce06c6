package katsubushi_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// open opens IDs until the test ends.
func open(t *testing.T, c katsubushi.Config) *katsubushi.IDs {
	t.Helper()
	ids, err := katsubushi.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ids.Close() })
	return ids
}

// counted is a Config with sequences, and a worker id of its own.
func counted(t *testing.T, worker uint64) katsubushi.Config {
	t.Helper()
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	return katsubushi.Config{Store: static.Dir(t.TempDir(), worker), Counters: counters}
}

// take takes ids in many goroutines, and fails if one comes twice, or if those of one goroutine do not rise: that is
// promised of one lane.
func take(t *testing.T, sources ...katsubushi.Source) {
	t.Helper()
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var all sync.WaitGroup
	for range 4 {
		for _, s := range sources {
			all.Go(func() {
				var mine []uint64
				for i := range 300 {
					list, err := s.IDs(t.Context(), 1+i%40)
					if err != nil {
						t.Error(err)
						return
					}
					one, err := s.ID(t.Context())
					if err != nil || one == 0 || !slices.IsSorted(list) {
						t.Errorf("%d, %v, %v", one, list, err)
						return
					}
					mine = append(append(mine, list...), one)
				}
				if !slices.IsSorted(mine) {
					t.Error("the ids of a goroutine do not rise")
				}
				mu.Lock()
				defer mu.Unlock()
				for _, v := range mine {
					if seen[v] {
						t.Errorf("%d came twice", v)
					}
					seen[v] = true
				}
			})
		}
	}
	all.Wait()
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	ids := open(t, katsubushi.Config{Store: static.Dir(dir, 971)})
	take(t, ids)
	last, _ := ids.ID(t.Context())
	if s := ids.Status(); s.Err != nil || !slices.Equal(s.Workers(), []uint64{971}) {
		t.Errorf("%+v", s)
	}
	if d := generator.Katsubushi().Decompose(last); d.Worker != 971 || time.Since(d.Time).Abs() > time.Minute {
		t.Errorf("%d: %+v", last, d)
	}
	ids.Close()
	next, err := open(t, katsubushi.Config{Store: static.Dir(dir, 971)}).ID(t.Context())
	if err != nil || next <= last {
		t.Errorf("after a restart %d came after %d: %v", next, last, err)
	}
}

// unserved opens IDs of a pool that does not answer, until a deadline. Only time that the machine does not take counts.
func unserved(t *testing.T, c katsubushi.Config, cause error) (err error) {
	t.Helper()
	c.Store = redis.Leased("redis://127.0.0.1:1")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))) // a bubble begins before the layout's epoch
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
		defer cancel()
		_, err = katsubushi.Open(ctx, c)
	})
	return err
}

// A program that is faster than its layout waits for the next tick, and nobody is refused.
func TestFasterThanTheLayout(t *testing.T) {
	slow := generator.Katsubushi()
	slow.TimeBits, slow.SequenceBits = 41, 3
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 973), Layout: slow, RunAhead: time.Millisecond})
	began := time.Now()
	const n = 2000 // 8 a millisecond
	if list, err := ids.IDs(t.Context(), n); err != nil || len(slices.Compact(list)) != n {
		t.Fatalf("%d: %v", len(list), err)
	}
	if passed := time.Since(began); passed < n/8*time.Millisecond-5*time.Millisecond {
		t.Errorf("%d ids of 8 a millisecond came within %v", n, passed)
	}
}

// An Open that fails leaves the store of sequences to the next one.
func TestOpenAgain(t *testing.T) {
	c, cause := counted(t, 979), errors.New("the request was cancelled")
	err := unserved(t, c, cause)
	for _, want := range []error{katsubushi.ErrUnready, context.DeadlineExceeded, cause} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "no worker id yet") {
		t.Errorf("it does not say for what: %v", err)
	}
	orders, err := open(t, c).Name(t.Context(), "orders sequence start=1000")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := orders.ID(t.Context()); err != nil || v != 1000 {
		t.Errorf("%d, %v", v, err)
	}
}

// A slowStore does not answer a Define until it is told to.
type slowStore struct {
	counter.Store
	asked, answer chan struct{}
}

func (s slowStore) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.Store.Define(ctx, d)
}

// TestOthersDoNotWaitForAName: while a store is slow to define a name, all others are there. Two who ask for it get the
// same.
func TestOthersDoNotWaitForAName(t *testing.T) {
	c := counted(t, 980)
	slow := slowStore{c.Counters, make(chan struct{}, 1), make(chan struct{})}
	c.Counters = slow
	ids := open(t, c)
	known, err := ids.Name(t.Context(), "u uuid7")
	if err != nil {
		t.Fatal(err)
	}
	defined := make(chan *katsubushi.Name)
	for range 2 {
		go func() {
			n, err := ids.Name(t.Context(), "orders sequence start=5")
			if err == nil {
				_, err = n.ID(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			defined <- n
		}()
		<-slow.asked
	}
	if n, err := ids.Name(t.Context(), "u uuid7"); n != known || err != nil {
		t.Errorf("a known name: %v, %v", n, err)
	}
	if _, err := ids.Name(t.Context(), "other uuid7"); err != nil {
		t.Errorf("a new name meanwhile: %v", err)
	}
	close(slow.answer)
	if a, b := <-defined, <-defined; a == nil || a != b {
		t.Errorf("%v and %v", a, b)
	}
}

// A fullStore has no place for what it must record.
type fullStore struct{ counter.Store }

func (fullStore) Reserve(context.Context, string, uint64) (counter.Block, error) {
	return counter.Block{}, errors.New("the disk is full")
}

// TestASequenceSaysWhatItWaitsFor, once its store has answered.
func TestASequenceSaysWhatItWaitsFor(t *testing.T) {
	c := counted(t, 984)
	c.Counters = fullStore{c.Counters}
	n, err := open(t, c).Name(t.Context(), "orders sequence")
	for err == nil || !strings.Contains(err.Error(), "the disk is full") {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err = n.ID(ctx)
		cancel()
		if !errors.Is(err, katsubushi.ErrUnready) || !strings.Contains(err.Error(), "sequence orders: no block for ") {
			t.Fatal(err)
		}
	}
}

// Whatever is wrong with a Config is said at once.
func TestMisuse(t *testing.T) {
	dir := t.TempDir()
	ids := open(t, katsubushi.Config{Store: static.Dir(dir, 976)})
	if _, err := ids.Name(t.Context(), "orders sequence"); !errors.Is(err, katsubushi.ErrRefused) {
		t.Errorf("a sequence without Counters: %v", err)
	}
	for want, c := range map[string]katsubushi.Config{
		"none given":                {},
		"worker id 976":             {Store: static.Dir(dir, 976)},
		"the directory is empty":    {Store: static.Dir("", 1)},
		"Store: 1024: 0 to 1023":    {Store: static.Dir(dir, 1024)},
		"each worker id":            {Store: static.Dir(dir, 1), Lanes: 2},
		"a URL begins with":         {Store: redis.Leased("http://h")},
		"Lanes: 65: 1 to 64":        {Store: redis.Leased("redis://h"), Lanes: 65},
		" RunAhead: 1h0m0s: 0s to ": {Store: static.Dir(dir, 1), RunAhead: time.Hour},
	} {
		if ids, err := katsubushi.Open(t.Context(), c); err == nil || ids != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	open(t, katsubushi.Config{Store: static.Dir(dir, 981), Lanes: 1}) // as many as it has
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // it has nothing to wait for
		ids, err := katsubushi.Open(over, katsubushi.Config{Store: static.Dir(dir, 970)})
		if !errors.Is(err, context.Canceled) || ids != nil {
			t.Fatalf("a ctx that is over: %v", err)
		}
	}
}

// TestDependencies: a program links the client library of the store that it imports, and of no other one.
func TestDependencies(t *testing.T) {
	clients := map[string]string{ // of which packages
		"./workerid/redis": "github.com/redis/", "./workerid/etcd": "go.etcd.io/etcd/",
		"./workerid/zookeeper": "github.com/go-zookeeper/",
	}
	of := func(p string) []string {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	for _, p := range append(of("."), of("./workerid/static")...) {
		if !strings.HasPrefix(p, "github.com/katsubushi/katsubushi/v3") && !strings.HasPrefix(p, "golang.org/x/sys/") {
			t.Errorf("it needs %s", p)
		}
	}
	for p := range clients {
		needs := strings.Join(of(p), " ")
		for other, client := range clients {
			if strings.Contains(needs, client) != (other == p) {
				t.Errorf("%s needs %s: %v", p, client, other != p)
			}
		}
	}
}

// TestNothingIsAllocated: an id costs no garbage, and a batch its slice.
func TestNothingIsAllocated(t *testing.T) {
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 979)})
	for what, most := range map[string]float64{"ID": 0, "IDs": 1} {
		n := testing.AllocsPerRun(100, func() {
			var err error
			if what == "ID" {
				_, err = ids.ID(t.Context())
			} else {
				_, err = ids.IDs(t.Context(), 20)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if n > most {
			t.Errorf("%s allocates %v times, at most %v", what, n, most)
		}
	}
}
