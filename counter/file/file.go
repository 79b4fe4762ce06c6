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
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
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
	Now     func() time.Time
}

// atOnce is how many goroutines ask the disk for something at once. On a disk that does not answer,
// each blocks a thread.
const atOnce = 16

// LeastOpen is how many files of records a Store keeps open in any case.
const LeastOpen = 16

// A Store keeps sequences in files. It implements counter.Store and counter.Admin.
type Store struct {
	*ledger.Ledger
	d *driver
}

// A driver is a Store's ledger.Driver.
type driver struct {
	*ledger.Gate
	c Config

	mu    sync.Mutex
	files map[string]*sequence // by name: all that this process has asked for
	open  []*sequence          // those whose file is open, the one that was used last at the end; c.Open at most

	changes changes
	roll    roll
}

var words = ledger.Words{
	Unknown: "no {AT}",
	Lost:    "{AT} was deleted: put it back, or define the sequence again and raise it above {GRANTED}",
	SetBack: "{AT} was set back: it says that {NEXT} is free, and this daemon was granted up to {GRANTED}. " +
		"`katsubushi name raise {NAME} {LEAST}`, or a larger value if other daemons issued more",
}

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
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Open = max(c.Open, LeastOpen)
	d := &driver{c: c, files: map[string]*sequence{}}
	d.Gate = ledger.NewGate(atOnce, func(cause error) error { return d.NoAnswer("", cause) })
	s := &Store{ledger.New(d, ledger.Traits{Words: words, Signs: true}, c.Token), d}
	_, err := c.Disk.Names(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("counter store: %w", err)
	}
	return s, d.Prepare()
}

// NoAnswer implements ledger.Driver.
func (d *driver) NoAnswer(_ string, cause error) error {
	return fmt.Errorf("the disk of %s does not answer: %w", d.c.Dir, cause)
}

// At implements ledger.Driver.
func (d *driver) At(name string) string { return filepath.Join(d.c.Dir, fileName(name)) }

// Prepare implements ledger.Preparer: it makes the directory and refuses one whose file system may forget.
func (d *driver) Prepare() error {
	kind, err := d.c.Disk.Prepare(d.c.Dir)
	if err != nil {
		return fmt.Errorf("counter store: %w", err)
	}
	if kind != "" && !d.c.AnyDisk {
		return fmt.Errorf("counter store: %s is on %s: %w, so that values could repeat", d.c.Dir, kind, durable.ErrFileSystem)
	}
	return nil
}

// Check implements ledger.Driver.
func (d *driver) Check(def counter.Definition) error {
	if err := def.Check(); err != nil {
		return err
	}
	if def.Rate != 0 || def.RefuseLoss {
		return errors.New("rate= and on-loss= are for stores that may lose what they have confirmed; files do not")
	}
	return nil
}

// New implements ledger.Driver.
func (d *driver) New(_ ledger.Found, def counter.Definition, token string) (ledger.Entry, error) {
	return &ledger.Basic{Record: counter.NewRecord(def, token)}, nil
}

// Load implements ledger.Driver. The Version of what it finds is a *record.
func (d *driver) Load(_ context.Context, names []string) ([]ledger.Found, error) {
	q := d.sequence(names[0])
	r, damaged, err := q.read()
	found := ledger.Found{Name: q.name, Version: r}
	switch {
	case counter.Certain(err):
		found.Fault = err
	case err != nil:
		return nil, err
	case r != nil:
		found.Entry, found.Foreign = &ledger.Basic{Record: r.Record}, d.c.foreign(r)
	}
	if q.lock != nil { // or else another process may be writing it
		for _, what := range damaged {
			d.c.Log.Warn("file of a sequence: one copy is damaged, the other is used",
				"sequence", q.name, "file", q.path, "damage", what)
		}
	}
	return []ledger.Found{found}, nil
}

