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
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Heartbeat is how often windows must be extended while ids are issued.
const Heartbeat = 500 * time.Millisecond

// Reserve returns how far ahead of the clock windows reach: two heartbeats beyond the end of the
// last tick that ids may be issued from. The very first run waits that long, less the run-ahead; so
// does, without a Memory, a daemon that was killed and restarts at once.
func Reserve(runAhead, tick time.Duration) time.Duration {
	return runAhead + 2*Heartbeat + max(tick-time.Millisecond, 0)
}

// stall is how much further ahead marks are if a restart does not have to wait for them. Ids go on
// while the disk stalls for this long.
const stall = 28 * time.Second

// patience is how long Close waits for an unfinished write.
const patience = time.Second

// These errors mean that a state file must not be used as it is. Retrying helps only with ErrInUse.
var (
	// ErrInUse: another process on this host has the worker id. Retry if it is about to end.
	ErrInUse = durable.ErrInUse
	// ErrDamaged: no copy of the record is whole. An operator who knows up to when ids were issued can
	// make a new one with Reset.
	ErrDamaged = durable.ErrDamaged
	// ErrOtherMachine: the file was written on another machine. Adopt takes it over after the daemon
	// there has stopped.
	ErrOtherMachine = durable.ErrOtherMachine
	// ErrFileSystem: the file system may forget what it has synced.
	ErrFileSystem = durable.ErrFileSystem
)

// Config holds the settings of a Store.
type Config struct {
	Dir         string        // of the state files; created if missing
	Workers     []uint64      // one file each
	Fingerprint string        // of the layout; files with another one are refused
	Tick        time.Duration // the layout's; 0 = 1 ms
	RunAhead    time.Duration // how far ahead of Now ids are issued
	Now         func() int64  // the id clock, Unix ms
	Floor       int64         // windows begin after this Unix ms: other worker ids were used up to there; 0 = unknown
	// Claim also detects processes of this host that use the same worker id with another directory.
	// Linux only.
	Claim bool
	// Share keeps one mark for all Workers that is written often, and theirs seldom: for several.
	Share   bool
	AnyDisk bool         // accept file systems that may lose synced data
	Log     *slog.Logger // default none

	// Memory is where generators keep their words, so that the next run continues from there,
	// however this one ends. nil: nowhere; then little is reserved, because the next run has to
	// wait for it. With a Memory, every generator must get Store.Word.
	Memory Memory
	// Issued returns up to which Unix ms a generator of the layout with this word may have issued.
	// Required with Memory.
	Issued func(word uint64) int64
	// First returns the word of a generator of the layout that has issued nothing from a window that
	// starts at this Unix ms. nil: unknown; then the next run waits if this process is killed after
	// it was granted a window and before there is a generator.
	First func(lo int64) uint64

	// The world around the Store. nil and "" mean this machine's; a daemon must use those. Tests
	// (test/explore, test/crashdisk) replace them to simulate power loss, reboots, and processes that
	// stop anywhere.
	Disk       Disk
	Clocks     func() Clocks
	Machine    string        // identity of the machine, see MachineID
	Nonce      func() string // returns a text that no other run has
	Background func(func())  // calls the function soon
}

// A Store keeps the high-water marks of some worker ids in files. It implements workerid.Store. Any
// goroutine may call its methods.
type Store struct {
	c       Config
	workers map[uint64]*worker
	shared  *sharedMark // nil without Share
	local   bool        // the directory's Version can be relied on: its file system is a disk of this machine
}

var _ workerid.Backend = (*Store)(nil)

// Dir says that the operator has given worker ids to this program, and to no other one, and that their windows are
// recorded in a directory of its own. A daemon's is as good.
func Dir(dir string, workers ...uint64) workerid.Provider {
	return workerid.Provider{Workers: workers, Dir: dir}
}

