package static

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Heartbeat is how often the windows are to be extended.
const Heartbeat = 500 * time.Millisecond

// Reserve is how far ahead of the clock windows are: two heartbeats beyond the end of the last tick
// that may be issued from. It is also how long the first run of all has to wait, less the
// run-ahead, and without a Memory a daemon that was killed and is started again at once.
func Reserve(runAhead, tick time.Duration) time.Duration {
	return runAhead + 2*Heartbeat + max(tick-time.Millisecond, 0)
}

// stall is how much further ahead marks are where a restart does not have to wait for them: so long
// the disk may stand still.
const stall = 28 * time.Second

// patience is how long Close waits for a write that is under way.
const patience = time.Second

// Errors that mean that a state file must not be used as things are. Retrying does not help, other
// than with ErrInUse.
var (
	// ErrInUse: another process on this host has the worker id. Retry if that one is about to end.
	ErrInUse = durable.ErrInUse
	// ErrDamaged: no copy of the record is whole. Reset makes a new one, by somebody who knows up
	// to when ids were issued.
	ErrDamaged = durable.ErrDamaged
	// ErrOtherMachine: the file was written on another machine. Adopt takes it over, once that one
	// has stopped.
	ErrOtherMachine = durable.ErrOtherMachine
	// ErrFileSystem: the file system may forget what it has synced.
	ErrFileSystem = durable.ErrFileSystem
)

// Config is what a Store is made of.
type Config struct {
	Dir         string        // of the state files; made if it is not there
	Workers     []uint64      // whose files are kept, one for each
	Fingerprint string        // of the layout; files of another one are refused
	Tick        time.Duration // the layout's; 0 = 1 ms
	RunAhead    time.Duration // how far ahead of Now ids are issued
	Now         func() int64  // the id clock, Unix ms
	// also find other processes of this host that have the same worker id and another directory;
	// Linux only
	Claim   bool
	AnyDisk bool         // accept file systems that may forget
	Log     *slog.Logger // default none

	// Where generators keep their words, so that the next run goes on from there however this one
	// ends. nil: nowhere, and what is reserved is short, as that run has to wait for it. With a
	// Memory, every generator must be given Store.Word.
	Memory Memory
	// the layout's: up to which Unix ms a generator with this word may have issued; needed with
	// Memory
	Issued func(word uint64) int64

	// The world that the Store is in; nil and "" are this machine's, and nothing else is right in a
	// daemon. They are settings since a disk that loses power, a boot and a process that stops
	// anywhere can only be had by putting others in place: test/sim and test/crashdisk do.
	Disk       Disk
	Clocks     func() Clocks
	Machine    string        // identity of this machine, see MachineID
	Nonce      func() string // a text that no other run has
	Background func(func())  // does it, soon
}

// A Store keeps the marks of a few worker ids in files. It implements workerid.Store; its methods
// may be called from any goroutine.
type Store struct {
	c       Config
	workers map[uint64]*worker
}

var _ workerid.Backend = (*Store)(nil)

// Open checks the directory and every worker id's file, and keeps other processes from using them
// until Release or Close. It writes nothing into a file yet. Its errors say what to do.
func Open(c Config) (*Store, error) {
	if c.Disk == nil {
		c.Disk = durable.OS{}
	}
	if c.Clocks == nil {
		c.Clocks = readClocks
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Machine == "" {
		c.Machine = MachineID()
	}
	if c.Nonce == nil {
		c.Nonce = rand.Text
	}
	if c.Background == nil {
		c.Background = func(f func()) { go f() }
	}
	kind, err := c.Disk.Prepare(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("static: state directory: %w", err)
	}
	if kind != "" && !c.AnyDisk {
		return nil, fmt.Errorf("static: state directory %s is on %s: %w, so that ids could repeat", c.Dir, kind, ErrFileSystem)
	}
	s := &Store{c: c, workers: map[uint64]*worker{}}
	for _, id := range c.Workers {
		w := newWorker(&s.c, id)
		s.workers[id] = w
		if err := w.take(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func statePath(dir string, worker uint64) string {
	return filepath.Join(dir, fmt.Sprintf("worker-%d.state", worker))
}

// Close lets other processes use the worker ids. It writes nothing: what was not released keeps its
// mark. It waits for at most a second for a disk that does not answer; then the worker id stays
// taken until the disk does, or the process ends.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.close(ctx))
	}
	return errors.Join(errs...)
}

// Facts implements workerid.Backend: the log and the states of the lanes say it all.
func (s *Store) Facts() []workerid.Fact { return nil }

// Word is where the generator of the window that begins at lo must keep its position; nil if it may
// keep that for itself.
func (s *Store) Word(worker uint64, lo int64) *atomic.Uint64 {
	if w := s.workers[worker]; w != nil {
		return w.word(lo)
	}
	return nil
}

// Acquire grants a worker id of the range that was configured and is not held. Its window starts
// above the last id of the run before, if that can be told for certain; else above the recorded
// mark, which may be in the future; and if nothing is recorded, above everything that a process
// whose record was deleted may still issue by the same clock.
func (s *Store) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if err := ctx.Err(); err != nil {
		return workerid.Grant{}, err
	}
	for _, id := range s.c.Workers {
		if w := s.workers[id]; want.Min <= id && id <= want.Max {
			if g, err := w.acquire(ctx, want.Owner); !errors.Is(err, errHeld) {
				return g, err
			}
		}
	}
	return workerid.Grant{}, fmt.Errorf("%w of %d..%d", workerid.ErrNoID, want.Min, want.Max)
}

// Extend lengthens the windows, all at the same time, as far as the marks are recorded already. It
// waits for the disk only where these do not reach.
func (s *Store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]workerid.Result, len(held))
	var wg sync.WaitGroup
	for i, g := range held {
		if i == len(held)-1 { // the last, or only one, needs no goroutine
			results[i] = s.extend(ctx, g)
			break
		}
		wg.Go(func() { results[i] = s.extend(ctx, g) })
	}
	wg.Wait()
	return results, nil
}

func (s *Store) extend(ctx context.Context, g workerid.Grant) workerid.Result {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.Result{Err: workerid.ErrLost}
	}
	hi, err := w.extend(ctx, g)
	return workerid.Result{Grant: workerid.Grant{Worker: g.Worker, Owner: g.Owner, Lo: g.Hi + 1, Hi: hi}, Err: err}
}

// Release records exactly what was used, so that the next run starts right above it, and lets other
// processes use the worker id.
func (s *Store) Release(ctx context.Context, g workerid.Grant, last int64) error {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.ErrLost
	}
	return w.release(ctx, g, last)
}

// claimName is the same for all daemons whose ids would be the same.
func claimName(fingerprint string, worker uint64) string {
	return fmt.Sprintf("katsubushi/%x/%d", sha256.Sum256([]byte(fingerprint)), worker)
}