// Swap implements ledger.Driver. The lock is held, so no other process has written.
func (d *driver) Swap(_ context.Context, _ ledger.Fence, writes []ledger.Write) ([]ledger.Found, error) {
	w := writes[0]
	r := record{Record: *w.Next.Plain(), Generation: 1, Machine: d.c.Machine}
	found := w.Found.Version.(*record)
	if found != nil {
		r.Generation = found.Generation + 1
	}
	q := d.sequence(r.Name)
	if r.Timed() {
		r.Written = d.c.Now().UnixMilli()
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("sequence %s: %w", q.name, err)
	}
	if err := q.write(&r, found); err != nil {
		return nil, fmt.Errorf("%s: %w", q.path, err)
	}
	if q.last = r; w.Announce {
		d.changes.announce(&d.c)
	}
	return nil, nil
}

// Admit implements ledger.Admitter: it takes the lock of a strict sequence for the life of the Store.
// durable.ErrInUse means that another process has it, and may let go of it.
func (d *driver) Admit(_ ledger.Fence, found ledger.Found) error {
	r, q := found.Entry.Plain(), d.sequence(found.Name)
	if !r.Strict {
		return nil
	}
	begins := q.strict == nil
	if err := q.holdStrict(); err != nil {
		return err
	}
	if was := found.Version.(*record); r.Timed() && (begins || q.doubted) && r.Next > r.First() {
		now := d.c.Now()
		apart := now.Sub(time.UnixMilli(was.Written)).Round(time.Minute)
		if q.doubted = apart > doubtAfter; q.doubted {
			return fmt.Errorf("%w: the clock says %s, and the record was written %v before that. If the clock is right, "+
				"`katsubushi name raise %s AT_LEAST`, with an id of now", counter.ErrForeign,
				now.UTC().Format(time.RFC3339), apart, found.Name)
		}
	}
	return nil
}

// doubtAfter is how long before a start the record of timestamps may have been written: no other daemon can say
// whether a clock is right that has gone on by more.
const doubtAfter = 24 * time.Hour

// All implements ledger.Driver.
func (d *driver) All(context.Context) (all []ledger.Found, err error) {
	files, err := d.c.Disk.Names(d.c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("counter store: %w", err)
	}
	names := namesIn(files)
	slices.Sort(names)
	for _, name := range names {
		all = append(all, ledger.Found{Name: name, Unread: true})
	}
	return all, nil
}

// Close gives up the locks of sequences with order=strict, and closes the files. It does not wait for a
// disk that does not answer; whatever is still under way there then closes its own.
func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.Closed() {
		return nil
	}
	errs := []error{d.Do(ctx, func() error { return d.roll.leave(&d.c) })}
	d.Gate.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.files {
		if q.turn.TryLock() { // or else Lock's unlock closes it
			errs = append(errs, q.close())
			q.turn.Unlock()
		}
	}
	return errors.Join(errs...)
}

// sequence returns the state of a sequence's file, which is made on first use.
func (d *driver) sequence(name string) *sequence {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.files[name]
	if q == nil {
		q = newSequence(&d.c, name)
		d.files[name] = q
	}
	return q
}

// used notes that the file of a sequence may be open, and closes those that were not used for longest beyond
// Config.Open: the daemon has descriptors for so many. The next write to one of these makes its file anew, as
// after a restart. d.mu and q.turn are held.
func (d *driver) used(q *sequence) {
	d.open = slices.DeleteFunc(d.open, func(one *sequence) bool { return one == q })
	if q.copies.File() == nil {
		return
	}
	for len(d.open) >= d.c.Open {
		oldest := d.open[0]
		d.open = d.open[1:]
		if !oldest.turn.TryLock() { // it is in use again, and comes back here
			break
		}
		if err := oldest.copies.Close(); err != nil {
			d.c.Log.Warn("cannot close the file of a sequence", "sequence", oldest.name, "error", err)
		}
		oldest.turn.Unlock()
	}
	d.open = append(d.open, q)
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
