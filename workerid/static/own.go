package static

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// What is in this file finds out whether the worker id is still this process's, and gives it up.

// hasLock says whether the lock that this process has is still the one that others would try. Only
// if it is, nobody else can have been granted the worker id until now.
func (w *worker) hasLock() bool {
	w.mu.Lock()
	lock := w.lock
	w.mu.Unlock()
	return lock != nil && lock.Is(lockPath(w.path))
}

// sees says whether both files are the ones that this process has locked and recorded itself in.
// Both are needed: a lock that was moved away may have been put back after another run.
func (w *worker) sees() bool {
	w.mu.Lock()
	file := w.file
	w.mu.Unlock()
	return w.hasLock() && file != nil && file.Is(w.path)
}

// unchanged says whether the record is the one that take has read, or one that this run has written
// since without being granted anything.
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

// recognise makes sure that nobody has had the worker id since this run was recorded, when its lock
// or its state file is not where it was. A lock that was deleted is made anew. Once another process
// has a lock of its own, or the record is another run's, or there is none, the lease is lost for
// good, though the files of this run should come back: its window ends where it was granted to end.
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
	// The old one stays open until the record names the new one: its number must not be another
	// lock's before.
	if again != nil {
		w.retired = append(w.retired, w.lock)
		w.lock = again
	}
	return err
}

// openOwn opens the state file, if it is this run's.
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

// spoiled ends a lease whose word may have been set back. Where the generator is, nobody knows; the
// next window begins above this one.
func (w *worker) spoiled(g workerid.Grant) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds(g) || w.using.Page == "" || !w.c.Memory.Changed(w.using.Page, w.using.Nonce) {
		return nil
	}
	w.giveUp()
	return fmt.Errorf("static: worker id %d: the file of its word, katsubushi-%s, was written to: %w", w.id, w.state.record.Run.Nonce, workerid.ErrShared)
}

// drop gives everything up without a word on the disk. No generator issues any more. The page stays
// mapped: one may still look at it.
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

// lose gives up what was granted, which a generator may go on to issue from until its window is
// over. So the lock stays locked: whoever got it would take this run for dead, and its word for the
// last. It is let go when the next run of this process is recorded, or at Close.
func (w *worker) lose() error {
	w.mu.Lock()
	w.giveUp()
	lock, keep := w.lock, w.lost
	w.lock, w.file, w.pushing, w.renew = nil, nil, nil, false
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

// giveUp ends a lease without the disk: nothing is extended or released any more. w.mu is held.
func (w *worker) giveUp() {
	if w.held {
		w.lost, w.had = true, max(w.had, w.holder.Hi)
	}
	w.held, w.granted, w.using = false, nil, run{}
}
