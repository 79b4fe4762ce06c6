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
)

// rescan is how often Changes reads all records although the file of changes says nothing: a process
// may have been killed between writing a record and saying so.
const rescan = 30 * time.Second

// changes is what a Store knows of what operators did.
type changes struct {
	mu     sync.Mutex
	text   string    // of the file of changes, when Changes last told of a change
	at     time.Time // when that was
	times  int       // how often it did
	untold error     // why this process could not announce the last change that it made
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

// announced returns the text of the file of changes. A torn one is as good as any other.
func announced(c *Config) (string, error) {
	f, err := c.Disk.Open(changesPath(c), false)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	return strings.TrimSpace(string(b[:n])), nil
}

// Changes implements ledger.Driver: the text of the file of changes, and a number that rises with each rescan.
func (d *driver) Changes(context.Context) (string, error) {
	text, err := announced(&d.c)
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
	return fmt.Sprint(text, "/", h.times), nil
}
