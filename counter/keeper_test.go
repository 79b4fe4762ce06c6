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
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
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
	sizes  []int    // of the calls of ReturnAll
	mute   []string // sequences of which it takes the rest, and does not say so
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
	if s.broken != nil {
		return "", nil, s.broken
	}
	return s.Store.Changes(ctx, since)
}

// An asked store notes when Changes is called.
type asked struct {
	memcounter.Store
	at []time.Time
}

func (s *asked) Changes(ctx context.Context, since string) (string, []counter.Record, error) {
	s.at = append(s.at, time.Now())
	return s.Store.Changes(ctx, since)
}

// TestKeeperAsksWhenOthersWake: for changes, at the moments that Config names, so that an idle program is not woken for
// them alone.
func TestKeeperAsksWhenOthersWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := time.Now()
		time.Sleep(130 * time.Millisecond)
		store := &asked{Store: memcounter.NewDatabase().Open()}
		k := counter.NewKeeper(counter.Config{
			Store: store, Log: slog.New(slog.DiscardHandler),
			NextPoll: func() time.Duration { return time.Second - time.Since(base)%time.Second },
		})
		k.Start()
		time.Sleep(10 * time.Second)
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
		late := 0
		for _, at := range store.at {
			if at.Sub(base)%time.Second != 0 {
				late++
			}
		}
		if len(store.at)-late != 10 || late > 2 { // the first question, and the one that confirms it
			t.Errorf("asked at %v", store.at)
		}
	})
}

// A rig is a Keeper over a slowStore, and its sequences.
type rig struct {
	*counter.Keeper
	t     *testing.T
	store *slowStore
	log   bytes.Buffer
	stop  func() error
}

// newRig starts a Keeper. Call it inside a synctest bubble.
func newRig(t *testing.T, db *memcounter.Database) *rig {
	r := &rig{t: t, store: &slowStore{Store: db.Open(), delay: 2 * time.Millisecond}}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	r.Keeper = counter.NewKeeper(counter.Config{Store: r.store, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) add(d counter.Definition) *issuer.Sequence {
	r.t.Helper()
	return r.addIn(d, nil)
}

// addIn adds a sequence whose blocks come from a store of its own.
func (r *rig) addIn(d counter.Definition, store counter.Store) *issuer.Sequence {
	r.t.Helper()
	record, err := r.store.Define(context.Background(), d)
	if err != nil {
		r.t.Fatal(err)
	}
	s := issuer.NewSequence(issuer.SequenceConfig{
		Definition: record.Definition, MaxWait: time.Second,
		Status: func() counter.Status {
			st, _ := r.Status(d.Name)
			return st
		},
		Ring: func() { r.Ring(d.Name) }, Wake: func() {},
	})
	if err := r.Add(record, s, 0, store); err != nil {
		r.t.Fatal(err)
	}
	return s
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

func (r *rig) want(s *issuer.Sequence, first uint64) {
	r.t.Helper()
	if run, err := take(s, 1); err != nil || run.First != first {
		r.t.Errorf("%d, %v; want %d", run.First, err, first)
	}
}

func (r *rig) wantRefusal(s *issuer.Sequence, text string) {
	r.t.Helper()
	if run, err := take(s, 1); err == nil || err.Error() != text {
		r.t.Errorf("%d, %v; want %s", run.First, err, text)
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

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

var orders = counter.Sequence("orders")

// A sequence in use takes one write per ten seconds after the start, at most, or one for 5 million
// values, and never runs dry.
func TestReservationsAreRareAndInTime(t *testing.T) {
	for _, rate := range []int{1, 10, 1000, 100_000, 5_000_000} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, memcounter.NewDatabase())
				r.store.delay = 200 * time.Millisecond
				s := r.add(orders)
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

func TestNothingIsReservedThatNobodyAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		r := newRig(t, db)
		s := r.add(orders)
		r.want(s, 1)
		time.Sleep(time.Hour)
		if n := r.store.calls.Load(); n != 1 {
			t.Errorf("%d reservations for one value", n)
		}
		r.add(counter.Sequence("unused"))
		time.Sleep(time.Hour)
		if n := r.store.calls.Load(); n != 1 {
			t.Errorf("%d reservations", n)
		}
		if st, ok := r.Status("orders"); !ok || st.Block != 100 || st.Left != counter.MaxValue-100 {
			t.Errorf("%+v", st)
		}
	})
}

// While the store fails: values as long as there are any, then a second of patience, then a refusal that
// says why; and values again when it answers.
func TestAStoreThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		s := r.add(orders)
		r.want(s, 1)
		for _, c := range []struct {
			lost bool
			next uint64
		}{{false, 101}, {true, 0}} {
			r.store.fail(errors.New("disk\r\nfull"), c.lost)
			for figureOf[int64](s, "at_hand") > 0 {
				take(s, 10)
			}
			begin := time.Now()
			r.wantRefusal(s, "sequence orders: no block for 1.0s: disk; full")
			if d := time.Since(begin); d < time.Second || d > 1100*time.Millisecond {
				t.Errorf("refused after %v", d)
			}
			if _, err := s.Mint(id.When{}, 1, false); err == nil || err == id.ErrWait {
				t.Errorf("then %v", err)
			}
			if err := s.Ready(0); err == nil || !strings.HasPrefix(err.Error(), "sequence orders: no block for 1.0s: disk") {
				t.Errorf("ready: %v", err)
			}
			time.Sleep(10 * time.Second)
			r.store.fail(nil, false)
			time.Sleep(2 * time.Second)
			if err := s.Ready(0); err != nil {
				t.Error(err)
			}
			if c.next > 0 {
				r.want(s, c.next)
			} else if run, err := take(s, 1); err != nil || run.First <= 101 {
				t.Errorf("%d, %v after blocks were lost", run.First, err)
			}
			if figureOf[uint64](s, "waits") == 0 || figureOf[uint64](s, "refusals") == 0 {
				t.Error("nobody waited, or was refused")
			}
		}
		if n := r.store.calls.Load(); n > 60 { // 2 outages of 11 s, once a second after the first few
			t.Errorf("%d reservations", n)
		}
	})
}

func TestACleanStopLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		next := uint64(1)
		for i := range 20 {
			r := newRig(t, db)
			r.store.delay = time.Duration(i) * 10 * time.Millisecond
			s := r.add(orders)
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

func TestAStopSaysWhatItCouldNotGiveBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		r, other := newRig(t, db), newRig(t, db)
		a, b := r.add(orders), other.add(orders)
		r.want(a, 1)
		other.want(b, 101)
		if err := r.stop(); err != nil { // the other one reserved since: a gap, and no reason to be loud
			t.Error(err)
		}
		other.store.fail(errors.New("disk full"), false)
		if err := other.stop(); err == nil || err.Error() != "sequence orders, 102 to 200: disk full" {
			t.Error(err)
		}
		if w := db.Writes(); w != 3 {
			t.Errorf("%d writes", w)
		}
	})
}

// What an operator does to a running daemon's sequence takes effect within about a second.
func TestRaiseAndRetireReachADaemon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		admin := db.Open()
		r := newRig(t, db)
		s, idle := r.add(orders), r.add(counter.Sequence("idle"))
		r.want(s, 1)
		for _, c := range []struct{ to, next uint64 }{{50, 50}, {51, 51}, {5000, 5000}, {3, 5001}} {
			if _, err := admin.Raise(t.Context(), "orders", c.to); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			r.want(s, c.next)
		}
		if _, err := admin.Retire(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		begin := time.Now()
		r.wantRefusal(s, "sequence orders is retired")
		if d := time.Since(begin); d > 0 {
			t.Errorf("refused after %v", d)
		}
		if err := s.Ready(0); err != nil {
			t.Error(err) // other sequences are served
		}
		if _, err := admin.Retire(t.Context(), "idle"); err != nil {
			t.Fatal(err)
		}
		r.wantRefusal(idle, "sequence idle is retired") // the store says so before the next poll
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		again := newRig(t, db)
		again.wantRefusal(again.add(orders), "sequence orders is retired")
	})
}

// The record was set back, and raised above every value that was issued, but not above what the daemon has
// at hand: that is granted again, so the daemon must not issue it.
func TestARaiseOfARecordThatWasSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		admin := db.Open()
		r := newRig(t, db)
		s := r.add(orders)
		old, err := admin.Show(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		r.want(s, 1) // of 1 to 100
		db.SetBack(old)
		r.store.use(db.Open()) // one that remembers nothing
		if _, err := admin.Raise(t.Context(), "orders", 50); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		r.want(s, 450) // the issuer refuses 50 to 449, which that store grants; one that remembers refuses
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(r.log.String(),
			`was set back: the values at hand are dropped" sequence=orders free=50 granted=100`); n != 1 {
			t.Errorf("%s\nwant that it was set back, once", &r.log)
		}
	})
}

