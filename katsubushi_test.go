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
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/copied"
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

// What a caller sees while there is no store, and at the end.
func TestWaits(t *testing.T) {
	cause := errors.New("the request was cancelled")
	err := unserved(t, katsubushi.Config{}, cause)
	for _, want := range []error{katsubushi.ErrUnready, context.DeadlineExceeded, cause} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "no worker id yet") {
		t.Errorf("it does not say for what: %v", err)
	}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 972)})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ids.IDs(over, 2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if v, err := ids.ID(over); !errors.Is(err, context.Canceled) || v != 0 {
		t.Errorf("a ctx that is over: %d, %v", v, err)
	}
	for _, n := range []int{-1, 0, katsubushi.MaxIDs + 1} {
		if list, err := ids.IDs(t.Context(), n); !errors.Is(err, katsubushi.ErrCount) || list != nil {
			t.Errorf("%d: %v, %v", n, list, err)
		}
	}
	if err := errors.Join(ids.Close(), ids.Close()); err != nil {
		t.Error(err)
	}
	if v, err := ids.ID(t.Context()); !errors.Is(err, client.ErrClosed) || v != 0 {
		t.Errorf("after Close: %d, %v", v, err)
	}
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

func TestNames(t *testing.T) {
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 974), Counters: counters})
	name := func(definition string) *katsubushi.Name {
		t.Helper()
		n, err := ids.Name(t.Context(), definition)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for definition, length := range map[string]int{"a uuid7": 36, "b uuid4": 36, "c ulid": 26, "d objectid": 24} {
		n := name(definition)
		one, err := n.Text(t.Context())
		another, _ := n.Text(t.Context())
		if err != nil || len(one) != length || one == another {
			t.Errorf("%s: %q, %q, %v", definition, one, another, err)
		}
		if v, err := n.ID(t.Context()); !errors.Is(err, katsubushi.ErrRefused) || v != 0 {
			t.Errorf("%s: %d, %v", definition, v, err)
		}
		if n != name(definition) {
			t.Errorf("%s: another one", definition)
		}
	}
	take(t, name("old snowflake layout=instagram"))
	orders := name("orders sequence start=1000")
	take(t, orders)
	if v, err := orders.ID(t.Context()); err != nil || v < 1000 {
		t.Errorf("%d, %v", v, err)
	}
	few := name("few sequence max=3")
	var last uint64
	for range 3 {
		last, _ = few.ID(t.Context())
	}
	if v, err := few.ID(t.Context()); !errors.Is(err, katsubushi.ErrRefused) || last != 3 {
		t.Errorf("after %d: %d, %v", last, v, err)
	}
	for definition, want := range map[string]string{
		"orders sequence start=1":           "already",
		"tickets sequence order=strict":     "daemons",
		"x nothing":                         "is not a kind",
		"sessions snowflake layout=unheard": "unheard",
	} {
		if _, err := ids.Name(t.Context(), definition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", definition, err)
		}
	}
	without := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 975)})
	if _, err := without.Name(t.Context(), "o sequence"); !errors.Is(err, katsubushi.ErrRefused) {
		t.Error(err)
	}
}

// An Open that fails leaves the store of sequences to the next one.
func TestOpenAgain(t *testing.T) {
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	c := katsubushi.Config{Counters: counters}
	if err := unserved(t, c, nil); !errors.Is(err, katsubushi.ErrUnready) {
		t.Fatal(err)
	}
	c.Store = static.Dir(t.TempDir(), 979)
	orders, err := open(t, c).Name(t.Context(), "orders sequence start=1000")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := orders.ID(t.Context()); err != nil || v != 1000 {
		t.Errorf("%d, %v", v, err)
	}
}

// After Close nothing is issued of any kind, not even random texts, and no name is declared.
func TestNamesAfterClose(t *testing.T) {
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 978), Counters: counters})
	var names []*katsubushi.Name
	for _, definition := range []string{"a uuid4", "b uuid7", "c snowflake layout=instagram", "d sequence"} {
		n, err := ids.Name(t.Context(), definition)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Text(t.Context()); err != nil {
			t.Errorf("%v: %v", n, err)
		}
		names = append(names, n)
	}
	over, end := context.WithCancel(t.Context())
	end()
	for _, definition := range []string{"a uuid4", "e uuid4"} {
		if _, err := ids.Name(over, definition); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a ctx that is over: %v", definition, err)
		}
	}
	ids.Close()
	if err := ids.Err(); !errors.Is(err, katsubushi.ErrClosed) || !errors.Is(ids.Status().Err, katsubushi.ErrClosed) {
		t.Errorf("Err after Close: %v", err)
	}
	for _, n := range names {
		if text, err := n.Text(t.Context()); !errors.Is(err, katsubushi.ErrClosed) {
			t.Errorf("%v after Close: %q, %v", n, text, err)
		}
	}
	for _, definition := range []string{"a uuid4", "e uuid4", "f sequence"} {
		if _, err := ids.Name(t.Context(), definition); !errors.Is(err, katsubushi.ErrClosed) {
			t.Errorf("%s after Close: %v", definition, err)
		}
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
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	slow := slowStore{counters, make(chan struct{}, 1), make(chan struct{})}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 980), Counters: slow})
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
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 984), Counters: fullStore{counters}})
	n, err := ids.Name(t.Context(), "orders sequence")
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
	open(t, katsubushi.Config{Store: static.Dir(dir, 976)})
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

// TestCopy: a copy of the struct is the same IDs. It knows the same names, and either of them closes both.
func TestCopy(t *testing.T) {
	counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 982), Counters: counters})
	same := copied.Of(ids)
	take(t, ids, same)
	a, _ := ids.Name(t.Context(), "orders sequence")
	b, err := same.Name(t.Context(), "orders sequence")
	if a == nil || a != b || err != nil {
		t.Errorf("%v and %v, %v", a, b, err)
	}
	if err := errors.Join(same.Close(), ids.Close(), same.Close()); err != nil {
		t.Error(err)
	}
	for _, s := range []katsubushi.Source{ids, same, a} {
		if v, err := s.ID(t.Context()); !errors.Is(err, katsubushi.ErrClosed) || v != 0 {
			t.Errorf("after Close: %d, %v", v, err)
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
