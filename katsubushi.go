// Package katsubushi makes unique, roughly time-ordered 64-bit ids inside a Go program, beside other programs and
// daemons that lease worker ids from the same pool. No daemon is asked for an id.
//
//	ids, err := katsubushi.Open(ctx, katsubushi.Config{Store: redis.Leased("redis://localhost:6379")})
//	if err != nil {
//		return err
//	}
//	defer ids.Close()
//	id, err := ids.ID(ctx)
//
// The pool is one that daemons use too; `katsubushi lease init` makes it. The functions Leased of the packages
// workerid/redis, workerid/etcd and workerid/zookeeper name one, and bring the client library of their store with
// them. Dir of workerid/static needs no store: somebody gives each program a worker id.
//
// The guarantee: no two ids are equal, of all programs and daemons of a pool, whatever clocks, pauses, crashes and
// fail-overs do. It is the daemon's, by the same code, with the conditions of docs/PROMISE.md. The ids of one lane are
// in the order in which they were issued.
//
// A copy of a running program is outside of it, as of a running daemon: a machine or container that was snapshotted
// and goes on twice. The copy may repeat ids until it has asked its store, a heartbeat later, where it learns that the
// lease is another's; with files, for the rest of its window, at most half a minute. Close before a snapshot, and Open
// after it. A restored state directory is noticed; one that is used on two hosts is not.
//
// # When a daemon is better
//
//	more processes than worker ids (1,023)   each process leases one
//	other languages                          they ask a daemon with any client of memcached or Redis
//	programs that live for a second          a start takes some 30 ms with Redis, 4.5 s with etcd and ZooKeeper;
//	                                         after a kill the worker id is free a lease later
//	sequences in strict order                one process at a time issues them for all others
//
// Package client asks daemons and has the same methods, so a program changes by one line. Source is both.
package katsubushi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A Source issues ids: an *IDs, a *Name, a *client.Client or a *client.Generator. Any goroutine may call its methods.
type Source interface {
	// ID returns an id: (0, err) or (not 0, nil).
	ID(ctx context.Context) (uint64, error)
	// IDs returns n different ids, 1 to MaxIDs, in increasing order, or an error and none.
	IDs(ctx context.Context, n int) ([]uint64, error)
}

// MaxIDs is how many ids one call of IDs returns at most.
const MaxIDs = client.MaxIDs

// The errors, for errors.Is. They are those of package client, so that who asks need not know which of the two it has.
var (
	ErrClosed  = client.ErrClosed  // of calls that Close ended, and of all later ones. Do not retry
	ErrUnready = client.ErrUnready // no id could be issued until ctx ended; the text says why. Retry later
	ErrRefused = client.ErrRefused // a retry does not help: a sequence has ended, a name is not of that kind
	ErrCount   = client.ErrCount   // IDs was asked for fewer than one id, or for more than MaxIDs
)

// IDs are a program's right to issue ids, until Close. A program needs one. Any goroutine may call its methods. It must
// not be copied.
type IDs struct {
	main   *Name
	holder *windows.Holder
	bell   issuer.Bell
	closed chan struct{}
	once   sync.Once

	names names
}

// Open makes IDs and waits until ids can be issued, which is when there is a worker id, or until ctx ends. The error
// has everything that is wrong with the Config; or it says what Open waited for, and is an ErrUnready. A pool with
// another layout or other settings is an ErrRefused. After an error Config.Counters is open, for another Open.
func Open(ctx context.Context, c Config) (*IDs, error) {
	s := &IDs{closed: make(chan struct{}), names: names{
		store: c.Counters, known: map[string]*Name{}, defining: make(chan struct{}, 1),
	}}
	foreign := make(chan error, 1)
	w, err := c.settle(foreign)
	if err != nil {
		return nil, err
	}
	w.Wake = s.bell.Ring
	s.holder = windows.New(w)
	s.main = &Name{of: s, clock: s.holder.Clock, source: s.holder.Issuer.Source(0)}
	if err := s.holder.Open(); err != nil {
		s.holder.Stop(false)
		if errors.Is(err, workerid.ErrForeignPool) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, fmt.Errorf("katsubushi: %w", err)
	}
	s.holder.Start()
	select {
	case <-s.holder.Serving():
		s.names.start(&w)
		return s, nil
	case err = <-foreign:
		err = fmt.Errorf("katsubushi: %w: %w", ErrRefused, err)
	case <-ctx.Done():
		err = s.ended(ctx, s.Err())
	}
	s.Close()
	return nil, err
}

