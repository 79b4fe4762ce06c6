package static

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// An Info describes one state file.
type Info struct {
	Path       string
	Worker     uint64
	Generation uint64 // number of writes
	// HighWater is the time up to which ids may have been issued. The next run starts below it if
	// it finds the last run's word.
	HighWater   time.Time
	Fingerprint string   // of the ids' layout
	Machine     string   // identity of the machine that wrote it; empty if that has none
	Damage      []string // of one copy: the other is used
	Err         error    // why the file cannot be used at all; the fields above mean nothing then, except Path
}

// Inspect reads all state files of a directory, ordered by worker id. Daemons may be running; a file
// that is being written may then seem to have a damaged copy.
func Inspect(dir string) ([]Info, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("static: state directory: %w", err)
	}
	var infos []Info
	for _, f := range files {
		if ok, _ := filepath.Match("worker-*.state", f.Name()); ok {
			infos = append(infos, inspect(filepath.Join(dir, f.Name())))
		}
	}
	if infos == nil {
		return nil, fmt.Errorf("static: no state file in %s", dir)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Worker, b.Worker) })
	return infos, nil
}

func inspect(path string) Info {
	var r record
	var damage []string
	b, err := os.ReadFile(path)
	if err == nil {
		r, damage, err = recoverRecord(b)
	}
	return Info{
		Path: path, Worker: r.Worker, Generation: r.Generation,
		HighWater:   time.UnixMilli(reached(durable.OS{}, filepath.Dir(path), &r)).UTC(),
		Fingerprint: r.Fingerprint, Machine: r.Machine, Damage: damage, Err: err,
	}
}

// Adopt makes a state file of another machine this machine's. The daemon there must have stopped for
// good before now, a Unix ms: Adopt moves the mark to the highest it can have reached by then.
// ErrInUse if a process uses the file.
func Adopt(dir string, worker uint64, now int64) (Info, error) {
	return rewrite(dir, worker, func(r *record, err error) error {
		if err != nil {
			return err
		}
		r.HighWater = max(r.HighWater, now+r.Reserve)
		return nil
	})
}

// A LoweredError is returned by Reset if the file can be read and ids may have been issued above the
// new mark. Retry with force, or with a later mark.
type LoweredError struct {
	From, To time.Time // the file's mark, and the new one, which is earlier
}

// By returns how far the mark would go back.
func (e *LoweredError) By() time.Duration { return e.From.Sub(e.To) }

func (e *LoweredError) Error() string {
	const ms = "2006-01-02T15:04:05.000Z07:00"
	return fmt.Sprintf("the file says that ids may have been issued up to %s, %v after %s: they would come again",
		e.From.UTC().Format(ms), e.By(), e.To.UTC().Format(ms))
}

// Reset creates a state file, or replaces one whatever it contains, so that ids are issued only above
// mark, a Unix ms. Ids repeat if any were issued above it. So Reset lowers a mark that it can read,
// of any layout, only with force; without, the error is a *LoweredError. ErrInUse if a process uses
// the file.
func Reset(dir string, worker uint64, mark int64, fingerprint string, force bool) (Info, error) {
	return rewrite(dir, worker, func(r *record, err error) error {
		var generation uint64
		if err == nil {
			if r.HighWater > mark && !force {
				return &LoweredError{From: time.UnixMilli(r.HighWater), To: time.UnixMilli(mark)}
			}
			generation = r.Generation
		}
		*r = record{Generation: generation, HighWater: mark, Fingerprint: fingerprint}
		return nil
	})
}

// rewrite writes a new state file with a changed record.
func rewrite(dir string, worker uint64, change func(*record, error) error) (_ Info, err error) {
	path := statePath(dir, worker)
	defer func() {
		if err != nil {
			err = fmt.Errorf("static: worker id %d: %w", worker, err)
		}
	}()
	lock, err := lockFile(durable.OS{}, path)
	if err != nil {
		return Info{}, err
	}
	defer lock.Close()
	r, _, err := readState(durable.OS{}, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("no state file: %w", err)
	}
	r.HighWater = reached(durable.OS{}, dir, &r)
	if err := change(&r, err); err != nil {
		return Info{}, err
	}
	r.Worker, r.Machine, r.Boot, r.Run, r.Offset = worker, MachineID(), "", run{}, 0
	if err := r.check(); err != nil {
		return Info{}, err
	}
	s := newStateFile(durable.OS{}, path, slog.New(slog.DiscardHandler), func() bool { return lock.Is(lockPath(path)) },
		nil)
	s.record = r
	if err := errors.Join(s.create(r.HighWater), s.Close()); err != nil {
		return Info{}, err
	}
	return inspect(path), nil
}
