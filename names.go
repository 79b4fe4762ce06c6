package katsubushi

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// A Name issues ids of a kind of its own, see IDs.Name. Any goroutine may call its methods.
type Name struct {
	of         *IDs
	definition kinds.Definition
	source     id.Source
	clock      *clock.Clock
	texts      bool         // its ids are texts
	lack       func() error // of a sequence: why there is no value; nil = not a sequence
}

// ID is IDs.ID for this name.
func (n *Name) ID(ctx context.Context) (uint64, error) {
	run, err := n.take(ctx, 1, false)
	return run.First, err
}

// IDs is IDs.IDs for this name. The numbers of a sequence need not be neighbours.
func (n *Name) IDs(ctx context.Context, count int) ([]uint64, error) {
	if count < 1 || count > MaxIDs {
		return nil, fmt.Errorf("katsubushi: %w: %d", ErrCount, count)
	}
	var ids []uint64
	for done := 0; done < count; {
		run, err := n.take(ctx, count-done, count > 1)
		if err != nil {
			return nil, err
		}
		if ids == nil { // not earlier: to take atomically waits until memory that was made is cleared
			ids = make([]uint64, count)
		}
		run.Fill(ids[done:])
		if done += run.N; run.N < count && done == count { // runs of several lanes
			slices.Sort(ids)
		}
	}
	return ids, nil
}

// Text returns an id of a kind that is a text, such as a UUID. Of other kinds it returns the number as text. The errors
// are those of ID.
func (n *Name) Text(ctx context.Context) (string, error) {
	run, err := n.insist(ctx, 1, false)
	if err != nil {
		return "", err
	}
	return string(run.Append(nil, 0)), nil
}

// String returns the definition of the name.
func (n *Name) String() string { return n.definition.String() }

// take takes 1 to count ids, which are numbers. bulk says that they are for IDs.
func (n *Name) take(ctx context.Context, count int, bulk bool) (id.Run, error) {
	if n.texts {
		return id.Run{}, fmt.Errorf("katsubushi: %w: ids of %q are texts: call Text", ErrRefused, n)
	}
	if ctx.Err() == nil {
		if run, err := n.source.Mint(id.At(n.clock.Now()), count, bulk); err == nil {
			return run, nil
		}
	}
	return n.insist(ctx, count, bulk)
}

// insist waits while there are no ids.
func (n *Name) insist(ctx context.Context, count int, bulk bool) (id.Run, error) {
	if err := n.of.over(ctx); err != nil { // random texts need no worker id
		return id.Run{}, err
	}
	for {
		rung := n.of.bell.Next() // before the source is asked: no window may be missed
		run, err := n.source.Mint(id.At(n.clock.Now()), count, bulk)
		if err == nil {
			return run, nil
		}
		if err == id.ErrWait && n.lack != nil {
			err = cmp.Or(n.lack(), err)
		}
		if err = n.of.wait(ctx, rung, err); err != nil {
			return id.Run{}, err
		}
	}
}

// Name returns what issues the ids of a definition, in the form of the daemon's flag: `sessions uuid7`, `old snowflake
// layout=instagram`, `orders sequence start=1000`. A name has one definition, and always the same *Name. A sequence is
// recorded in Config.Counters, unless it is already; its order is free, since in strict order one process at a time
// issues for all others, which daemons do. The error says what is wrong with the definition, that the name is recorded
// as another one, or that the store of sequences did not answer.
func (s *IDs) Name(ctx context.Context, definition string) (*Name, error) {
	s = s.main.of // a copy of IDs is the same
	def, err := kinds.Parse(definition)
	if err != nil {
		return nil, fmt.Errorf("katsubushi: %w: %w", ErrRefused, err)
	}
	n, err := s.declare(ctx, def, nil)
	if n == nil && err == nil {
		var r counter.Record
		if r, err = s.record(ctx, def); err == nil { // others need not wait for the store
			n, err = s.declare(ctx, def, &r)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("katsubushi: %q: %w", def, err)
	}
	return n, nil
}

// record records a sequence in the store.
func (s *IDs) record(ctx context.Context, def kinds.Definition) (counter.Record, error) {
	switch {
	case def.Strict:
		return counter.Record{}, fmt.Errorf("%w: in strict order one process at a time issues for all others: "+
			"declare the name to daemons, and ask them with package client", ErrRefused)
	case s.counters == nil:
		return counter.Record{}, fmt.Errorf("%w: Config.Counters is needed, which records sequences", ErrRefused)
	}
	r, err := s.counters.Define(ctx, def.Definition)
	if err == nil {
		err = kinds.Compare(def, r)
	}
	return r, err
}

// declare returns the Name of a definition, and makes it if it is new. It returns nil if that is a sequence and needs a
// record.
func (s *IDs) declare(ctx context.Context, def kinds.Definition, r *counter.Record) (*Name, error) {
	s.naming.Lock()
	defer s.naming.Unlock()
	if n := s.names[def.Name]; n != nil && n.definition != def {
		return nil, fmt.Errorf("%w: it is %q already", ErrRefused, n)
	} else if err := s.over(ctx); n != nil || err != nil {
		return n, err
	}
	var kind issuer.Kind
	var err error
	if !def.Recorded() {
		kind, err = s.holder.Issuer.Kind(def)
	} else if r != nil {
		kind, err = s.sequence(*r, def.Batch)
	} else {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	s.catalog.Declare([]issuer.Declared{{Definition: def, From: kind}})
	n := &Name{of: s, definition: def, clock: s.main.clock, source: s.handler.Named([]byte(def.Name))}
	_, n.texts = n.source.(id.Texter)
	if q, ok := kind.(*issuer.Sequence); ok {
		n.lack = q.Lack
	}
	s.names[def.Name] = n
	return n, nil
}

// sequence makes what issues the values of a record.
func (s *IDs) sequence(r counter.Record, batch uint64) (issuer.Kind, error) {
	status, ring := s.keeper.Of(r.Name)
	q := issuer.NewSequence(issuer.SequenceConfig{
		Definition: r.Definition, MaxWait: math.MaxInt64, Wake: s.bell.Ring, Ring: ring, Status: status,
	})
	return q, s.keeper.Add(r, q, batch, nil)
}
