package counter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A slowStore takes its time and fails when it is told to.
type slowStore struct {
	memcounter.Store
	delay  time.Duration
	mu     sync.Mutex
	broken error // every call fails with it; its effects happen if lost is set
	lost   bool
	calls  atomic.Int64 // of Reserve
	now    atomic.Int64 // calls of Reserve and Return under way
	most   atomic.Int64
	sizes  []int       // of the calls of ReturnAll
	polls  []time.Time // when Changes was called
	mute   []string    // sequences of which it takes the rest, and does not say so
}

func (s *slowStore) fail(err error, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.lost = err, lost
}

// use makes the calls to come those of another store.
func (s *slowStore) use(store memcounter.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = store
}

func (s *slowStore) used() memcounter.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store
}

// call waits as long as a call takes and says whether it is carried out, and whether it fails.
func (s *slowStore) call() (do bool, err error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	time.Sleep(s.delay)
	s.now.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken == nil || s.lost, s.broken
}

func (s *slowStore) Reserve(ctx context.Context, name string, n uint64) (b counter.Block, err error) {
	s.calls.Add(1)
	do, err := s.call()
	if do {
		b, err2 := s.used().Reserve(context.Background(), name, n)
		if err == nil {
			return b, err2
		}
	}
	return b, err
}

func (s *slowStore) ReturnAll(ctx context.Context, rests []counter.Rest) (errs []error) {
	do, err := s.call()
	s.mu.Lock()
	s.sizes = append(s.sizes, len(rests))
	s.mu.Unlock()
	for i, r := range rests {
		if errs = append(errs, err); do {
			errs[i] = errors.Join(err, s.used().Return(context.Background(), r.Name, r.Block, r.Next))
		}
		if slices.Contains(s.mute, r.Name) {
			errs[i] = errors.New("no answer")
		}
	}
	return errs
}

func (s *slowStore) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls = append(s.polls, time.Now())
	if s.broken != nil {
		return "", nil, s.broken
	}
	return s.Store.Changes(ctx, since)
}

// polled says how often Changes was called, and in which milliseconds of a second.
func (s *slowStore) polled() string {
	times := map[int64]int{}
	for _, at := range s.polls {
		times[at.UnixMilli()%1000]++
	}
	s.polls = nil
	return fmt.Sprint(times)
}

// TestKeeper plays a script of Keepers over one store. Beside the calls of countertest.Stage, with which "admin" is an
// operator:
//
//	start a [polls]          a Keeper; "polls" = it asks for changes when NextPoll says, at each full second
//	sleep 3s
//	a add orders [step=2 ...] [in TERM]   a sequence, whose blocks come from that term of leadership
//	a take orders 5          a client that asks again while it has to wait
//	a drain orders           takes all that is at hand
//	a mint orders 5, a claim orders 5     asks once: any values, or so many in a row
//	a drop orders, a given orders         and what it had is given back
//	a takes 200ms            how long a call takes from now on
//	a fails TEXT, a loses TEXT, a works   what a call answers; with "loses" it is carried out. "+" is a line break
//	a forgets                its calls are those of another store, which remembers nothing
//	over TERM                the term is over
//	a stop, a status orders, a logged, a polled
//	db back                  the record of orders is set back to what it was when it was added
func TestKeeper(t *testing.T) {
	script.Run(t, "testdata/keeper.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{Stage: countertest.NewStage(t), t: t, db: memcounter.NewDatabase(), rigs: map[string]*rig{},
				terms: map[string]term{}}
			s.Stores["admin"] = s.db.Open()
			play(s.do)
		})
	})
}

// A stage is Keepers over one store.
type stage struct {
	*countertest.Stage
	t     *testing.T
	db    *memcounter.Database
	rigs  map[string]*rig
	terms map[string]term
	first counter.Record // of orders
}

// A term is a Store that is fenced: once it is over, it refuses.
type term struct {
	counter.Store
	over  *atomic.Bool
	calls *atomic.Int64
}

