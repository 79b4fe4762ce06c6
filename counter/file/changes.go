package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// rescan is how often Changes reads all records although the file of changes says nothing: a process
// may have been killed between writing a record and saying so.
const rescan = 30 * time.Second

// reread is how often the file of changes is read although it seems to be as it was: so that the ledger's note of this
// daemon, of every ten seconds, does not grow old.
const reread = 9 * time.Second

// changes is what a Store knows of what operators did.
type changes struct {
	mu     sync.Mutex
	text   string    // of the file of changes, when Changes last told of a change
	at     time.Time // when that was
	times  int       // how often it did
	read   sighting  // when the file was last read
	untold error     // why this process could not announce the last change that it made
}

// A sighting is what was read of the file of changes, and what will tell that there is more to read: another Version
// of the file, of the directory that it will be made in, or of that one's own.
type sighting struct {
	at      time.Time
	now     string // what the driver's Changes returned
	known   bool   // to whoever asks: he has told it, so that it could be signed
	path    string
	version durable.Version // before the file was read; the zero Version says nothing
}

func changesPath(c *Config) string { return filepath.Join(c.Dir, "changes") }

// announce tells all processes that a record has changed. The record has been written: if this fails,
// they will find out when they read all records.
func (h *changes) announce(c *Config) {
	f, err := c.Disk.Open(changesPath(c), false) // a full disk has no room for another one
	if errors.Is(err, fs.ErrNotExist) {
		f, err = c.Disk.Open(changesPath(c), true)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(c.Token()+"\n"), 0)
		err = errors.Join(err, f.Close())
	}
	h.mu.Lock()
	h.untold = err
	h.mu.Unlock()
	if err != nil {
		c.Log.Warn("other daemons learn of a change to a sequence within half a minute, not a second", "error", err)
	}
}

// failed says why daemons were not told of the last change.
func (h *changes) failed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.untold
}

// look reads the text of the file of changes; there may be none yet. A torn one is as good as any other.
func (c *Config) look(at time.Time) (text string, s sighting, err error) {
	s = sighting{at: at, path: changesPath(c)}
	above := filepath.Dir(c.Dir)
	file, dir, outer := c.Disk.Version(s.path), c.Disk.Version(c.Dir), c.Disk.Version(above)
	s.version = file
	f, err := c.Disk.Open(s.path, false)
	if errors.Is(err, fs.ErrNotExist) {
		s.path, s.version = c.Dir, dir
		if dir == (durable.Version{}) {
			if _, err := c.Disk.Names(c.Dir); errors.Is(err, fs.ErrNotExist) {
				s.path, s.version = above, outer
			}
		}
		return "", s, nil
	}
	if err != nil {
		return "", s, err
	}
	defer f.Close()
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return "", s, err
	}
	return strings.TrimSpace(string(b[:n])), s, nil
}

// Changes implements ledger.Driver: the text of the file of changes, and a number that rises with each rescan.
func (d *driver) Changes(context.Context) (string, error) {
	text, seen, err := d.c.look(time.Now())
	if err != nil {
		return "", err
	}
	h := &d.changes
	h.mu.Lock()
	defer h.mu.Unlock()
	if text != h.text || time.Since(h.at) >= rescan {
		h.text, h.at = text, time.Now()
		h.times++
	}
	seen.now = fmt.Sprint(text, "/", h.times)
	h.read = seen
	return seen.now, nil
}

// Changes implements counter.Store. Most often nobody has changed anything, and one look at what is in memory says so:
// it needs neither the disk nor a goroutine that waits for it.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	h := &s.d.changes
	h.mu.Lock()
	read := h.read
	h.mu.Unlock()
	if read.known && read.now == since && time.Since(read.at) < reread && !s.d.Closed() &&
		read.version != (durable.Version{}) && read.version == s.d.c.Disk.Version(read.path) {
		return since, nil, nil
	}
	now, records, err = s.Ledger.Changes(ctx, since)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read.known = err == nil && now == since && now == h.read.now
	return now, records, err
}
