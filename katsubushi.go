// Package katsubushi makes unique, roughly time-ordered 64-bit ids inside a Go program, beside other programs and
// daemons that lease worker ids from the same pool. No daemon is asked for an id.
//
//	ids, err := katsubushi.Open(ctx, katsubushi.Config{Store: redis.Leased("redis://localhost:6379")})
//	if err != nil {
//		return err
//	}
//	defer ids.Close()
//	id, err := ids.ID(ctx) // some 50 ns, and no garbage
//
// # Worker ids
//
// An id is 41 bits of time, 10 of a worker id that no other program has at that time, and 12 that count the ids of a
// millisecond; [Config.Layout] divides them otherwise. The worker id comes from [Config.Store]:
//
//	redis.Leased(URL)         workerid/redis      a pool that daemons use too; `katsubushi lease init` makes it
//	etcd.Leased(URL)          workerid/etcd       the same
//	zookeeper.Leased(URL)     workerid/zookeeper  the same
//	static.Dir(DIR, WORKER)   workerid/static     somebody gives each program a worker id, such as its pod's ordinal
//
// Each of these packages brings the client library of its store with it. This package links none.
//
// Other kinds of id, and sequences, have names: see [IDs.Name].
//
// # The guarantee
//
// No two ids are equal, of all programs and daemons of a pool, whatever clocks, pauses, crashes and fail-overs do. It
// is the daemon's, by the same code, with the conditions of docs/PROMISE.md. The ids of one lane are in the order in
// which they were issued; those of several, up to [Config.RunAhead] and the difference of clocks.
//
// Not promised: anything about a copy of a running program, as of a running daemon: a machine or container that was
// snapshotted and goes on twice. The copy may repeat ids until it has asked its store, a heartbeat later, where it
// learns that the lease is another's; with files, for the rest of its window, at most half a minute. Close before a
// snapshot, and Open after it. A child process makes no ids: it has no copy of IDs. A restored state directory is
// noticed; one that is used on two hosts is not.
//
// # Waiting
//
// A call waits only if there is no id: its program is faster than 4,096 ids a millisecond and lane, or the store is
// away for longer than a lease. Then it waits until ctx ends, and the error says for what.
//
// # Mistakes
//
//	no Store; a worker id that the Layout has no room for     Open returns all that is wrong at once
//	a Layout or settings that are not those of the pool       Open returns an ErrRefused
//	two Opens with one directory, or one given worker id      the second returns an error, in another program too
//	a ctx that is over                                        every call returns its error, and no id
//	Close, and Close again                                    the second one does nothing
//	a call after Close                                        returns an ErrClosed
//	a copy of an IDs                                          is the same IDs
//
// # When a daemon is better
//
//	more processes than worker ids (1,023)   each process leases one
//	other languages                          they ask a daemon with any client of memcached or Redis
//	programs that live for a second          a start takes some 30 ms with Redis, 4.5 s with etcd and ZooKeeper, and
//	                                         with files 1 s the first time; after a kill the worker id is free a
//	                                         lease later
//	sequences in strict order                one process at a time issues them for all others
//
// Package client asks daemons and has the same methods, so a program changes by one line. [Source] is both. Package
// collector shows all of it to Prometheus, and katsubushitest runs a daemon within a test.
package katsubushi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/counter"
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

var (
	_ Source = (*IDs)(nil)
	_ Source = (*Name)(nil)
	_ Source = (*client.Client)(nil)
	_ Source = (*client.Generator)(nil)
)

// MaxIDs is how many ids one call of IDs returns at most.
const MaxIDs = client.MaxIDs

// The errors, for errors.Is. They are those of package client, so that who asks need not know which of the two it has.
// Its ErrTimeout and ErrAnswer, of servers, never come.
var (
	ErrClosed  = client.ErrClosed  // of calls that Close ended, and of all later ones. Do not retry
	ErrUnready = client.ErrUnready // no id could be issued until ctx ended; the text says why. Retry later
	ErrRefused = client.ErrRefused // a retry does not help: a sequence has ended, a name is not of that kind
	ErrCount   = client.ErrCount   // IDs was asked for fewer than one id, or for more than MaxIDs
)

