package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// lockPause is how long a call waits before it tries a lock again that another process has. That one
// holds it for two writes.
const lockPause = 2 * time.Millisecond

// A sequence is one sequence's files. The goroutine that has the turn uses the fields after it.
type sequence struct {
	c    *Config
	name string
	path string

	turn   sync.Mutex     // held during a change
	lock   durable.File   // the same; nil otherwise
	copies durable.Copies // its file is one that this process made, or nil
	last   record         // what this process wrote to that file last without an error
	under  string         // the lock, see durable.File.ID, that it had then
	strict durable.File   // the lock of order=strict, held for life; nil = not held
	// of timestamps: the clock may be wrong, see driver.Admit
	doubted bool
}

func newSequence(c *Config, name string) *sequence {
	q := &sequence{c: c, name: name, path: filepath.Join(c.Dir, fileName(name))}
	q.copies = durable.Copies{Disk: c.Disk, Path: q.path, Log: c.Log.With("sequence", name), Locked: q.locked,
		MayOverwrite: mayOverwrite}
	return q
}

func mayOverwrite(content []byte) error {
	if _, damaged, err := recoverRecord(content); err != nil || len(damaged) > 0 {
		return durable.ErrNotWhole
	}
	return nil
}

func (q *sequence) lockPath() string { return q.path[:len(q.path)-len(suffix)] + ".lock" }

// locked reports whether this process still has the lock that others would try. An operator may have
// deleted it.
func (q *sequence) locked() bool { return q.lock != nil && q.lock.Is(q.lockPath()) }

// Lock implements ledger.Locker: it takes the lock of the sequence's file, which all processes take.
func (d *driver) Lock(ctx context.Context, name string) (unlock func() error, err error) {
	q := d.sequence(name)
	q.turn.Lock()
	if q.lock, err = q.takeLock(ctx); err != nil {
		q.turn.Unlock()
		return nil, err
	}
	return func() error {
		err := q.lock.Close()
		q.lock = nil
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.Closed() {
			_ = q.close()
		} else {
			d.used(q)
		}
		q.turn.Unlock()
		return err
	}, nil
}

// write records r in place of found. Only who made the file, and wrote to it last, may overwrite it, and only under
// the same lock: while one was moved away, another process may be about to put its file there, and only a new file
// stops it.
func (q *sequence) write(r, found *record) error {
	how, lock := q.copies.Update, q.lock.ID()
	if f := q.copies.File(); f == nil || !f.Is(q.path) || found == nil || *found != q.last || lock != q.under {
		how = q.copies.Create
		if err := q.copies.Close(); err != nil {
			return err
		}
	}
	q.under = lock
	q.copies.Succeed = func() error { return q.still(found) }
	if err := how(r.encode()); err != nil {
		return err
	}
	// Without the lock others may have read the record before it was written. One that was moved away may be back.
	if !q.locked() || !q.copies.File().Is(q.path) {
		return durable.ErrNotLocked
	}
	return nil
}

// still returns an error if the record is not the one that was found: nil stands for none, and for a damaged one.
func (q *sequence) still(found *record) error {
	now, _, err := q.read()
	switch {
	case err != nil && !counter.Certain(err):
		return err
	case now == found || now != nil && found != nil && *now == *found:
		return nil
	}
	return errors.New("another process has written it meanwhile")
}

// takeLock waits for the lock until ctx ends.
func (q *sequence) takeLock(ctx context.Context) (durable.File, error) {
	for {
		f, err := q.c.Disk.Open(q.lockPath(), true)
		if errors.Is(err, fs.ErrNotExist) { // no directory
			return nil, counter.ErrUnknown
		}
		if err != nil {
			return nil, unusable(err)
		}
		if err = f.Lock(); err == nil {
			return f, nil
		}
		if e := f.Close(); !errors.Is(err, durable.ErrInUse) {
			return nil, errors.Join(err, e)
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("another process has the lock %s: %w", q.lockPath(), ctx.Err())
		}
	}
}

// holdStrict takes the lock of order=strict for the life of the Store.
func (q *sequence) holdStrict() error {
	path := q.path[:len(q.path)-len(suffix)] + ".strict"
	if q.strict != nil && q.strict.Is(path) {
		return nil
	}
	if q.strict != nil {
		return fmt.Errorf("%s was deleted, so that another process may issue too: restart this daemon", path)
	}
	f, err := q.c.Disk.Open(path, true)
	if err != nil {
		return err
	}
	if err := f.Lock(); err != nil {
		return errors.Join(fmt.Errorf("order=strict: another process issues this sequence, %s is %w", path, err), f.Close())
	}
	q.strict = f
	return nil
}

// read returns the record, or nil if there is none. damaged says what is wrong with one of its copies;
// without the lock, another process may be writing it.
func (q *sequence) read() (_ *record, damaged []string, err error) {
	b, err := durable.Read(q.c.Disk, q.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, unusable(err)
	}
	r, damaged, err := recoverRecord(b)
	if err == nil && r.Name != q.name {
		err = fmt.Errorf("it belongs to sequence %s", r.Name)
		if strings.EqualFold(r.Name, q.name) { // it may be right, on a file system that has one file for both
			return nil, nil, fmt.Errorf("%w: %s: %w", counter.ErrUnusable, q.path, err)
		}
	}
	switch {
	case errors.Is(err, durable.ErrVersion):
		return nil, nil, fmt.Errorf("%w: %s: %w", counter.ErrUnusable, q.path, err)
	case err != nil:
		return nil, nil, counter.Damaged(q.name, q.path, err)
	}
	return &r, damaged, nil
}

// unusable makes an error of opening what is no plain file a counter.ErrUnusable, and that of a file system which is
// read-only, as one is after an error of its disk, a counter.ErrUnavailable.
func unusable(err error) error {
	switch {
	case errors.Is(err, durable.ErrLink), errors.Is(err, durable.ErrNoFile):
		return fmt.Errorf("%w: %w", counter.ErrUnusable, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w", counter.ErrUnavailable, err)
	}
	return err
}

// foreign says why a record does not say which values are free, in ledger.Words, or nothing.
func (c *Config) foreign(r *record) string {
	if r.Machine == "" || c.Machine == "" || r.Machine == c.Machine {
		return ""
	}
	return "{AT} was written on another machine (" + r.Machine + ", this one is " + c.Machine + "). Once nobody uses " +
		"it there, take it over: `katsubushi name raise {NAME} {LEAST}`, or a larger value if it issued more since " +
		"it was copied"
}

// close gives up what is held.
func (q *sequence) close() error {
	err := q.copies.Close()
	if q.strict != nil {
		err = errors.Join(err, q.strict.Close())
		q.strict = nil
	}
	return err
}
