package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// Config is what a Store is made of.
type Config struct {
	Dir     string       // of the files; made when the first sequence is defined
	AnyDisk bool         // accept file systems that may forget what they have synced
	Log     *slog.Logger // default none
	Open    int          // how many files of records stay open between two writes; LeastOpen at least

	// The rest is the machine that the Store runs on. Zero values mean this one, and nothing else is
	// right in a daemon; tests use disks that lose power and other machines.
	Disk    durable.Disk
	Machine string        // identity of this machine, see durable.MachineID
	Token   func() string // returns a text that it has not returned before, also in other processes
}

// atOnce is how many goroutines ask the disk for something at once. On a disk that does not answer,
// each blocks a thread.
const atOnce = 16

// A Store keeps sequences in files. It implements counter.Store and counter.Admin.
type Store struct {
	c     Config
	slots chan struct{} // one token for each goroutine that is at the disk

	mu     sync.Mutex
	files  map[string]*sequence // by name: all that this process has asked for
	open   []*sequence          // those whose file is open, the one that was used last at the end; c.Open at most
	closed bool

	changes changes
	roll    roll
}

var (
	_ counter.Store = (*Store)(nil)
	_ counter.Admin = (*Store)(nil)
)

// Open makes a Store. It reads and writes nothing, but checks the file system of a directory that is
// there already: the error is then durable.ErrFileSystem.
func Open(c Config) (*Store, error) {
	if c.Disk == nil {
		c.Disk = durable.OS{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Machine == "" {
		c.Machine = durable.MachineID()
	}
	if c.Token == nil {
		c.Token = rand.Text
	}
	c.Open = max(c.Open, LeastOpen)
	s := &Store{c: c, slots: make(chan struct{}, atOnce), files: map[string]*sequence{}}
	_, err := c.Disk.Names(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("counter store: %w", err)
	}
	return s, s.prepare()
}

// LeastOpen is how many files of records a Store keeps open in any case.
const LeastOpen = 16

// used notes that the file of a sequence may be open, and closes those that were not used for longest beyond
// Config.Open: the daemon has descriptors for so many. The next write to one of these makes its file anew, as
// after a restart. s.mu and q.busy are held.
func (s *Store) used(q *sequence) {
	s.open = slices.DeleteFunc(s.open, func(one *sequence) bool { return one == q })
	if q.copies.File() == nil {
		return
	}
	for len(s.open) >= s.c.Open {
		oldest := s.open[0]
		select {
		case oldest.busy <- struct{}{}:
		default: // it is in use again, and comes back here
			s.open = append(s.open[1:], q)
			return
		}
		if err := oldest.copies.Close(); err != nil {
			s.c.Log.Warn("cannot close the file of a sequence", "sequence", oldest.name, "error", err)
		}
		<-oldest.busy
		s.open = s.open[1:]
	}
	s.open = append(s.open, q)
}

// prepare makes the directory and refuses one whose file system may forget.
func (s *Store) prepare() error {
	kind, err := s.c.Disk.Prepare(s.c.Dir)
	if err != nil {
		return fmt.Errorf("counter store: %w", err)
	}
	if kind != "" && !s.c.AnyDisk {
		return fmt.Errorf("counter store: %s is on %s: %w, so that values could repeat", s.c.Dir, kind, durable.ErrFileSystem)
	}
	return nil
}

// Close gives up the locks of sequences with order=strict, and closes the files. It does not wait for a
// disk that does not answer; whatever is still under way there then closes its own.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	var errs []error
	for _, q := range s.files {
		select {
		case q.busy <- struct{}{}:
			errs = append(errs, q.close())
			<-q.busy
		default: // do sees closed when it is done
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := atDisk(ctx, s, func() {}, func() (none struct{}, err error) { return none, s.roll.leave(&s.c) })
	return errors.Join(append(errs, err)...)
}

// sequence returns the state of a sequence's file, which is made on first use.
func (s *Store) sequence(name string) (*sequence, error) {
	if name == "" || len(name) > 64 {
		return nil, fmt.Errorf("%w: %q", counter.ErrUnknown, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the counter store is closed")
	}
	q := s.files[name]
	if q == nil {
		q = newSequence(&s.c, name)
		s.files[name] = q
	}
	return q, nil
}

// do lets f work at the disk with the files of one sequence, and nobody else meanwhile. It returns when
// ctx has ended; then f may still be under way, or not begin.
func do[T any](ctx context.Context, s *Store, name string, f func(q *sequence) (T, error)) (none T, err error) {
	q, err := s.sequence(name)
	if err != nil {
		return none, err
	}
	select {
	case q.busy <- struct{}{}:
	case <-ctx.Done():
		return none, s.noAnswer(ctx)
	}
	leave := func() {
		s.mu.Lock()
		if s.closed {
			_ = q.close()
		} else {
			s.used(q)
		}
		<-q.busy
		s.mu.Unlock()
	}
	return atDisk(ctx, s, leave, func() (T, error) { return f(q) })
}

// atDisk runs f in a goroutine, as the disk may block it, and then leave. At most atOnce run.
func atDisk[T any](ctx context.Context, s *Store, leave func(), f func() (T, error)) (none T, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		leave()
		return none, s.noAnswer(ctx)
	}
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		<-s.slots
		leave()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		return none, s.noAnswer(ctx)
	}
}

func (s *Store) noAnswer(ctx context.Context) error {
	return fmt.Errorf("the disk of %s does not answer: %w", s.c.Dir, ctx.Err())
}

// Define implements counter.Store. With counter.ErrForeign it returns the record as it was found.
func (s *Store) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := d.Check(); err != nil {
		return counter.Record{}, err
	}
	if err := checkLossless(d); err != nil {
		return counter.Record{}, err
	}
	return do(ctx, s, d.Name, func(q *sequence) (r counter.Record, err error) {
		if err := s.prepare(); err != nil {
			return r, err
		}
		made := false
		err = q.change(ctx, func(found *record, token string) (*record, error) {
			if found != nil {
				r = found.Record
				return nil, q.foreign(found)
			}
			made, r = true, counter.NewRecord(d, token)
			return &record{Record: r}, nil
		})
		if err == nil && made {
			s.changes.announce(&s.c)
		}
		return r, err
	})
}

func checkLossless(d counter.Definition) error {
	if d.Rate != 0 || d.RefuseLoss {
		return errors.New("rate= and on-loss= are for stores that may lose what they have confirmed; files do not")
	}
	return nil
}

// Reserve implements counter.Store. It takes the lock of a strict sequence for the life of the Store;
// durable.ErrInUse means that another process has it, and may let go of it.
func (s *Store) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	return do(ctx, s, name, func(q *sequence) (b counter.Block, err error) {
		s.roll.begin(&s.c)
		err = q.change(ctx, func(found *record, token string) (*record, error) {
			if err := q.usable(found); err != nil {
				return nil, err
			}
			if found.Strict {
				if err := q.holdStrict(); err != nil {
					return nil, err
				}
			}
			r := *found
			var err error
			b, err = r.Reserve(n, token)
			return &r, err
		})
		if err != nil {
			return counter.Block{}, err
		}
		q.granted = b.Hi
		return b, nil
	})
}

