package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// rescan is how often Changes reads all records although the file of changes says nothing: a process
// may have been killed between writing a record and saying so.
const rescan = 30 * time.Second

// changes is what a Store knows of what operators did.
type changes struct {
	mu     sync.Mutex
	text   string    // of the file of changes, before all records were read
	at     time.Time // when they were; zero = never
	digest string    // of what they said
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

// Changes implements counter.Store. It notes what this process has learnt of.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	c := &s.changes
	c.mu.Lock()
	learnt := nothingYet
	if !c.at.IsZero() && since == c.digest {
		learnt = c.text
	}
	c.mu.Unlock()
	text, err := atDisk(ctx, s, func() {}, func() (string, error) {
		s.roll.sign(&s.c, learnt)
		return announced(&s.c)
	})
	if err != nil {
		return since, nil, err
	}
	c.mu.Lock()
	fresh := !c.at.IsZero() && text == c.text && time.Since(c.at) < rescan && since == c.digest
	c.mu.Unlock()
	if fresh {
		return since, nil, nil
	}
	names, err := s.names(ctx)
	if err != nil {
		return since, nil, err
	}
	if records, err = s.records(ctx, names); err != nil {
		return since, nil, err
	}
	sum := sha256.New()
	for _, r := range records {
		fmt.Fprintln(sum, r.Definition, r.Floor, r.Retired, r.Fault)
	}
	digest := hex.EncodeToString(sum.Sum(nil)[:16])
	c.mu.Lock()
	c.text, c.at, c.digest = text, time.Now(), digest
	c.mu.Unlock()
	if digest == since {
		return digest, nil, nil
	}
	return digest, records, nil
}
