package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

var bg = context.Background()

// A fake is the driver in memory, and whatever a test wants to happen between.
type fake struct {
	ledger.Driver
	db *memcounter.Database
	t  *testing.T

	mu       sync.Mutex
	calls    map[string]int  // of the driver's methods, since a command began
	held     map[string]bool // locks
	lost     int             // so many Swaps are still to be carried out without an answer
	errs     map[string]error
	edit     func(*ledger.Found) // what is read
	hooks    map[string][]func() // what happens meanwhile, by where
	made     func(*counter.Record) ledger.Entry
	now      bool // a Swap that comes too late says what is there now
	notes    map[string]string
	noted    string // the changes that those have learnt which have learnt of everything
	runs     bool   // daemons whose notes are old still run
	settles  bool   // as long as there is a record
	notFirst bool   // without the lock a record seems damaged
}

func newFake(t *testing.T) *fake {
	db := memcounter.NewDatabase()
	return &fake{Driver: db.Driver(), db: db, t: t, calls: map[string]int{}, errs: map[string]error{},
		hooks: map[string][]func(){}, notes: map[string]string{},
		held: map[string]bool{}, settles: true}
}

const all = " {NAME} at {AT}, next {NEXT}, granted {GRANTED}, least {LEAST}"

// words are distinct ones, each with all that may stand in it.
var words = ledger.Words{Unknown: "unknown" + all, Lost: "lost" + all, Again: "again" + all, SetBack: "set back" + all,
	Unanswered: "unanswered" + all}

// count counts a call, and returns its error.
func (f *fake) count(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[what]++
	return f.errs[strings.Fields(what)[0]]
}

// meanwhile lets happen what is to happen there.
func (f *fake) meanwhile(where string) {
	if list := f.hooks[where]; len(list) > 0 {
		f.hooks[where] = list[1:]
		list[0]()
	}
}

func (f *fake) Do(ctx context.Context, g func() error) error {
	err := f.errs["do"]
	switch {
	case err == nil:
		return f.Driver.Do(ctx, g)
	case err.Error() == "stalls":
		<-ctx.Done()
		return nil
	}
	if more, ok := strings.CutPrefix(err.Error(), "adds "); ok {
		return errors.Join(g(), errors.New(more))
	}
	return err
}

func (f *fake) At(name string) string { return "@" + name }
func (f *fake) Close() error          { return f.errs["close"] }

func (f *fake) NoAnswer(name string, cause error) error {
	return ledger.As(counter.ErrUnavailable, fmt.Errorf("no answer about %s: %w", name, cause))
}

func (f *fake) New(found ledger.Found, d counter.Definition, token string) (ledger.Entry, error) {
	e, err := f.Driver.New(found, d, token)
	if f.made != nil && err == nil {
		e = f.made(e.Plain())
	}
	return e, cmp.Or(err, f.errs["new"])
}

func (f *fake) see(found []ledger.Found, err error) ([]ledger.Found, error) {
	for i := range found {
		if f.edit != nil {
			f.edit(&found[i])
		}
		if f.notFirst && len(f.held) == 0 && !found[i].Unread {
			found[i] = ledger.Found{Name: found[i].Name, Fault: counter.ErrDamaged}
		}
	}
	return found, cmp.Or(err, f.errs["read"])
}

func (f *fake) Load(ctx context.Context, names []string) ([]ledger.Found, error) {
	f.count("load")
	f.meanwhile("load")
	return f.see(f.Driver.Load(ctx, names))
}

func (f *fake) Changes(ctx context.Context) (string, error) {
	now, err := f.Driver.Changes(ctx)
	return now, cmp.Or(err, f.errs["read"])
}

func (f *fake) All(ctx context.Context) ([]ledger.Found, error) {
	f.meanwhile("list")
	all, err := f.Driver.All(ctx)
	f.meanwhile("listed")
	return f.see(all, err)
}