func TestTheEndOfASequence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := orders
		d.Step, d.Offset, d.Max = 2, 2, 1_001
		r := newRig(t, memcounter.NewDatabase())
		s := r.add(d)
		for v := uint64(2); v <= 990; v += 2 {
			r.want(s, v)
		}
		if _, err := s.Reserve(id.When{}, 6); err != id.ErrWait {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
		if _, err := s.Reserve(id.When{}, 6); err == nil ||
			err.Error() != "sequence orders ends at 1000: fewer than 6 values are left" {
			t.Error(err)
		}
		if run, err := s.Reserve(id.When{}, 5); err != nil || run.First != 992 {
			t.Error(run, err)
		}
		r.wantRefusal(s, "sequence orders has ended at 1000")
		if err := s.Ready(0); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		r.wantRefusal(s, "sequence orders has ended at 1000")
		r.stop()
		if n := strings.Count(r.log.String(), "it ends for good"); n != 2 ||
			!strings.Contains(r.log.String(),
				`"80% of a sequence's values are granted; it ends for good" sequence=orders last=1000 left=100 days_left=`) {
			t.Errorf("%d warnings:\n%s", n, r.log.String())
		}
	})
}

func TestManySequencesShareFewCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		var list []*issuer.Sequence
		for i := range 2000 {
			list = append(list, r.add(counter.Sequence(fmt.Sprint("s", i))))
		}
		var wg sync.WaitGroup
		for _, s := range list {
			wg.Go(func() { r.want(s, 1) })
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

func TestASequenceThatIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		s := r.add(orders)
		r.want(s, 1)
		if err := r.Add(counter.NewRecord(orders, ""), s, 0, nil); err == nil {
			t.Error("added twice")
		}
		r.Drop("orders")
		r.Drop("none")
		time.Sleep(10 * time.Millisecond)
		r.wantRefusal(s, "sequence orders is stopped")
		if _, ok := r.Status("orders"); ok {
			t.Error("it has a status still")
		}
		r.want(r.add(orders), 2)
	})
}

// What a call grants that was under way when the sequence was dropped is given back too.
func TestASequenceThatIsDroppedWhileItReserves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		s := r.add(orders)
		r.want(s, 1)
		r.store.delay = 200 * time.Millisecond
		if _, err := take(s, 60); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if n := r.store.now.Load(); n != 1 {
			t.Fatalf("%d calls are under way", n)
		}
		r.Drop("orders")
		time.Sleep(time.Second)
		r.want(r.add(orders), 62)
	})
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

// A sequence that is issued within a term reserves and gives back there. When the term is over it is
// dropped, and what it had is a gap; other sequences do not notice.
func TestASequenceWithinATerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		within := func() term { return term{r.store, new(atomic.Bool), new(atomic.Int64)} }
		other, first := r.add(counter.Sequence("free")), within()
		r.want(other, 1)
		s := r.addIn(orders, first)
		r.want(s, 1)
		given := r.Drop("orders") // handed over
		second := within()
		<-given
		if n := first.calls.Load(); n != 2 {
			t.Errorf("%d calls within the first term", n)
		}
		s = r.addIn(orders, second)
		r.want(s, 2)
		second.over.Store(true)
		<-r.Drop("orders") // lost
		r.want(r.addIn(orders, within()), 102)
		r.wantRefusal(s, "sequence orders is stopped")
		r.want(other, 2)
		third := r.Drop("orders")
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		<-third
		if strings.Contains(r.log.String(), "lost") {
			t.Error(r.log.String())
		}
	})
}

// The Keeper's end gives everything back, and says so to those who wait for it.
func TestTheKeeperEndsWhileASequenceIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		r.want(r.add(orders), 1)
		r.store.delay = 200 * time.Millisecond
		r.add(counter.Sequence("unused"))
		var given []<-chan struct{}
		for _, name := range []string{"orders", "unused"} {
			given = append(given, r.Drop(name))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		for _, c := range given {
			<-c
		}
		r.want(newRig(t, r.store.DB).add(orders), 2)
	})
}

func TestAnOutageIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, memcounter.NewDatabase())
		for range 2 {
			r.store.fail(errors.New("disk gone"), false)
			time.Sleep(20 * time.Second)
			r.store.fail(nil, false)
			time.Sleep(20 * time.Second)
		}
		r.stop()
		for text, want := range map[string]int{"does not say whether": 2, "answers again": 2} {
			if n := strings.Count(r.log.String(), text); n != want {
				t.Errorf("%q is logged %d times, want %d", text, n, want)
			}
		}
	})
}

// What is left of many sequences goes back in few calls, when they are dropped and when the Keeper ends. What is
// lost is named.
func TestManyAreGivenBackInFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memcounter.NewDatabase()
		r := newRig(t, db)
		store := r.store
		store.mute = []string{"s007", "s207"}
		const half = 3*counter.MaxRests + 20
		var given []<-chan struct{}
		for i := range 2 * half {
			name := fmt.Sprintf("s%03d", i)
			r.want(r.add(counter.Sequence(name)), 1)
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