// Open checks the directory and the file of every worker id, and locks out other processes until
// Release or Close. It does not write to the files yet. Its errors say what to do.
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
		return nil, fmt.Errorf("static: state directory %s is on %s: %w, so that ids could repeat", c.Dir, kind,
			ErrFileSystem)
	}
	s := &Store{c: c, workers: map[uint64]*worker{}, local: kind == ""}
	if c.Share {
		s.shared = newSharedMark(&s.c, c.Nonce())
	}
	for _, id := range c.Workers {
		w := newWorker(&s.c, id, s.shared)
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

// Close lets other processes use the worker ids. It writes nothing, so a worker id that was not
// released keeps its mark. If the disk does not answer, Close waits for at most a second; the worker
// id then stays locked until the disk answers or the process ends.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.close(ctx))
	}
	if s.shared != nil {
		errs = append(errs, s.shared.close(ctx))
	}
	return errors.Join(errs...)
}

// Figures implements workerid.Backend. There are none: the log and the lanes' states say everything.
func (s *Store) Figures(func(figure.Figure)) (c workerid.Condition) {
	now := s.c.Now()
	look := func(m *mark) {
		if err, left := m.behind(now), ms(m.highWater-now); err != nil && (c.Unwritten == nil || left < c.Left) {
			c.Unwritten, c.Left = err, left
		}
	}
	for _, w := range s.workers {
		w.mu.Lock()
		if w.held {
			look(&w.mark)
		}
		w.mu.Unlock()
	}
	if s.shared != nil {
		s.shared.mu.Lock()
		look(&s.shared.mark)
		s.shared.mu.Unlock()
	}
	return c
}

// Word returns where the generator of the window that begins at lo must keep its position, also if the
// lease was lost meanwhile, or nil if the generator may keep it itself.
func (s *Store) Word(worker uint64, lo int64) *atomic.Uint64 {
	if w := s.workers[worker]; w != nil {
		return w.word(lo)
	}
	return nil
}

// Acquire grants a configured worker id within the range that is not held. Its window starts above
// the previous run's last id if that is known for certain, else above the recorded mark, which may
// be in the future, and above everything that a process whose record was deleted or replaced by an
// older copy may still issue by the same clock.
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

// Extend lengthens all windows at once, up to the marks that are already recorded. It waits for the
// disk only if those do not reach far enough.
func (s *Store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]workerid.Result, len(held))
	first := s.look()
	var waiting sync.WaitGroup
	var taken atomic.Int64
	var work func()
	work = func() { // most often all in one goroutine; when one has to wait, another goes on with the rest
		for i := taken.Add(1) - 1; i < int64(len(held)); i = taken.Add(1) - 1 {
			results[i] = s.extend(ctx, held[i], first, sync.OnceFunc(func() { waiting.Go(work) }))
		}
	}
	work()
	waiting.Wait()
	return results, nil
}

// look looks at the directory, for all worker ids.
func (s *Store) look() look {
	l := look{now: s.c.Now()} // before the look, see lengthen
	if s.local {
		l.names = s.c.Disk.Version(s.c.Dir)
	}
	return l
}

// extend calls waits before it waits for the disk.
func (s *Store) extend(ctx context.Context, g workerid.Grant, first look, waits func()) workerid.Result {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.Result{Err: workerid.ErrLost}
	}
	hi, err := w.extend(ctx, g, first, waits)
	return workerid.Result{Grant: workerid.Grant{Worker: g.Worker, Owner: g.Owner, Lo: g.Hi + 1, Hi: hi}, Err: err}
}

// Release records exactly what was used, so that the next run starts just above it, and lets other
// processes use the worker id.
func (s *Store) Release(ctx context.Context, g workerid.Grant, last int64) error {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.ErrLost
	}
	return w.release(ctx, g, last)
}

// claimName returns the same name for all daemons whose ids could collide.
func claimName(fingerprint string, worker uint64) string {
	return fmt.Sprintf("katsubushi/%x/%d", sha256.Sum256([]byte(fingerprint)), worker)
}