func (f *fake) Swap(ctx context.Context, fence ledger.Fence, writes []ledger.Write) (now []ledger.Found, err error) {
	what := fmt.Sprint("swap", map[bool]string{true: " announced"}[writes[0].Announce],
		map[bool]string{true: " gap"}[writes[0].Gap], map[bool]string{true: " failed"}[writes[0].Failed != nil])
	if err = f.count(what); err == nil {
		f.meanwhile("swap")
		now, err = f.see(f.Driver.Swap(ctx, fence, writes))
	}
	if f.now && errors.Is(err, ledger.ErrAgain) {
		now, _ = f.Driver.Load(ctx, []string{writes[0].Next.Plain().Name})
	}
	f.mu.Lock()
	f.lost--
	lost := f.lost >= 0
	f.mu.Unlock()
	f.meanwhile("swapped")
	if lost {
		return nil, ledger.As(counter.ErrUnavailable, errors.New("the answer is lost"))
	}
	return now, cmp.Or(err, f.errs["swapped"])
}

func (f *fake) Admit(fence ledger.Fence, found ledger.Found) error {
	if fence != nil {
		f.count(fmt.Sprint("admit ", fence))
	}
	return f.errs["admit"]
}

// Prepare implements ledger.Preparer.
func (f *fake) Prepare() error { return f.errs["prepare"] }

// A locking driver's record is read and written under a lock.
type locking struct{ *fake }

func (l locking) Lock(_ context.Context, name string) (func() error, error) {
	if err := l.count("lock"); err != nil {
		return nil, err
	}
	l.held[name] = true
	return func() error {
		delete(l.held, name)
		return l.errs["unlock"]
	}, nil
}

func (l locking) Swap(ctx context.Context, fence ledger.Fence, w []ledger.Write) ([]ledger.Found, error) {
	if name := w[0].Next.Plain().Name; !l.held[name] {
		l.t.Errorf("%s is written without its lock", name)
	}
	return l.fake.Swap(ctx, fence, w)
}

// A settling driver is one of a store that may lose what it has confirmed.
type settling struct{ *fake }

func (s settling) Settle(ctx context.Context, name string, operator bool) (ledger.Found, error) {
	err := s.count(fmt.Sprint("settle ", name, map[bool]string{true: " of an operator"}[operator]))
	if !s.settles {
		return ledger.Found{Name: name}, nil
	}
	found, err2 := s.Driver.Load(ctx, []string{name})
	if err = errors.Join(err, err2); err == nil {
		e := found[0].Entry.Copy().(*entry)
		e.birth, e.unsettled, e.Token = "settled", false, e.Token+"'"
		_, err = s.Driver.Swap(ctx, nil, []ledger.Write{{Found: found[0], Next: e}})
		found[0].Entry = e
	}
	return found[0], err
}

// A noting driver keeps notes in a map.
type noting struct{ *fake }

func (n noting) Learnt(since string) string { return "<" + since + ">" }

func (n noting) Sign(_ context.Context, text string) error {
	_, n.notes["me"], _ = strings.Cut(text, "/")
	return n.count("sign")
}

func (n noting) Notes(context.Context) (map[string]string, string, error) {
	return maps.Clone(n.notes), n.noted, n.errs["notes"]
}

func (n noting) Forget(_ context.Context, key string) (bool, error) {
	if !n.runs {
		delete(n.notes, key)
	}
	return !n.runs, n.errs["notes"]
}

// counted are the calls since it was asked last.
func (f *fake) counted() string {
	var calls []string
	for _, call := range slices.Sorted(maps.Keys(f.calls)) {
		if call[0] != '(' {
			call = fmt.Sprint(call, " ", f.calls[call])
		}
		calls = append(calls, call)
	}
	clear(f.calls)
	return strings.Join(calls, ", ")
}

// An entry has what some stores have: births, and losses.
type entry struct {
	ledger.Basic
	birth     string
	adopt     bool
	unsettled bool
}

func (e *entry) Copy() ledger.Entry {
	c := *e
	return &c
}

func (e *entry) Birth() string { return e.birth }

func (e *entry) Adopt(token string) bool {
	if !e.adopt {
		return false
	}
	e.Next, e.Token, e.adopt = e.Next+100, token, false
	return true
}

func (e *entry) Reserve(n uint64, token string) (counter.Block, error) {
	if e.unsettled {
		return counter.Block{}, ledger.ErrUnsettled
	}
	return e.Record.Reserve(n, token)
}

// A term is a Fence of sequences whose names begin so.
type term string

func (p term) Check(name string) error {
	if !strings.HasPrefix(name, string(p)) {
		return fmt.Errorf("%w: %s", counter.ErrDeposed, name)
	}
	return nil
}
