package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A daemon has a file of its own, DIR/TOKEN.daemon, from before it is granted its first block. It keeps
// the lock of that file for life, so that others know that it runs, and it writes down which changes it
// has learnt of: a note of its ledger, and a newline.
type roll struct {
	mu   sync.Mutex
	path string
	file durable.File // its lock is held; nil = there is none
	left bool         // for good
}

const (
	noteSuffix = ".daemon"
	noteAt     = 1   // of the text in the file: where a lock is mandatory, it covers the first byte
	noteSize   = 256 // bytes that are read of it
	// nothingYet is what a daemon has learnt of before it has read the records.
	nothingYet = "-"
)

// Learnt implements ledger.Noter.
func (d *driver) Learnt(since string) string {
	if i := strings.LastIndexByte(since, '/'); i >= 0 {
		return since[:i]
	}
	return nothingYet
}

// Sign implements ledger.Noter. Whether it succeeds does not matter to a daemon: one whose file has no text is one
// that has not confirmed anything.
func (d *driver) Sign(_ context.Context, text string) error {
	r := &d.roll
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return nil
	}
	err := r.enter(&d.c)
	if err == nil {
		_, err = r.file.WriteAt([]byte(text+"\n"), noteAt)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no directory: no sequence was ever defined there
		d.c.Log.Warn("this daemon cannot confirm changes to sequences", "error", err)
	}
	return err
}

// enter makes the file of this process, if there is none. It removes those of others that were killed.
func (r *roll) enter(c *Config) error {
	if r.file != nil {
		return nil
	}
	if _, err := running(c); err != nil {
		return err
	}
	path := filepath.Join(c.Dir, c.Token()+noteSuffix)
	f, err := c.Disk.Open(path, true)
	if err != nil {
		return err
	}
	if err = f.Lock(); err == nil && !f.Is(path) {
		err = errors.New("another process has just removed " + path) // it took it for one that was left
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.path, r.file = path, f
	return nil
}

// leave takes the file away, for good.
func (r *roll) leave(c *Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return errors.Join(err, c.Disk.Remove(r.path))
}

// running returns the notes of the daemons that run, by the names of their files. It removes the files of
// those that were killed.
func running(c *Config) (notes map[string]string, err error) {
	notes = map[string]string{}
	names, err := c.Disk.Names(c.Dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(c.Dir, filepath.Base(name))
		if !strings.HasSuffix(path, noteSuffix) {
			continue
		}
		f, err := c.Disk.Open(path, false)
		if err != nil { // it has just ended
			continue
		}
		held := f.Lock()
		b := make([]byte, noteSize)
		n, err := f.ReadAt(b, noteAt)
		if err == io.EOF {
			err = nil
		}
		err = errors.Join(err, f.Close())
		if held == nil { // by this call alone
			_ = c.Disk.Remove(path) // the next one tries it again
			continue
		}
		text, _, _ := strings.Cut(string(b[:n]), "\n")
		if notes[filepath.Base(path)] = text; err != nil {
			return nil, err
		}
	}
	return notes, nil
}

// Notes implements ledger.Noter. It names only daemons that run. Daemons of releases before this one do
// not say which changes they have learnt of, and are not named.
func (d *driver) Notes(context.Context) (notes map[string]string, changes string, err error) {
	changes, _, err = d.c.look(time.Time{})
	if err = errors.Join(err, d.changes.failed()); err != nil {
		return nil, "", err
	}
	if notes, err = running(&d.c); errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, changes, nil
	}
	return notes, changes, err
}

// Forget implements ledger.Noter: running has done that.
func (d *driver) Forget(context.Context, string) (bool, error) { return false, nil }