func (s term) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	s.calls.Add(1)
	if s.over.Load() {
		return counter.Block{}, counter.ErrDeposed
	}
	return s.Store.Reserve(ctx, name, n)
}

func (s term) ReturnAll(ctx context.Context, rests []counter.Rest) []error {
	s.calls.Add(1)
	if s.over.Load() {
		return slices.Repeat([]error{counter.ErrDeposed}, len(rests))
	}
	return s.Store.ReturnAll(ctx, rests)
}

// A rig is a Keeper over a slowStore, and its sequences.
type rig struct {
	*counter.Keeper
	t     *testing.T
	store *slowStore
	lines map[string]*issuer.Sequence
	given map[string]<-chan struct{}
	log   bytes.Buffer
	stop  func() error
}

// newRig starts a Keeper. Call it inside a synctest bubble.
func newRig(t *testing.T, db *memcounter.Database, next func() time.Duration) *rig {
	r := &rig{t: t, store: &slowStore{Store: db.Open(), delay: 2 * time.Millisecond}, lines: map[string]*issuer.Sequence{},
		given: map[string]<-chan struct{}{}}
	r.Keeper = counter.NewKeeper(counter.Config{Store: r.store, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		NextPoll: next})
	r.Start()
	r.stop = sync.OnceValue(r.Stop)
	t.Cleanup(func() { r.stop() })
	return r
}

// add adds a sequence, whose blocks come from a store of its own, or else from the Keeper's.
func (r *rig) add(d counter.Definition, store counter.Store) (*issuer.Sequence, counter.Record) {
	r.t.Helper()
	record, err := r.store.Define(context.Background(), d)
	if err != nil {
		r.t.Fatal(err)
	}
	status, ring := r.Of(d.Name)
	s := issuer.NewSequence(issuer.SequenceConfig{Definition: record.Definition, MaxWait: time.Second, Status: status,
		Ring: ring, Wake: func() {}})
	if err := r.Add(record, s, 0, store); err != nil {
		r.t.Fatal(err)
	}
	r.lines[d.Name] = s
	return s, record
}