// Return implements counter.Store.
func (s *Store) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	_, err := do(ctx, s, name, func(q *sequence) (none struct{}, err error) {
		return none, q.change(ctx, func(found *record, token string) (*record, error) {
			if err := q.usable(found); err != nil {
				return nil, err
			}
			r := *found
			if err := r.Return(b, next, token); err != nil {
				return nil, err
			}
			q.granted = next - 1 // whether the write succeeds or not: the caller does not use them again
			return &r, nil
		})
	})
	return err
}

// Show implements counter.Admin.
func (s *Store) Show(ctx context.Context, name string) (counter.Record, error) {
	return do(ctx, s, name, func(q *sequence) (counter.Record, error) {
		found, _, err := q.read()
		if errors.Is(err, durable.ErrDamaged) { // or somebody is writing it
			err = q.change(ctx, func(again *record, _ string) (*record, error) {
				found = again
				return nil, nil
			})
		}
		if err == nil && found == nil {
			err = q.missing()
		}
		if err != nil {
			return counter.Record{}, err
		}
		return found.Record, q.foreign(found)
	})
}

// Raise implements counter.Admin.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.edit(ctx, name, func(r *record, token string) error { return r.Raise(atLeast, token) })
}

// Revive implements counter.Admin.
func (s *Store) Revive(ctx context.Context, d counter.Definition, atLeast uint64) (counter.Record, error) {
	if err := checkLossless(d); err != nil {
		return counter.Record{}, err
	}
	return do(ctx, s, d.Name, func(q *sequence) (r counter.Record, err error) {
		err = q.revive(ctx, func(_ *record, token string) (*record, error) {
			var err error
			r, err = counter.Revived(d, atLeast, token)
			return &record{Record: r}, err
		})
		if err == nil {
			s.changes.announce(&s.c)
		}
		return r, err
	})
}

