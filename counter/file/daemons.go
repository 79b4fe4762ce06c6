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

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A daemon has a file of its own, DIR/TOKEN.daemon, from before it is granted its first block. It keeps
// the lock of that file for life, so that others know that it runs, and it writes down which changes it
// has learnt of: a counter.Note, and a newline.
type roll struct {
	mu   sync.Mutex
	note counter.Note
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

// sign notes that this process has learnt of all changes up to a text, if it is time. Whether it succeeds
// does not matter to a daemon: one whose file has no text is one that has not confirmed anything.
func (r *roll) sign(c *Config, since string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.note.Next(since, time.Now())
	if text == "" || r.left {
		return
	}
	err := r.enter(c)
	if err == nil {
		_, err = r.file.WriteAt([]byte(text+"\n"), noteAt)
	}
	if err != nil {
		r.note = counter.Note{} // to be tried again
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no directory: no sequence was ever defined there
		c.Log.Warn("this daemon cannot confirm changes to sequences", "error", err)
	}
}

// begin enters a process that is about to be granted its first block.
func (r *roll) begin(c *Config) {
	r.mu.Lock()
	there := r.file != nil
	r.mu.Unlock()
	if !there {
		r.sign(c, nothingYet)
	}
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
	if errors.Is(err, fs.ErrNotExist) {
		return notes, nil
	} else if err != nil {
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

// Behind implements counter.Admin. It names only daemons that run. Daemons of releases before this one do
// not say which changes they have learnt of, and are not named.
func (s *Store) Behind(ctx context.Context) ([]counter.Daemon, error) {
	return atDisk(ctx, s, func() {}, func() (behind []counter.Daemon, err error) {
		changes, err := announced(&s.c)
		if err = errors.Join(err, s.changes.failed()); err != nil {
			return nil, err
		}
		notes, err := running(&s.c)
		for name, text := range notes {
			d, since := counter.ReadNote(text, time.Now())
			if since == changes && d.Name != "" {
				continue
			}
			if d.Name == "" {
				d = counter.Daemon{Name: "with the file " + name}
			}
			behind = append(behind, d)
		}
		return behind, err
	})
}
