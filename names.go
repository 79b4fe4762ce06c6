package katsubushi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
)

// A Name issues ids of a kind of its own, see IDs.Name. Any goroutine may call its methods.
type Name struct {
	of         *IDs
	definition kinds.Definition
	source     id.Source
	clock      *clock.Clock
	texts      bool // its ids are texts
}

// ID is IDs.ID for this name.
func (n *Name) ID(ctx context.Context) (v uint64, err error) {
	if !n.texts && ctx.Err() == nil {
		if run, err := n.source.Mint(id.At(n.clock.Now()), 1, false); err == nil {
			return run.First, nil
		}
	}
	err = n.take(ctx, 1, false, func(r id.Run) { v = r.First })
	return v, err
}

// IDs is IDs.IDs for this name. The numbers of a sequence need not be neighbours.
func (n *Name) IDs(ctx context.Context, count int) ([]uint64, error) {
	if count < 1 || count > MaxIDs {
		return nil, fmt.Errorf("katsubushi: %w: %d", ErrCount, count)
	}
	ids := make([]uint64, count)
	rest, runs := ids, 0
	if err := n.take(ctx, count, false, func(r id.Run) {
		v := r.First
		for i := range rest[:r.N] {
			rest[i] = v
			v += r.Stride
		}
		rest = rest[r.N:]
		runs++
	}); err != nil {
		return nil, err
	}
	if runs > 1 { // of several lanes
		slices.Sort(ids)
	}
	return ids, nil
}

// Text returns an id of a kind that is a text, such as a UUID. Of other kinds it returns the number as text. The errors
// are those of ID.
func (n *Name) Text(ctx context.Context) (text string, err error) {
	err = n.take(ctx, 1, true, func(r id.Run) { text = string(r.Append(nil, 0)) })
	return text, err
}

// String returns the definition of the name.
func (n *Name) String() string { return n.definition.String() }

// take takes ids until there are count, and waits while there are none.
func (n *Name) take(ctx context.Context, count int, text bool, got func(id.Run)) error {
	if err := ctx.Err(); err != nil {
		return n.of.ended(ctx, nil)
	}
	if n.texts && !text {
		return fmt.Errorf("katsubushi: %w: ids of %q are texts: call Text", ErrRefused, n)
	}
	if err := n.of.over(); err != nil { // random texts need no worker id
		return err
	}
	for left := count; left > 0; {
		rung := n.of.bell.Next() // before the source is asked: no window may be missed
		run, err := n.source.Mint(id.At(n.clock.Now()), left, count > 1)
		if err == nil {
			got(run)
			left -= run.N
		} else if err = n.of.wait(ctx, rung, err); err != nil {
			return err
		}
	}
	return nil
}

// names are what IDs.Name has declared, and what sequences need.
type names struct {
	defining chan struct{} // held by whoever defines a name

	mu    sync.Mutex
	known map[string]*Name

	store  counter.Store // nil = there is none
	keeper *counter.Keeper
	end    context.CancelFunc
	ended  chan error
}

// start keeps sequences in values until stop.
func (n *names) start(w *windows.Config) {
	if n.store == nil {
		return
	}
	n.keeper = counter.NewKeeper(counter.Config{Store: n.store, Log: w.Log})
	var ctx context.Context
	ctx, n.end = context.WithCancel(context.Background())
	n.ended = make(chan error, 1)
	go func() {
		err := n.keeper.Run(ctx)
		if err = errors.Join(err, n.store.Close()); err != nil {
			w.Log.Warn("values of sequences are lost: they were not given back", "error", err)
		}
		n.ended <- err
	}()
}

func (n *names) stop() {
	if n.end != nil {
		n.end()
		<-n.ended
	}
}

// Name returns what issues the ids of a definition, in the form of the daemon's flag: `sessions uuid7`, `old snowflake
// layout=instagram`, `orders sequence start=1000`. A name has one definition, and always the same *Name. A sequence is
// recorded in Config.Counters, unless it is already. The error says what is wrong with the definition, that the name is
// recorded as another one, or that the store of sequences did not answer.
func (s *IDs) Name(ctx context.Context, definition string) (*Name, error) {
	def, err := kinds.Parse(definition)
	if err != nil {
		return nil, fmt.Errorf("katsubushi: %w: %w", ErrRefused, err)
	}
	if n, err := s.known(def); n != nil || err != nil {
		return n, err
	}
	select { // one asks the store at a time
	case s.names.defining <- struct{}{}:
		defer func() { <-s.names.defining }()
	case <-s.closed:
		return nil, s.over()
	case <-ctx.Done():
		return nil, s.ended(ctx, errors.New("another name is being defined"))
	}
	n, err := s.known(def)
	if n != nil || err != nil {
		return n, err
	}
	n = &Name{of: s, definition: def, clock: s.main.clock}
	if n.source, err = s.source(ctx, def); err != nil {
		return nil, fmt.Errorf("katsubushi: %q: %w", def, err)
	}
	_, n.texts = n.source.(id.Texter)
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	s.names.known[def.Name] = n
	return n, nil
}

// known returns the Name of a definition, or nil.
func (s *IDs) known(def kinds.Definition) (*Name, error) {
	if err := s.over(); err != nil {
		return nil, err
	}
	s.names.mu.Lock()
	defer s.names.mu.Unlock()
	n := s.names.known[def.Name]
	if n != nil && n.definition != def {
		return nil, fmt.Errorf("katsubushi: %w: %q is %q already", ErrRefused, def, n)
	}
	return n, nil
}

// source makes what issues the ids of a definition.
func (s *IDs) source(ctx context.Context, def kinds.Definition) (id.Source, error) {
	if def.Kind == kinds.Sequence {
		return s.sequence(ctx, def)
	}
	kind, err := s.holder.Issuer.Kind(def)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return kind.Source(0), nil
}

// sequence records a sequence, and makes what issues its values.
func (s *IDs) sequence(ctx context.Context, def kinds.Definition) (id.Source, error) {
	switch {
	case def.Strict:
		return nil, fmt.Errorf("%w: in strict order one process at a time issues for all others: "+
			"declare the name to daemons, and ask them with package client", ErrRefused)
	case s.names.store == nil:
		return nil, fmt.Errorf("%w: Config.Counters is needed, which records sequences", ErrRefused)
	}
	r, err := s.names.store.Define(ctx, def.Definition)
	if err == nil {
		err = kinds.Compare(def, r)
	}
	if err != nil {
		return nil, err
	}
	status, ring := s.names.keeper.Of(def.Name)
	q := issuer.NewSequence(issuer.SequenceConfig{
		Definition: r.Definition, MaxWait: math.MaxInt64, Wake: s.bell.Ring, Ring: ring, Status: status,
	})
	if err := s.names.keeper.Add(r, q, def.Batch, nil); err != nil {
		return nil, err
	}
	return q, nil
}

var (
	_ Source = (*IDs)(nil)
	_ Source = (*Name)(nil)
	_ Source = (*client.Client)(nil)
	_ Source = (*client.Generator)(nil)
)
