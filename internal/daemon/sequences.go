package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// sequences is what the sequences of a daemon share: their store, and the keeper that reserves blocks
// there. A daemon without a sequence opens no store.
type sequences struct {
	mu      sync.Mutex
	store   stores.CounterStore // nil until the first sequence
	keeper  *counter.Keeper
	stop    context.CancelFunc // of the keeper
	ended   chan error         // its result
	stopped bool
}

// defineTimeout is how long the daemon waits at the start until a sequence is recorded.
const defineTimeout = 30 * time.Second

func (c *Config) checkSequence(kinds.Definition) error {
	if c.Counters.Nowhere() {
		return stores.NoPlace
	}
	return nil
}

// openSequence records a sequence, unless it is recorded already, and makes what issues its values.
func (d *Daemon) openSequence(def kinds.Definition) (issuer.Kind, error) {
	q := &d.sequences
	if err := q.open(d.c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defineTimeout)
	defer cancel()
	r, err := q.store.Define(ctx, stores.Recorded(def))
	if err != nil {
		return nil, err
	}
	if err := stores.Compare(def, r); err != nil {
		return nil, err
	}
	name := def.Name
	s := issuer.NewSequence(issuer.SequenceConfig{
		Definition: r.Definition, MaxWait: d.c.MaxWait, Wake: d.wakeAll,
		Status: func() counter.Status { s, _ := q.keeper.Status(name); return s },
		Ring:   func() { q.keeper.Ring(name) },
	})
	if err := q.keeper.Add(r, s, def.Batch); err != nil {
		return nil, err
	}
	return sequence{s, name, q.keeper}, nil
}

// A sequence is a Kind that can be taken back before anybody asks it: Close is only called then, and
// after the keeper has ended.
type sequence struct {
	*issuer.Sequence
	name   string
	keeper *counter.Keeper
}

func (s sequence) Close() error {
	s.keeper.Drop(s.name)
	return nil
}

// open opens the store and starts the keeper, if the first sequence is being opened.
func (q *sequences) open(c Config) (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped:
		return context.Canceled
	case q.store != nil:
		return nil
	}
	settings := c.Counters
	settings.AnyDisk, settings.Log = c.AnyDisk, c.Log
	store, err := settings.Open()
	if err != nil {
		return err
	}
	q.store = store
	q.keeper = counter.NewKeeper(counter.Config{Store: store, Log: c.Log})
	ctx, cancel := context.WithCancel(context.Background())
	q.stop, q.ended = cancel, make(chan error, 1)
	go func() { q.ended <- q.keeper.Run(ctx) }()
	return nil
}

// giveBackSequences stops all sequences for good. What they have not issued goes back to the store, so
// that no gap is left.
func (d *Daemon) giveBackSequences() {
	q := &d.sequences
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped = true; q.store == nil {
		return
	}
	q.stop()
	if err := <-q.ended; err != nil {
		d.c.Log.Warn("values of sequences are lost: they were not given back", "error", err)
	}
	if err := q.store.Close(); err != nil {
		d.c.Log.Warn("the counter store was not closed", "error", err)
	}
}