// Retire implements counter.Admin.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	return s.edit(ctx, name, func(r *record, token string) error {
		r.Retire(token)
		return nil
	})
}

// edit changes a record on behalf of an operator, also one of another machine, and tells the daemons.
func (s *Store) edit(ctx context.Context, name string, change func(r *record, token string) error) (counter.Record,
	error) {
	return do(ctx, s, name, func(q *sequence) (counter.Record, error) {
		var r record
		err := q.change(ctx, func(found *record, token string) (*record, error) {
			if found == nil {
				return nil, q.missing()
			}
			r = *found
			return &r, change(&r, token)
		})
		if err != nil {
			return counter.Record{}, err
		}
		s.changes.announce(&s.c)
		return r.Record, nil
	})
}

// List implements counter.Admin.
func (s *Store) List(ctx context.Context) ([]counter.Record, error) {
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	return s.records(ctx, names)
}

// records reads the records of these sequences. The error is that of the context.
func (s *Store) records(ctx context.Context, names []string) (list []counter.Record, err error) {
	for _, name := range names {
		r, err := s.Show(ctx, name)
		if ctx.Err() != nil {
			return nil, err
		}
		if r.Name == "" {
			r = counter.Unread(name, err)
		}
		r.Fault = err
		list = append(list, r)
	}
	return list, nil
}

// Recorded returns the sequences in a directory that Open may be given, as far as it can be read, and whether a
// Store that issues them holds a lock for life: order=strict, and not retired.
func Recorded(dir string) map[string]bool {
	found := map[string]bool{}
	files, _ := durable.OS{}.Names(dir)
	for _, name := range namesIn(files) {
		var r record
		if b, err := durable.Read(durable.OS{}, filepath.Join(dir, fileName(name))); err == nil {
			r, _, _ = recoverRecord(b) // of a damaged one none is issued
		}
		found[name] = r.Strict && !r.Retired
	}
	return found
}

// namesIn returns the sequences whose files are among these.
func namesIn(files []string) (names []string) {
	for _, f := range files {
		if name, ok := nameOf(filepath.Base(f)); ok {
			names = append(names, name)
		}
	}
	return names
}

// names returns the sequences of the directory, in order.
func (s *Store) names(ctx context.Context) ([]string, error) {
	return atDisk(ctx, s, func() {}, func() (names []string, err error) {
		files, err := s.c.Disk.Names(s.c.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("counter store: %w", err)
		}
		names = namesIn(files)
		slices.Sort(names)
		return names, nil
	})
}

// lockPause is how long a call waits before it tries a lock again that another process has. That one
// holds it for two writes.
const lockPause = 2 * time.Millisecond
