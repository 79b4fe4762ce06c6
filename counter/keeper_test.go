package counter_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
	hangs  atomic.Bool // no call is answered
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

func (s *slowStore) fail(text string, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken, s.lost = nil, lost; text != "" {
		s.broken = errors.New(strings.ReplaceAll(text, "+", "\r\n"))
	}
}

// use makes the calls to come those of another store.
func (s *slowStore) use(store memcounter.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store = store
}

// call waits as long as a call takes, and returns the store that carries it out, if one does, and whether it fails.
func (s *slowStore) call(ctx context.Context) (store counter.Store, err error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	time.Sleep(s.delay)
	s.now.Add(-1)
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil || s.lost {
		store = s.Store
	}
	return store, s.broken
}

func (s *slowStore) Reserve(ctx context.Context, name string, n uint64) (b counter.Block, err error) {
	s.calls.Add(1)
	store, failed := s.call(ctx)
	if store != nil {
		b, err = store.Reserve(context.Background(), name, n)
	}
	return b, cmp.Or(failed, err)
}

func (s *slowStore) ReturnAll(ctx context.Context, rests []counter.Rest) (errs []error) {
	store, err := s.call(ctx)
	s.mu.Lock()
	s.sizes = append(s.sizes, len(rests))
	s.mu.Unlock()
	for i, r := range rests {
		if errs = append(errs, err); store != nil {
			errs[i] = errors.Join(err, store.Return(context.Background(), r.Name, r.Block, r.Next))
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
	if s.hangs.Load() {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
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

// TestKeeper plays a script of Keepers over one store, see stage. Beside the calls of countertest.Stage, with which
// "admin" is an operator.
func TestKeeper(t *testing.T) {
	script.Run(t, "testdata/keeper.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{Stage: countertest.NewStage(t), t: t, db: memcounter.NewDatabase(), rigs: map[string]*rig{},
				terms: map[string]term{}}
			s.Stores["admin"] = s.db.Open()
			maps.Copy(s.Calls, s.calls())
			maps.Copy(s.Calls, s.ofMany())
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
	store *slowStore
	lines map[string]*issuer.Sequence
	given map[string]<-chan struct{}
	log   bytes.Buffer
	stop  func() error
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

func (s *stage) calls() script.Calls {
	return script.Calls{
		"rigs": s.rigs,
		// start a [polls]: a Keeper; "polls" = it asks for changes when NextPoll says, at each full second
		"start": s.start,
		"sleep": time.Sleep,
		// a add orders [step=2 ...] [in TERM]: a sequence, whose blocks come from that term of leadership; over TERM: it is
		"add":  s.add,
		"over": func(name string) { s.terms[name].over.Store(true) },
		// set-back: the record of orders is what it was when it was added
		"set-back": func() { s.db.SetBack(s.first) },
		// a take orders 5: a client that asks again while it has to wait; a drain orders: takes all that is at hand; a mint
		// orders 5, a claim orders 5: asks once: any values, or so many in a row
		"take":  func(r *rig, name string, n ...int) string { return values(take(r.lines[name], append(n, 1)[0])) },
		"drain": func(r *rig, name string) { drain(r.lines[name]) },
		"mint":  func(r *rig, name string) string { return values(r.lines[name].Mint(id.When{}, 1, false)) },
		"claim": func(r *rig, name string, n int) string { return values(r.lines[name].Reserve(id.When{}, n)) },
		"ready": func(r *rig, name string) string { return fmt.Sprint(r.lines[name].Ready(0)) },
		// a uses orders 1000 1m: so many values a second; how often it had to wait
		"uses": uses,
		// a drop orders, a given orders: and what it had is given back
		"drop": func(r *rig, name string) {
			r.given[name] = r.Drop(name)
			synctest.Wait()
		},
		"given": func(r *rig, name string) { <-r.given[name] },
		// a takes 200ms: how long a call takes; a fails TEXT, a loses TEXT, a works: what it answers from now on; with
		// "loses" it is carried out. "+" is a line break
		"takes": func(r *rig, d time.Duration) { r.store.delay = d },
		"fails": func(r *rig, text string) { r.store.fail(text, false) },
		"loses": func(r *rig, text string) { r.store.fail(text, true) },
		"works": func(r *rig) { r.store.fail("", false) },
		"hangs": func(r *rig) { r.store.hangs.Store(true) },
		// a forgets: its calls are those of another store, which remembers nothing
		"forgets": func(r *rig) { r.store.use(s.db.Open()) },
		"stop":    func(r *rig) string { return countertest.Said("", r.stop()) },
		"ends":    func(r *rig) { r.stop() },
		"status":  (*rig).status,
		"logged":  func(r *rig) string { return script.Logged(r.log.String()) },
		"polled":  func(r *rig) string { return r.store.polled() },
	}
}

// ofMany are calls for many sequences, whose names are s000 and so on.
func (s *stage) ofMany() script.Calls {
	each := func(n int, do func(name string)) {
		for i := range n {
			do(fmt.Sprintf("s%03d", i))
		}
	}
	return script.Calls{
		// a add-many 9 [in TERM]: with that, each in a term of its own
		"add-many": func(r *rig, n int, in ...string) {
			each(n, func(name string) { s.add(r, append([]string{name}, in...)...) })
		},
		// a take-many: a client of each of them, at once
		"take-many": func(r *rig) {
			var all sync.WaitGroup
			for name, line := range r.lines {
				all.Go(func() {
					if run, err := take(line, 1); err != nil || run.First != 1 {
						s.t.Errorf("%s: %d, %v", name, run.First, err)
					}
				})
			}
			all.Wait()
		},
		// a drop-many 20: and what they had is given back
		"drop-many": func(r *rig, n int) {
			each(n, func(name string) { r.given[name] = r.Drop(name) })
			each(n, func(name string) { <-r.given[name] })
		},
		// a mutes s001: it gives that back and does not say so
		"mutes": func(r *rig, names ...string) { r.store.mute = names },
		// a returned [12]: for how many sequences each call gave values back, or whether there were no more calls than that
		"returned": func(r *rig, most ...int) string {
			sizes := slices.Sorted(slices.Values(r.store.sizes))
			r.store.sizes = nil
			if len(most) > 0 && len(sizes) <= most[0] {
				return "in so few"
			}
			return fmt.Sprint(sizes)
		},
		"at-once": func(r *rig) int64 { return r.store.most.Load() },
		"writes":  s.db.Writes,
		// at: how many records have which next value
		"at": func() string {
			at := map[uint64]int{}
			list, err := s.db.Open().List(context.Background())
			for _, record := range list {
				at[record.Next]++
			}
			return countertest.Said(at, err)
		},
	}
}

func (s *stage) start(name string, polls ...string) {
	r := &rig{store: &slowStore{Store: s.db.Open(), delay: 2 * time.Millisecond}, lines: map[string]*issuer.Sequence{},
		given: map[string]<-chan struct{}{}}
	c := counter.Config{Store: r.store, Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	if base := time.Now().Truncate(time.Second); len(polls) > 0 {
		c.NextPoll = func() time.Duration { return time.Second - time.Since(base)%time.Second }
	}
	r.Keeper = counter.NewKeeper(c)
	r.Start()
	r.stop = sync.OnceValue(r.Stop)
	s.t.Cleanup(func() { r.stop() })
	s.rigs[name] = r
}

func (s *stage) do(words []string) string {
	if r := s.rigs[words[0]]; r != nil {
		return s.with(r, words)
	}
	return s.Do(words)
}

// with lets a Keeper do something, or its clients, and adds how long that took, and how many calls for blocks there
// were.
func (s *stage) with(r *rig, words []string) string {
	synctest.Wait() // nothing else runs
	began := time.Now()
	said := s.Do(words)
	synctest.Wait()
	if passed := time.Since(began).Round(100 * time.Millisecond); passed > 0 {
		said += fmt.Sprintln("after", passed)
	}
	if n := r.store.calls.Swap(0); n > 0 {
		said += fmt.Sprintf("reserved %d times\n", n)
	}
	for _, name := range slices.Sorted(maps.Keys(s.terms)) {
		if n := s.terms[name].calls.Swap(0); n > 0 {
			said += fmt.Sprintf("%d calls within the %s term\n", n, name)
		}
	}
	return said
}

// add adds a sequence, whose blocks come from a term, or else from the Keeper's store.
func (s *stage) add(r *rig, words ...string) {
	var store counter.Store
	if i := slices.Index(words, "in"); i >= 0 {
		within := term{r.store, new(atomic.Bool), new(atomic.Int64)}
		s.terms[words[i+1]], store = within, within
	}
	record, err := r.store.Define(context.Background(), s.Definition(words))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.first.Name == "" && record.Name == "orders" {
		s.first = record
	}
	status, ring := r.Of(record.Name)
	line := issuer.NewSequence(issuer.SequenceConfig{Definition: record.Definition, MaxWait: time.Second, Status: status,
		Ring: ring, Wake: func() {}})
	r.lines[record.Name] = line
	if err := r.Add(record, line, 0, store); err != nil {
		s.t.Fatal(err)
	}
	if err := r.Add(record, line, 0, nil); err == nil {
		s.t.Error("added twice")
	}
}

func drain(line *issuer.Sequence) {
	for figureOf[int64](line, "at_hand") > 0 {
		take(line, 10)
		synctest.Wait() // what it asks the store for depends on how much is left then
	}
}

// uses takes so many values a second for a time.
func uses(r *rig, name string, rate float64, d time.Duration) string {
	line, owed := r.lines[name], 0.0
	before := figureOf[uint64](line, "waits")
	for range d / (10 * time.Millisecond) {
		time.Sleep(10 * time.Millisecond)
		for owed += rate / 100; owed >= 1; {
			run, err := take(line, int(owed))
			if err != nil {
				return err.Error()
			}
			owed -= float64(run.N)
		}
		synctest.Wait()
	}
	return fmt.Sprintf("waited %d times", figureOf[uint64](line, "waits")-before)
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
