package static

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/workerid"
)

// Heartbeat is how often the marks are to be moved ahead.
const Heartbeat = 500 * time.Millisecond

// Reserve is how far ahead of the clock marks are: two heartbeats beyond the end of the last tick that may be issued from. It is also how long
// a daemon that was killed may have to wait for the clock when it starts again at once, less the run-ahead.
func Reserve(runAhead, tick time.Duration) time.Duration {
	return runAhead + 2*Heartbeat + max(tick-time.Millisecond, 0)
}

// Errors that mean that a state file must not be used as things are. Retrying does not help, other than with ErrInUse.
var (
	// ErrInUse: another process on this host has the worker id. Retry if that one is about to end.
	ErrInUse = errors.New("in use")
	// ErrDamaged: no copy of the record is whole. Reset makes a new one, by somebody who knows up to when ids were issued.
	ErrDamaged = errors.New("no copy of the record is whole")
	// ErrOtherMachine: the file was written on another machine. Adopt takes it over, once that one has stopped.
	ErrOtherMachine = errors.New("written on another machine")
	// ErrFileSystem: the file system may forget what it has synced.
	ErrFileSystem = errors.New("not a local disk")
)

// Config is what a Store is made of.
type Config struct {
	Dir         string        // of the state files; made if it is not there
	Workers     []uint64      // whose files are kept, one for each
	Fingerprint string        // of the layout; files of another one are refused
	Tick        time.Duration // the layout's; 0 = 1 ms
	RunAhead    time.Duration // how far ahead of Now ids are issued
	Now         func() int64  // the id clock, Unix ms
	Claim       bool          // also find other processes of this host that have the same worker id and another directory; Linux only
	AnyDisk     bool          // accept file systems that may forget
	Log         *slog.Logger  // default none

	// For tests; nil and "" are the operating system's.
	Disk    Disk
	Clocks  func() Clocks
	Machine string // identity of this machine, see MachineID
}

// A Store keeps the marks of a few worker ids in files. It implements workerid.Store; its methods may be called from any goroutine.
type Store struct {
	c       Config
	workers map[uint64]*worker
}

var _ workerid.Store = (*Store)(nil)

