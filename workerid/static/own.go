package static

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// This file finds out whether the worker id is still this process's, and gives it up.

// hasLock reports whether the lock that this process holds is still the file that others would lock.
// Only then no other process can have been granted the worker id so far.
func (w *worker) hasLock() bool {
	w.mu.Lock()
	lock := w.lock
	w.mu.Unlock()
	return lock != nil && lock.Is(lockPath(w.path))
}

// sees reports whether both files are the ones that this process has locked and written. It checks
// both because a lock that was moved away may have been put back after another run.
func (w *worker) sees() bool {
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	return w.hasLock() && file != nil && file.Is(w.path)
}

// A look is one at the directory: what its names were just after now.
type look struct {
	now   int64 // the id clock's time
	names durable.Version
}

// seesAt is sees for one who has just found that the directory has this Version. If it had that when both files were
// seen, they need not be looked at: no name leads elsewhere now, and files that were opened since were opened by name.
func (w *worker) seesAt(names durable.Version) bool {
	w.mu.Lock()
	seen := w.seen
	w.mu.Unlock()
	if names == seen && names != (durable.Version{}) {
		return true
	}
	if !w.sees() {
		return false
	}
	w.mu.Lock()
	w.seen = names
	w.mu.Unlock()
	return true
}

// unchanged reports whether the record is the one that take has read, or one that this run has
// written since without granting anything.
func (w *worker) unchanged() (bool, error) {
	switch r, _, err := readState(w.c.Disk, w.path); {
	case errors.Is(err, fs.ErrNotExist):
		return w.found == nil, nil
	case err != nil:
		return false, fmt.Errorf("static: worker id %d: %s: %w", w.id, w.path, err)
	default:
		return w.found != nil && r == *w.found || r.Run.Nonce == w.state.record.Run.Nonce, nil
	}
}

// succeed is an error unless the record is unchanged. A lock that was moved away may have been put back while this
// process was stopped, after another one had recorded itself.
//
// It removes the last run's page, without which a copy of that run's record is not believed. If this process is killed
// before it has recorded itself, the next one starts above the mark.
func (w *worker) succeed() error {
	same, err := w.unchanged()
	switch {
	case err != nil:
		return err
	case !same:
		return fmt.Errorf("%s: %w: another process has used it", w.path, ErrInUse)
	case w.memory == nil || w.last.Page == "":
		return nil
	}
	if err := w.memory.Remove(w.last.Page, w.last.Nonce); err != nil {
		return fmt.Errorf("the last run's word: %w", err)
	}
	return nil
}

// regain gets the files back for the holder of g.
func (w *worker) regain(ctx context.Context, g workerid.Grant) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.leave()
	w.mu.Lock()
	holds := w.holds(g)
	w.mu.Unlock()
	if !holds {
		return workerid.ErrLost
	}
	if w.sees() { // it was this process that replaced the file
		return nil
	}
	return w.recognise()
}

// recognise is called when the lock or the state file is not where it was. It makes sure that no other process
// has had the worker id since this run was recorded, and makes a deleted lock anew. The lease is lost
// for good if another process has a lock of its own, or if the record is another run's or missing,
// even if this run's files come back later. Its window then ends where it was granted to end.
func (w *worker) recognise() error {
	var again File
	if !w.hasLock() {
		var err error
		if again, err = lockFile(w.c.Disk, w.path); errors.Is(err, ErrInUse) {
			return w.loseTo("another process has its lock")
		} else if err != nil {
			return fmt.Errorf("static: worker id %d: %w", w.id, err)
		}
	}
	f, err := w.openOwn()
	if err != nil && again != nil {
		err = errors.Join(err, again.Close())
	}
	if err != nil {
		return err
	}
	err = w.state.Close()
	w.state.Use(f) // it may be an older copy: it is made anew
	w.mu.Lock()
	defer w.mu.Unlock()
	w.file, w.renew = f, true
	// The old lock stays open until the record names the new one: until then, its inode number must
	// not become another lock's.
	if again != nil {
		w.retired = append(w.retired, w.lock)
		w.lock = again
	}
	return err
}

// openOwn opens the state file if it is this run's.
func (w *worker) openOwn() (File, error) {
	f, err := w.c.Disk.Open(w.path, false)
	if errors.Is(err, fs.ErrNotExist) { // it may have been another process's when it was deleted
		return nil, w.loseTo("its state file was deleted")
	}
	if err != nil {
		return nil, fmt.Errorf("static: worker id %d: %w", w.id, err)
	}
	r, _, err := readFile(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("static: worker id %d: %s: %w", w.id, w.path, err), f.Close())
	}
	if r.Run.Nonce != w.state.record.Run.Nonce {
		return nil, errors.Join(w.loseTo("another process has used it"), f.Close())
	}
	return f, nil
}

func (w *worker) loseTo(what string) error {
	return errors.Join(fmt.Errorf("static: worker id %d: %s: %w: %s", w.id, w.path, workerid.ErrLost, what), w.lose())
}

// spoiled ends a lease whose word may have been set back. The generator's position is not known, so
// the next window begins above this one.
func (w *worker) spoiled(g workerid.Grant) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds(g) || w.using.Page == "" || !w.c.Memory.Changed(w.using.Page, w.using.Nonce) {
		return nil
	}
	w.giveUp()
	return fmt.Errorf("static: worker id %d: the file of its word, katsubushi-%s, was written to: %w", w.id,
		w.state.record.Run.Nonce, workerid.ErrShared)
}

// drop gives everything up without writing to the disk. No generator issues any more. The page stays
// mapped, because a generator may still read it.
func (w *worker) drop() error {
	w.mu.Lock()
	w.held, w.lost = false, false
	w.mu.Unlock()
	errs := []error{w.lose()}
	for _, f := range w.retired {
		errs = append(errs, f.Close())
	}
	w.retired = nil
	return errors.Join(errs...)
}

// lose gives up a grant. A generator may go on issuing from it until the window is over, so the lock
// stays locked: another process that got it would take this run for dead, and its word for final.
// The lock is released when the next run of this process is recorded, or at Close.
func (w *worker) lose() error {
	w.mu.Lock()
	w.giveUp()
	lock, keep := w.lock, w.lost
	w.lock, w.file, w.mark.pushing, w.renew = nil, nil, nil, false
	w.mu.Unlock()
	errs := []error{w.state.Close()}
	switch kept := slices.Contains(w.retired, lock); {
	case lock == nil || kept:
	case keep:
		w.retired = append(w.retired, lock)
	default:
		errs = append(errs, lock.Close())
	}
	if w.claim != nil {
		errs = append(errs, w.claim.Close())
	}
	w.claim = nil
	return errors.Join(errs...)
}

// giveUp ends a lease without the disk: nothing is extended or released after it. w.mu is held.
func (w *worker) giveUp() {
	if w.held {
		w.lost, w.had = true, max(w.had, w.holder.Hi)
	}
	w.held, w.using = false, run{}
}