// IDs are a program's right to issue ids, until Close. A program needs one. Any goroutine may call its methods. A
// copy of it is the same IDs.
type IDs struct {
	main   *Name
	holder *windows.Holder
	bell   *issuer.Bell
	open   context.Context // until Close
	end    context.CancelFunc
	once   *sync.Once
	log    *slog.Logger

	naming  *sync.Mutex // held while a name is declared
	names   map[string]*Name
	catalog *issuer.Catalog // of names, for Figures
	handler *issuer.Handler // of the catalogue

	counters counter.Store // of sequences; nil = there is none
	keeper   *counter.Keeper
}

// Open makes IDs and waits until ids can be issued, which is when there is a worker id, or until ctx ends. The error
// has everything that is wrong with the Config; or it says what Open waited for, and is an ErrUnready. A pool with
// another layout or other settings is an ErrRefused. After an error Config.Counters is open, for another Open.
func Open(ctx context.Context, c Config) (*IDs, error) {
	s := &IDs{bell: new(issuer.Bell), once: new(sync.Once), naming: new(sync.Mutex), names: map[string]*Name{}}
	s.open, s.end = context.WithCancel(context.Background())
	opening, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	w, err := c.settle(refuse)
	if err != nil {
		return nil, err
	} else if ctx.Err() != nil {
		return nil, s.ended(ctx, nil)
	}
	w.Wake, s.log = s.bell.Ring, w.Log
	s.holder = windows.New(w)
	s.catalog = issuer.NewCatalog(s.holder.Clock.Now, s.holder.Issuer, false)
	s.handler = s.catalog.Handler(0, nil)
	s.main = &Name{of: s, clock: s.holder.Clock, source: s.holder.Issuer.Spread()}
	if err := s.holder.Open(); err != nil {
		s.holder.Stop(false)
		if errors.Is(err, workerid.ErrForeignPool) {
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		}
		return nil, fmt.Errorf("katsubushi: %w", err)
	}
	s.holder.Quiet(true) // until Open returns: its caller is told
	s.holder.Start()
	select {
	case <-s.holder.Serving():
		s.holder.Opened(0)
		s.holder.Quiet(false)
		if s.counters = c.Counters; s.counters != nil {
			s.keeper = counter.NewKeeper(counter.Config{Store: s.counters, Log: s.log})
			s.keeper.Start()
		}
		return s, nil
	case <-opening.Done():
		if err = fmt.Errorf("katsubushi: %w", context.Cause(opening)); ctx.Err() != nil {
			err = s.ended(ctx, s.Err())
		}
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
// sequences have not issued goes back to Config.Counters, which Close closes. While a store does not answer, that takes
// some ten seconds. It always returns nil, a second time too.
func (s *IDs) Close() error {
	s = s.main.of // a copy of IDs is the same
	s.once.Do(func() {
		s.end()
		if s.counters != nil {
			if err := errors.Join(s.keeper.Stop(), s.counters.Close()); err != nil {
				s.log.Warn("values of sequences are lost: they were not given back", "error", err)
			}
		}
		s.holder.Stop(false)
	})
	return nil
}

// Err returns why no id can be issued at this moment, or nil. After Close it is an ErrClosed.
func (s *IDs) Err() error {
	err := s.over(context.Background())
	if why := s.holder.Issuer.Ready(s.holder.Clock.Now()); err == nil && why != nil {
		err = errors.New(s.holder.Explain(why))
	}
	return err
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
	s.catalog.Metrics(s.holder.Clock.Now(), false, emit)
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
	case <-s.open.Done():
		return s.over(context.Background())
	case <-ctx.Done():
		return s.ended(ctx, why)
	case <-rung:
	case <-again.C:
	}
	return nil
}

// over returns the error of ctx if that has ended, and ErrClosed after Close.
func (s *IDs) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return s.ended(ctx, nil)
	case s.open.Err() != nil:
		return fmt.Errorf("katsubushi: %w", ErrClosed)
	}
	return nil
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