// Open checks the directory and every worker id's file, and keeps other processes from using them until Release or Close. It writes
// nothing into a file yet. Its errors say what to do.
func Open(c Config) (*Store, error) {
	if c.Disk == nil {
		c.Disk = osDisk{}
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
	kind, err := c.Disk.Prepare(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("static: state directory: %w", err)
	}
	if kind != "" && !c.AnyDisk {
		return nil, fmt.Errorf("static: state directory %s is on %s: %w, so that ids could repeat", c.Dir, kind, ErrFileSystem)
	}
	s := &Store{c: c, workers: map[uint64]*worker{}}
	for _, id := range c.Workers {
		w := &worker{c: &s.c, id: id, path: statePath(c.Dir, id)}
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

// Close lets other processes use the worker ids. It writes nothing: what was not released keeps its mark.
func (s *Store) Close() error {
	var errs []error
	for _, w := range s.workers {
		w.mu.Lock()
		errs = append(errs, w.drop())
		w.mu.Unlock()
	}
	return errors.Join(errs...)
}

// Acquire grants a worker id of the range that was configured and is not held. Its window starts above the recorded mark, which may be
// in the future; if nothing was ever recorded, above everything that a predecessor without a record may have issued by the same clock.
func (s *Store) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if err := ctx.Err(); err != nil {
		return workerid.Grant{}, err
	}
	for _, id := range s.c.Workers {
		if w := s.workers[id]; want.Min <= id && id <= want.Max {
			if g, err := w.acquire(want.Owner); !errors.Is(err, errHeld) {
				return g, err
			}
		}
	}
	return workerid.Grant{}, fmt.Errorf("%w of %d..%d", workerid.ErrNoID, want.Min, want.Max)
}

// Extend moves the marks ahead, all at the same time.
func (s *Store) Extend(ctx context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results := make([]workerid.Result, len(held))
	var wg sync.WaitGroup
	for i, g := range held {
		if i == len(held)-1 { // the last, or only one, needs no goroutine
			results[i] = s.extend(g)
			break
		}
		wg.Go(func() { results[i] = s.extend(g) })
	}
	wg.Wait()
	return results, nil
}

func (s *Store) extend(g workerid.Grant) workerid.Result {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.Result{Err: workerid.ErrLost}
	}
	hi, err := w.extend(g)
	return workerid.Result{Grant: workerid.Grant{Worker: g.Worker, Owner: g.Owner, Lo: g.Hi + 1, Hi: hi}, Err: err}
}

// Release records exactly what was used, so that the next run starts right above it, and lets other processes use the worker id.
func (s *Store) Release(_ context.Context, g workerid.Grant, last int64) error {
	w := s.workers[g.Worker]
	if w == nil {
		return workerid.ErrLost
	}
	return w.release(g, last)
}

// A worker is one worker id's file.
type worker struct {
	c    *Config
	id   uint64
	path string

	mu     sync.Mutex
	lock   File      // open while this process has the file
	claim  io.Closer // nil without a claim
	state  stateFile
	guard  guard
	fresh  bool // there was no file
	holder workerid.Grant
	held   bool
}

var errHeld = errors.New("static: held")

// take makes the file this process's own, and reads it.
func (w *worker) take() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("static: worker id %d: %w", w.id, err), w.drop())
		}
	}()
	if w.c.Claim {
		if w.claim, err = claim(claimName(w.c.Fingerprint, w.id)); err != nil {
			return err
		}
	}
	if w.lock, err = lockFile(w.c.Disk, w.path); err != nil {
		return err
	}
	r, err := w.read()
	if err != nil {
		return err
	}
	w.guard.start(w.c.Clocks(), r)
	w.fresh = r == nil
	w.state = stateFile{disk: w.c.Disk, path: w.path}
	if r != nil {
		w.state.record = *r
	}
	w.state.record.Worker, w.state.record.Fingerprint, w.state.record.Machine = w.id, w.c.Fingerprint, w.c.Machine
	w.state.record.Reserve = Reserve(w.c.RunAhead, w.c.Tick).Milliseconds()
	return w.state.record.check()
}

// read finds the record and whether it is one that this process may go on from; nil if there is no file.
func (w *worker) read() (*record, error) {
	r, damaged, err := readState(w.c.Disk, w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, ErrDamaged) {
		return nil, fmt.Errorf("%s: %w: `katsubushi state reset` makes a new one", w.path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.path, err)
	}
	for _, what := range damaged {
		w.c.Log.Warn("state file: one copy is damaged, the other is used", "worker_id", w.id, "file", w.path, "damage", what)
	}
	switch {
	case r.Worker != w.id:
		return nil, fmt.Errorf("%s belongs to worker id %d", w.path, r.Worker)
	case r.Fingerprint != w.c.Fingerprint:
		return nil, fmt.Errorf("%s: %w: it was written for ids with %s, this daemon's have %s: use another directory, or `katsubushi state reset`", w.path, workerid.ErrForeignPool, r.Fingerprint, w.c.Fingerprint)
	case r.Machine != "" && w.c.Machine != "" && r.Machine != w.c.Machine:
		return nil, fmt.Errorf("%s: %w (%s, this one is %s): if that one has stopped for good, `katsubushi state adopt` takes it over", w.path, ErrOtherMachine, r.Machine, w.c.Machine)
	}
	return &r, nil
}

// drop gives everything up without a word on the disk.
func (w *worker) drop() error {
	var errs []error
	errs = append(errs, w.state.close())
	if w.lock != nil {
		errs = append(errs, w.lock.Close())
	}
	if w.claim != nil {
		errs = append(errs, w.claim.Close())
	}
	w.lock, w.claim, w.held = nil, nil, false
	return errors.Join(errs...)
}