// ID returns an id: (0, err) or (not 0, nil). If ctx has ended, it returns none. It waits only while there is none: for
// a worker id, for the store, or for the next tick if the program is faster than the layout; until ctx ends. The error
// is then an ErrUnready and that of ctx, and says what was waited for.
func (s *IDs) ID(ctx context.Context) (uint64, error) { return s.main.ID(ctx) }

// IDs returns n different ids, 1 to MaxIDs, in increasing order, or an error and none. The errors are those of ID, and
// ErrCount. The caller owns the slice.
func (s *IDs) IDs(ctx context.Context, n int) ([]uint64, error) { return s.main.IDs(ctx, n) }

// Close gives the worker ids back: no id is issued after it has returned. Calls that wait end with ErrClosed. What
// sequences have not issued goes back to Config.Counters, which Close closes. It always returns nil, a second time too.
func (s *IDs) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.names.stop()
		s.holder.Stop(false)
	})
	return nil
}

// Err returns why no id can be issued at this moment, or nil.
func (s *IDs) Err() error {
	err := s.holder.Issuer.Ready(s.holder.Clock.Now())
	if err == nil {
		return nil
	}
	return errors.New(s.holder.Explain(err))
}

// A Status is what is known of the right to issue.
type Status struct {
	Err   error // why no id can be issued; nil = they are
	Lanes []workerid.LaneStatus
}

// Workers returns the worker ids.
func (s Status) Workers() (list []uint64) {
	for _, lane := range s.Lanes {
		if windows.HasWorker(lane) {
			list = append(list, lane.Worker)
		}
	}
	return list
}

// Status returns what is known at this moment.
func (s *IDs) Status() Status { return Status{s.Err(), s.holder.Lanes()} }

// Figures is for package collector.
func (s *IDs) Figures(emit func(figure.Figure)) {
	windows.ReadyFigures(s.Err(), emit)
	s.holder.RefusalFigures(emit)
	s.holder.Figures(emit)
}

// wait waits because there was no id for the reason why: until rung is closed, or until it is worth asking again. The
// error says that there will be none.
func (s *IDs) wait(ctx context.Context, rung <-chan struct{}, why error) error {
	pause := issuer.Patience
	refusal, ok := errors.AsType[*issuer.Refusal](why)
	final, never := why.(interface{ Final() bool })
	switch {
	case never && final.Final(), ok && refusal.Reason == issuer.TimeFieldEnd:
		return fmt.Errorf("katsubushi: %w: %w", ErrRefused, why)
	case ok && (refusal.Reason == issuer.RateExceeded || refusal.Reason == issuer.ClockBehind):
		pause = issuer.MaxWait // nobody rings
	}
	again := time.NewTimer(pause)
	defer again.Stop()
	select {
	case <-s.closed:
		return fmt.Errorf("katsubushi: %w", ErrClosed)
	case <-ctx.Done():
		return s.ended(ctx, why)
	case <-rung:
	case <-again.C:
	}
	return nil
}

// over returns ErrClosed after Close.
func (s *IDs) over() error {
	select {
	case <-s.closed:
		return fmt.Errorf("katsubushi: %w", ErrClosed)
	default:
		return nil
	}
}

// ended is the error of a call whose ctx has ended before there was an id.
func (s *IDs) ended(ctx context.Context, why error) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if why == nil {
		return fmt.Errorf("katsubushi: %w", err)
	}
	if _, ok := errors.AsType[*issuer.Refusal](why); ok {
		why = errors.New(s.holder.Explain(why))
	}
	return fmt.Errorf("katsubushi: %w: %w: %w", err, ErrUnready, why)
}
