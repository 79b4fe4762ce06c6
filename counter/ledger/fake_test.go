package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

var bg = context.Background()

// A fake is the driver in memory, and whatever a test wants to happen between.
type fake struct {
	ledger.Driver
	db           *memcounter.Database
	loads, swaps int
	do           func(ctx context.Context, f func() error) error
	before       func() error                                                        // each Swap
	after        func([]ledger.Write, []ledger.Found, error) ([]ledger.Found, error) // each Swap, with its results
	edit         func(*ledger.Found)                                                 // what is read
	made         func(ledger.Entry) (ledger.Entry, error)                            // by New
	wrong        error                                                               // of whatever is read
	admit        func(ledger.Fence, ledger.Found) error
}

func newFake() *fake {
	db := memcounter.NewDatabase()
	return &fake{Driver: db.Driver(), db: db}
}

// words are distinct ones, each with all that may stand in it.
var words = func() (w ledger.Words) {
	for name, to := range map[string]*string{
		"unknown": &w.Unknown, "lost": &w.Lost, "again": &w.Again, "set back": &w.SetBack, "unanswered": &w.Unanswered,
	} {
		*to = name + " {NAME} at {AT}, next {NEXT}, granted {GRANTED}, least {LEAST}"
	}
	return w
}()

func (f *fake) open(t ledger.Traits) *ledger.Ledger { return ledger.New(f, t, nil) }

func (f *fake) Do(ctx context.Context, g func() error) error {
	if f.do != nil {
		return f.do(ctx, g)
	}
	return f.Driver.Do(ctx, g)
}

func (f *fake) At(name string) string { return "@" + name }

func (f *fake) NoAnswer(name string, cause error) error {
	return ledger.As(counter.ErrUnavailable, errors.Join(errors.New("no answer about "+name), cause))
}

func (f *fake) New(found ledger.Found, d counter.Definition, token string) (ledger.Entry, error) {
	e, err := f.Driver.New(found, d, token)
	if f.made != nil {
		return f.made(e)
	}
	return e, err
}

func (f *fake) see(found []ledger.Found, err error) ([]ledger.Found, error) {
	for i := range found {
		if f.edit != nil {
			f.edit(&found[i])
		}
	}
	return found, cmp.Or(err, f.wrong)
}

func (f *fake) Load(ctx context.Context, names []string) ([]ledger.Found, error) {
	f.loads++
	return f.see(f.Driver.Load(ctx, names))
}

func (f *fake) Changes(ctx context.Context) (string, error) {
	now, err := f.Driver.Changes(ctx)
	return now, cmp.Or(err, f.wrong)
}

func (f *fake) All(ctx context.Context) ([]ledger.Found, error) { return f.see(f.Driver.All(ctx)) }

func (f *fake) Swap(ctx context.Context, fence ledger.Fence, writes []ledger.Write) (now []ledger.Found, err error) {
	f.swaps++
	if f.before != nil {
		err = f.before()
	}
	if err == nil {
		now, err = f.see(f.Driver.Swap(ctx, fence, writes))
	}
	if f.after != nil {
		return f.after(writes, now, err)
	}
	return now, err
}

func (f *fake) Admit(fence ledger.Fence, found ledger.Found) error {
	if f.admit != nil {
		return f.admit(fence, found)
	}
	return nil
}

// inTurn makes calls wait for each other: several rests are given back at once, and the fake counts without a lock.
func (f *fake) inTurn() {
	var mu sync.Mutex
	f.do = func(_ context.Context, g func() error) error {
		mu.Lock()
		defer mu.Unlock()
		return g()
	}
}

// lose makes the next n Swaps be carried out without an answer.
func (f *fake) lose(n int) {
	f.after = func(_ []ledger.Write, now []ledger.Found, err error) ([]ledger.Found, error) {
		if n--; n >= 0 {
			return nil, ledger.As(counter.ErrUnavailable, errors.New("the answer is lost"))
		}
		return now, err
	}
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

// born makes New's entries such ones.
func (f *fake) born(e entry) {
	f.made = func(plain ledger.Entry) (ledger.Entry, error) {
		made := e
		made.Record = *plain.Plain()
		return &made, nil
	}
}

var define, refused = countertest.Define, countertest.Refused

// reserve wants ten values from lo on.
func reserve(t *testing.T, s counter.Store, lo uint64) counter.Block {
	t.Helper()
	return countertest.Reserve(t, s, 10, lo)
}

// soon is a context that ends while a call is tried again.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(bg, 250*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// failed is the error of a call.
func failed(_ any, err error) error { return err }
