package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A laterStore is a store of sequences that may not answer while the daemon starts. It records the
// definitions that are waiting before anything is reserved from them, and as soon as it can.
type laterStore struct {
	stores.CounterStore
	log *slog.Logger

	mu       sync.Mutex
	unlisted func([]counter.Record) // called with the first list of records; nil = it is known
	// called once, when none of pending is left after that; nil = it was, or no part waits
	settled func()
	pending map[string]kinds.Definition // not yet recorded, or compared with the record
	refused map[string]bool             // of those: it was logged that something is wrong
}

func newLaterStore(s stores.CounterStore, log *slog.Logger) *laterStore {
	return &laterStore{CounterStore: s, log: log, pending: map[string]kinds.Definition{}, refused: map[string]bool{}}
}

// waits reports whether this daemon does not know yet what is recorded.
func (l *laterStore) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unlisted != nil
}

// settle records a definition if it is pending. The error says why nothing can be reserved.
func (l *laterStore) settle(ctx context.Context, name string) error {
	l.mu.Lock()
	def, ok := l.pending[name]
	l.mu.Unlock()
	if !ok {
		return nil
	}
	r, err := l.CounterStore.Define(ctx, def.Definition)
	if err == nil {
		err = kinds.Compare(def, r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		delete(l.pending, name)
		l.log.Info("a sequence is recorded", "sequence", name)
	case !errors.Is(err, counter.ErrUnavailable) && !l.refused[name]:
		l.refused[name] = true
		l.log.Error("a sequence cannot be served", "sequence", name, "error", err)
	}
	return err
}

// Reserve implements counter.Store.
func (l *laterStore) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	if err := l.settle(ctx, name); err != nil {
		return counter.Block{}, err
	}
	return l.CounterStore.Reserve(ctx, name, n)
}

// Advance implements counter.Timekeeper.
func (l *laterStore) Advance(ctx context.Context, name string, s counter.Span) (counter.Block, error) {
	return advance(ctx, l, l.CounterStore, name, s)
}

// advance records what is pending before timestamps are granted.
func advance(ctx context.Context, l *laterStore, to counter.Store, name string, s counter.Span) (counter.Block, error) {
	if err := l.settle(ctx, name); err != nil {
		return counter.Block{}, err
	}
	t, ok := to.(counter.Timekeeper)
	if !ok {
		return counter.Block{}, fmt.Errorf("%w: it grants no timestamps", counter.ErrOrder)
	}
	return t.Advance(ctx, name, s)
}

// within returns the store of a term of leadership. It too records what is pending before anything is
// reserved.
func (l *laterStore) within(term counter.Store) counter.Store { return termStore{term, l} }

type termStore struct {
	counter.Store
	later *laterStore
}

// Reserve implements counter.Store.
func (s termStore) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	if err := s.later.settle(ctx, name); err != nil {
		return counter.Block{}, err
	}
	return s.Store.Reserve(ctx, name, n)
}

// Advance implements counter.Timekeeper.
func (s termStore) Advance(ctx context.Context, name string, span counter.Span) (counter.Block, error) {
	return advance(ctx, s.later, s.Store, name, span)
}

// settleTimeout is how long a poll may wait for each pending definition.
const settleTimeout = time.Second

// Changes implements counter.Store.
func (l *laterStore) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	now, records, err = l.CounterStore.Changes(ctx, since)
	if err != nil {
		return now, records, err
	}
	l.mu.Lock()
	listed, names := l.unlisted, slices.Sorted(maps.Keys(l.pending))
	l.unlisted = nil
	l.mu.Unlock()
	if listed != nil {
		listed(records)
	}
	for _, name := range names {
		ctx, cancel := context.WithTimeout(ctx, settleTimeout)
		err := l.settle(ctx, name)
		cancel()
		if errors.Is(err, counter.ErrUnavailable) { // the others would not do better
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled != nil && len(l.pending) == 0 {
		l.settled()
		l.settled = nil
	}
	return now, records, nil
}

// errUnsure is what a client gets for a name that may be a sequence.
var errUnsure = errors.New("the counter store does not answer, and it may have a sequence of this name")

// waitForCounters lets the daemon start although the store of sequences does not answer. Until it does,
// this daemon does not know which names others have created: those must not stand for the default kind meanwhile. Nor
// may they while the store refuses a sequence of this daemon, because it may have been wiped.
func (n *Names) waitForCounters(why error) {
	n.given.Log.Error("the counter store does not answer: sequences, and names that are not declared here, wait for it",
		"error", why)
	n.Catalog.RefuseUnknown(true, errUnsure)
	learned := make(chan struct{})
	l := n.sequences.later
	l.unlisted = func(records []counter.Record) {
		go func() {
			n.learnSequences(records)
			n.given.Log.Info("the counter store answers: its sequences are served")
			n.noticeNone(records, n.c.Defined())
			close(learned)
		}()
	}
	l.settled = func() {
		go func() {
			<-learned
			n.Catalog.RefuseUnknown(n.c.RefuseUnknown, nil)
		}()
	}
}

// openLater makes what issues the values of a definition once that is recorded. Its size of a block is
// the definition's, not that of the record.
// why says what is wrong with its record; nil = nothing that is known.
func (n *Names) openLater(def kinds.Definition, why error) (issuer.Kind, error) {
	l := n.sequences.later
	l.mu.Lock()
	l.pending[def.Name] = def
	l.mu.Unlock()
	r := counter.NewRecord(def.Definition, "")
	r.Fault = why
	return n.keepSequence(r, def.Batch)
}