func (w *worker) acquire(owner string) (workerid.Grant, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		return workerid.Grant{}, errHeld
	}
	if w.lock == nil {
		if err := w.take(); err != nil {
			return workerid.Grant{}, err
		}
	}
	now, clocks := w.c.Now(), w.c.Clocks()
	if err := w.guard.check(clocks, now); err != nil {
		return workerid.Grant{}, err
	}
	lo := w.state.record.Mark + 1
	if w.fresh {
		lo = now + w.c.RunAhead.Milliseconds() + 1
	}
	hi := max(now+w.state.record.Reserve, lo-1)
	if err := w.write(hi, clocks, w.state.create); err != nil {
		return workerid.Grant{}, err
	}
	w.fresh, w.held = false, true
	w.holder = workerid.Grant{Worker: w.id, Owner: owner, Lo: lo, Hi: hi}
	return w.holder, nil
}

func (w *worker) write(mark int64, c Clocks, how func(mark int64) error) error {
	if err := w.relock(); err != nil {
		return fmt.Errorf("static: worker id %d: %w", w.id, err)
	}
	w.state.record.Boot, w.state.record.Offset = c.BootID, w.guard.trusted
	if err := how(mark); err != nil {
		return fmt.Errorf("static: worker id %d: state file: %w", w.id, err)
	}
	return nil
}

// relock makes a lock that was deleted anew. Another process may have made it already, and have the file, or have had it meanwhile: then
// this one's window ends where it was recorded to end.
func (w *worker) relock() error {
	if w.lock.Is(lockPath(w.path)) {
		return nil
	}
	again, err := lockFile(w.c.Disk, w.path)
	if err != nil {
		return err
	}
	ours := w.state.record.Mark
	if w.held {
		ours = w.holder.Hi // what failed to be written may be further
	}
	switch r, _, err := readState(w.c.Disk, w.path); {
	case errors.Is(err, fs.ErrNotExist): // it went with the lock
	case err != nil:
		return errors.Join(fmt.Errorf("%s: %w", w.path, err), again.Close())
	case r.Mark > ours:
		return errors.Join(fmt.Errorf("%s: %w: another process has used it", w.path, workerid.ErrLost), again.Close(), w.drop())
	}
	err, w.lock = w.lock.Close(), again
	return err
}

// holds says whether g is what was granted here, as far as its holder knows: a mark that failed to be written may be further.
func (w *worker) holds(g workerid.Grant) bool { return w.held && g == w.holder }

func (w *worker) extend(g workerid.Grant) (hi int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds(g) {
		return 0, workerid.ErrLost
	}
	now, clocks := w.c.Now(), w.c.Clocks()
	if err := w.guard.check(clocks, now); err != nil {
		return 0, err
	}
	hi = max(now+w.state.record.Reserve, g.Hi)
	if hi == g.Hi {
		return hi, nil // the clock is behind: there is nothing to write
	}
	if err := w.write(hi, clocks, w.state.update); err != nil {
		return 0, err
	}
	w.holder.Hi = hi
	return hi, nil
}

func (w *worker) release(g workerid.Grant, last int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds(g) {
		return workerid.ErrLost
	}
	if last < g.Lo-1 || last > g.Hi {
		return fmt.Errorf("static: worker id %d released at %d, outside of its window %d..%d", w.id, last, g.Lo, g.Hi)
	}
	if err := w.write(last, w.c.Clocks(), w.state.update); err != nil {
		return err
	}
	return w.drop()
}

func lockPath(path string) string { return strings.TrimSuffix(path, ".state") + ".lock" }

// lockFile locks the file beside a state file, which itself is replaced at each start.
func lockFile(d Disk, path string) (File, error) {
	f, err := d.Open(lockPath(path), true)
	if err != nil {
		return nil, err
	}
	if err := f.Lock(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// claimName is the same for all daemons whose ids would be the same.
func claimName(fingerprint string, worker uint64) string {
	return fmt.Sprintf("katsubushi/%x/%d", sha256.Sum256([]byte(fingerprint)), worker)
}
