package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A sequence is what a Store knows of one sequence's files. Its methods are for the goroutine that has
// put a token into busy.
type sequence struct {
	c    *Config
	name string
	path string
	busy chan struct{}

	lock    durable.File   // held during a change; nil otherwise
	copies  durable.Copies // its file is one that this process made, or nil
	last    record         // what this process wrote to that file last without an error
	seen    bool           // there was a record
	granted uint64         // the largest value that this process was granted and has not given back
	strict  durable.File   // the lock of order=strict, held for life; nil = not held
}

func newSequence(c *Config, name string) *sequence {
	q := &sequence{c: c, name: name, path: filepath.Join(c.Dir, fileName(name)), busy: make(chan struct{}, 1)}
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

// An edit makes a record of the one that was found, or nil to write nothing.
type edit = func(found *record, token string) (*record, error)

// change reads the record under its lock, lets edit change it, and writes what that returned; nil =
// nothing. edit gets nil if there is no record. An error of edit is returned as it is, and nothing was
// written. After any other error the write may have happened or not.
func (q *sequence) change(ctx context.Context, edit edit) (err error) {
	return q.whileLocked(ctx, func() error {
		found, damaged, err := q.read()
		if err != nil {
			return err
		}
		for _, what := range damaged {
			q.c.Log.Warn("file of a sequence: one copy is damaged, the other is used",
				"sequence", q.name, "file", q.path, "damage", what)
		}
		return q.put(ctx, found, edit)
	})
}

// revive writes what edit returns in place of a record that is damaged.
func (q *sequence) revive(ctx context.Context, edit edit) error {
	return q.whileLocked(ctx, func() error {
		found, _, err := q.read()
		switch {
		case errors.Is(err, counter.ErrDamaged):
			return q.put(ctx, nil, edit)
		case err == nil && found == nil:
			return q.missing()
		case err == nil:
			return counter.Whole(q.name)
		}
		return err
	})
}

func (q *sequence) whileLocked(ctx context.Context, do func() error) (err error) {
	if q.lock, err = q.takeLock(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, q.lock.Close())
		q.lock = nil
	}()
	return do()
}

// put writes what edit makes of the record that was found.
func (q *sequence) put(ctx context.Context, found *record, edit edit) error {
	token := q.c.Token()
	r, err := edit(found, token)
	if err != nil || r == nil {
		return err
	}
	if err := ctx.Err(); err != nil { // the disk took so long that a grant would be a gap
		return err
	}
	r.Generation, r.Machine = 1, q.c.Machine
	if found != nil {
		r.Generation = found.Generation + 1
	}
	if err := r.check(); err != nil {
		return fmt.Errorf("sequence %s: %w", q.name, err)
	}
	if err := q.write(r, found); err != nil {
		return fmt.Errorf("%s: %w", q.path, err)
	}
	q.last, q.seen = *r, true
	return nil
}

// write records r in place of found. Only who made the file, and wrote to it last, may overwrite it.
func (q *sequence) write(r, found *record) error {
	how := q.copies.Update
	if f := q.copies.File(); f == nil || !f.Is(q.path) || found == nil || *found != q.last {
		how = q.copies.Create
		if err := q.copies.Close(); err != nil {
			return err
		}
	}
	if err := how(r.encode()); err != nil {
		return err
	}
	if !q.locked() { // then others may have read the record before it was written
		return durable.ErrNotLocked
	}
	return nil
}

// takeLock waits for the lock until ctx ends.
func (q *sequence) takeLock(ctx context.Context) (durable.File, error) {
	for {
		f, err := q.c.Disk.Open(q.lockPath(), true)
		if errors.Is(err, fs.ErrNotExist) { // no directory
			return nil, q.missing()
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
// without the lock, it may be that somebody is writing it.
func (q *sequence) read() (_ *record, damaged []string, err error) {
	b, err := durable.Read(q.c.Disk, q.path)
	if errors.Is(err, fs.ErrNotExist) {
		if q.seen { // it must not be made again
			return nil, nil, q.missing()
		}
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
	q.seen = true
	return &r, damaged, nil
}

// unusable makes an error of opening what is no plain file a counter.ErrUnusable.
func unusable(err error) error {
	if errors.Is(err, durable.ErrLink) || errors.Is(err, durable.ErrNoFile) {
		return fmt.Errorf("%w: %w", counter.ErrUnusable, err)
	}
	return err
}

// missing is the error for a record that is not there.
func (q *sequence) missing() error {
	if q.seen {
		return fmt.Errorf("%w: %s was deleted: put it back, or define the sequence again and raise it above %d",
			counter.ErrForeign, q.path, q.granted)
	}
	return fmt.Errorf("%w: no %s", counter.ErrUnknown, q.path)
}

// usable says why a record must not be gone on from.
func (q *sequence) usable(found *record) error {
	if found == nil {
		return q.missing()
	}
	return q.foreign(found)
}

// foreign says why a record does not say which values are free.
func (q *sequence) foreign(r *record) error {
	switch {
	case r.Machine != "" && q.c.Machine != "" && r.Machine != q.c.Machine:
		return fmt.Errorf(
			"%w: %s was written on another machine (%s, this one is %s). Once nobody uses it there, take it over: "+
				"`katsubushi generator raise %s %d`, or a larger value if it issued more since it was copied",
			counter.ErrForeign, q.path, r.Machine, q.c.Machine, q.name, min(r.Next, r.Max))
	case r.Next <= q.granted:
		return fmt.Errorf("%w: %s was set back: it says that %d is free, and this daemon was granted up to %d. "+
			"`katsubushi generator raise %s %d`, or a larger value if other daemons issued more",
			counter.ErrForeign, q.path, r.Next, q.granted, q.name, min(q.granted+1, r.Max))
	}
	return nil
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