// take asks like a client: again every 5 ms while it has to wait. It returns the first value and the refusal.
func take(s *issuer.Sequence, n int) (id.Run, error) {
	for {
		run, err := s.Mint(id.When{}, n, false)
		if err != id.ErrWait {
			return run, err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// figureOf returns one of a sequence's figures.
func figureOf[T int64 | uint64 | float64](s *issuer.Sequence, name string) (v T) {
	s.Figures(func(f figure.Figure) {
		if f.Stat == name {
			v = f.Value.(T)
		}
	})
	return v
}

var orders = counter.Sequence("orders")

func want(t *testing.T, s *issuer.Sequence, first uint64) {
	t.Helper()
	if run, err := take(s, 1); err != nil || run.First != first {
		t.Errorf("%d, %v; want %d", run.First, err, first)
	}
}

func (s *stage) do(words []string) string {
	switch words[0] {
	case "start":
		base := time.Now().Truncate(time.Second)
		next := func() time.Duration { return time.Second - time.Since(base)%time.Second }
		if len(words) == 2 {
			next = nil
		}
		s.rigs[words[1]] = newRig(s.t, s.db, next)
	case "sleep":
		time.Sleep(s.Duration(words[1]))
	case "over":
		s.terms[words[1]].over.Store(true)
	case "db":
		s.db.SetBack(s.first)
	default:
		if r := s.rigs[words[0]]; r != nil {
			return s.with(r, words[1:])
		}
		return s.Stage.Do(words)
	}
	return ""
}

// with lets a Keeper do something, or its clients, and adds how long that took, and how many calls for blocks there
// were.
func (s *stage) with(r *rig, words []string) string {
	synctest.Wait() // nothing else runs
	began := time.Now()
	said := s.command(r, words)
	synctest.Wait()
	if passed := time.Since(began).Round(100 * time.Millisecond); passed > 0 {
		said += fmt.Sprint("\nafter ", passed)
	}
	if n := r.store.calls.Swap(0); n > 0 {
		said += fmt.Sprintf("\nreserved %d times", n)
	}
	for _, name := range []string{"first", "second", "third"} {
		if n := s.terms[name].calls; n != nil && n.Load() > 0 {
			said += fmt.Sprintf("\n%d calls within the %s term", n.Swap(0), name)
		}
	}
	return said
}

func (s *stage) command(r *rig, words []string) string {
	name := append(words, "", "")[1]
	line, rest := r.lines[name], strings.Join(words[1:], " ")
	n := 1
	if len(words) > 2 {
		fmt.Sscan(words[2], &n)
	}
	switch words[0] {
	case "add":
		return s.add(r, words[1:])
	case "take":
		return values(take(line, n))
	case "drain":
		for figureOf[int64](line, "at_hand") > 0 {
			take(line, 10)
			synctest.Wait() // what it asks the store for depends on how much is left then
		}
	case "mint":
		return values(line.Mint(id.When{}, n, false))
	case "claim":
		return values(line.Reserve(id.When{}, n))
	case "ready":
		return fmt.Sprint(line.Ready(0))
	case "drop":
		r.given[name] = r.Drop(name)
		synctest.Wait()
	case "given":
		<-r.given[name]
	case "takes":
		r.store.delay = s.Duration(name)
	case "fails", "loses":
		r.store.fail(errors.New(strings.ReplaceAll(rest, "+", "\r\n")), words[0] == "loses")
	case "works":
		r.store.fail(nil, false)
	case "forgets":
		r.store.use(s.db.Open())
	case "stop":
		return countertest.Said("", r.stop())
	case "status":
		return r.status(name)
	case "logged":
		return script.Logged(r.log.String())
	case "polled":
		return r.store.polled()
	default:
		s.t.Fatalf("%q: what is that?", words)
	}
	return ""
}

func (s *stage) add(r *rig, words []string) string {
	var store counter.Store
	if i := slices.Index(words, "in"); i >= 0 {
		within := term{r.store, new(atomic.Bool), new(atomic.Int64)}
		s.terms[words[i+1]], store = within, within
	}
	_, record := r.add(s.Definition(words), store)
	if s.first.Name == "" && record.Name == "orders" {
		s.first = record
	}
	if err := r.Add(record, r.lines[record.Name], 0, nil); err == nil {
		s.t.Error("added twice")
	}
	return ""
}

// values are those that a client got, or why it did not.
func values(run id.Run, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d of %d", run.N, run.First)
}

func (r *rig) status(name string) string {
	st, ok := r.Status(name)
	if !ok {
		return "there is none"
	}
	s := r.lines[name]
	return fmt.Sprintf("a block of %d, %d left; at hand %d; somebody waited: %v, was refused: %v", st.Block, st.Left,
		figureOf[int64](s, "at_hand"), figureOf[uint64](s, "waits") > 0, figureOf[uint64](s, "refusals") > 0)
}

// A sequence in use takes one write per ten seconds after the start, at most, or one for 5 million
// values, and never runs dry.
func TestReservationsAreRareAndInTime(t *testing.T) {
	for _, rate := range []int{1, 10, 1000, 100_000, 5_000_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, memcounter.NewDatabase(), nil)
				r.store.delay = 200 * time.Millisecond
				s, _ := r.add(orders, nil)
				begin, owed := time.Now(), 0.0
				var calls int64
				var waits uint64
				for second := range 120 {
					for range 100 {
						time.Sleep(10 * time.Millisecond)
						for owed += float64(rate) / 100; owed >= 1; {
							run, err := take(s, int(owed))
							if err != nil {
								t.Fatal(err)
							}
							owed -= float64(run.N)
						}
					}
					if second == 30 {
						calls, waits = r.store.calls.Load(), figureOf[uint64](s, "waits")
					}
				}
				elapsed := time.Since(begin).Seconds() - 31
				writes := r.store.calls.Load() - calls
				if most := max(elapsed/10, float64(rate)*elapsed/10e6) * 1.2; float64(writes) > most+2 {
					t.Errorf("%d reservations in %.0f s, want %.0f", writes, elapsed, most)
				}
				if w := figureOf[uint64](s, "waits") - waits; w > 0 {
					t.Errorf("ran dry %d times after the start", w)
				}
			})
		})
	}
}

func TestACleanStopLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		next := uint64(1)
		for i := range 20 {
			r := newRig(t, db, nil)
			r.store.delay = time.Duration(i) * 10 * time.Millisecond
			s, _ := r.add(orders, nil)
			for range 30 {
				run, err := take(s, 7*i+1)
				if err != nil || run.First != next {
					t.Fatalf("run %d: %d, %v; want %d", i, run.First, err, next)
				}
				next += uint64(run.N)
			}
			time.Sleep(time.Duration(i) * time.Millisecond) // a reservation may be under way
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Mint(id.When{}, 1, false); err == nil || err.Error() != "sequence orders is stopped" {
				t.Errorf("after the stop: %v", err)
			}
		}
	})
}

func TestManySequencesShareFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase(), nil)
		var list []*issuer.Sequence
		for i := range 2000 {
			s, _ := r.add(counter.Sequence(fmt.Sprint("s", i)), nil)
			list = append(list, s)
		}
		var wg sync.WaitGroup
		for _, s := range list {
			wg.Go(func() { want(t, s, 1) })
		}
		wg.Wait()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if n, most := r.store.calls.Load(), r.store.most.Load(); n != 2000 || most > 8 || most < 2 {
			t.Errorf("%d reservations, %d at once", n, most)
		}
		if w := r.store.DB.Writes(); w != 3*2000 {
			t.Errorf("%d writes: each is defined, reserved and given back once", w)
		}
	})
}

// What is left of many sequences goes back in few calls, when they are dropped and when the Keeper ends. What is
// lost is named.
func TestManyAreGivenBackInFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		r := newRig(t, db, nil)
		store := r.store
		store.mute = []string{"s007", "s207"}
		const half = 3*counter.MaxRests + 20
		var given []<-chan struct{}
		for i := range 2 * half {
			name := fmt.Sprintf("s%03d", i)
			s, _ := r.add(counter.Sequence(name), nil)
			want(t, s, 1)
		}
		time.Sleep(time.Second)
		for i := range half {
			given = append(given, r.Drop(fmt.Sprintf("s%03d", i)))
		}
		for _, g := range given {
			<-g
		}
		synctest.Wait()
		// Eight calls may have gone before the others were dropped. They take their time, so the rest goes in full ones.
		store.mu.Lock()
		if len(store.sizes) > 8+4 {
			t.Errorf("calls for %d sequences that were dropped: %d", half, store.sizes)
		}
		store.sizes = nil
		store.mu.Unlock()
		text := r.log.String()
		if strings.Count(text, "values are lost") != 1 || !strings.Contains(text, "s007, 2 to 100: no answer") {
			t.Error(text)
		}
		err := r.stop()
		if err == nil || err.Error() != "sequence s207, 2 to 100: no answer" {
			t.Error(err)
		}
		slices.Sort(store.sizes)
		if want := []int{20, counter.MaxRests, counter.MaxRests, counter.MaxRests}; !slices.Equal(store.sizes, want) {
			t.Errorf("calls at the end: %d", store.sizes)
		}
		for i := range 2 * half {
			record, err := r.store.Define(context.Background(), counter.Sequence(fmt.Sprintf("s%03d", i)))
			if err != nil || record.Next != 2 {
				t.Fatal(i, record, err)
			}
		}
	})
}
