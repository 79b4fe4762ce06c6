package static_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/mount"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// inShm is a directory on tmpfs, and the memory in it.
func inShm(t *testing.T) (string, static.Memory) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m, err := static.SharedMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, m
}

// TestSharedMemory: pages are files. Whatever is done to one but through its word, it is not believed any more.
func TestSharedMemory(t *testing.T) {
	script.Run(t, "testdata/memory.txt", func(t *testing.T, play func(script.Do)) {
		dir, m := inShm(t)
		var p static.Page
		calls := script.Calls{
			"make": func(nonce string) error {
				made, err := m.Make(nonce, 41)
				if err == nil {
					p = made
					goOn(t, dir)
				}
				return err
			},
			"store": func(word uint64) { p.Word.Store(word) },
			"find": func(nonce string) (string, error) {
				issued, word, err := m.Find(p.ID, nonce)
				if err != nil {
					return "", err
				}
				return fmt.Sprintf("from %d, word %d", issued, word), nil
			},
			"changed": func(nonce string) bool { return m.Changed(p.ID, nonce) },
			"remove":  func(nonce string) error { return m.Remove(p.ID, nonce) },
			// name FILE: the page gets the identity that this file has
			"name": func(file string) { p.ID = static.PageID(t, filepath.Join(dir, file)) },
			"in": func(sub string) (err error) {
				m, err = static.SharedMemory(filepath.Join(dir, sub))
				return err
			},
			"small": func(size string) (err error) {
				dir = mount.Small(t, size)
				m, err = static.SharedMemory(dir)
				return err
			},
			"fill": func() { fill(t, dir) },
			"$": func(words []string) string {
				c := exec.Command("sh", "-c", strings.Join(words, " "))
				c.Dir = dir
				said, err := c.CombinedOutput()
				if err != nil {
					t.Error(err)
				}
				return string(said)
			},
		}
		play(func(words []string) string {
			return strings.NewReplacer(dir, "DIR", fmt.Sprintf("user %d:", os.Geteuid()), "user ME:").Replace(calls.Do(t, words))
		})
	})
}

// goOn waits until the file system's clock has gone on. It is as coarse as the kernel's tick, and who makes and tampers
// within one is not found out.
func goOn(t *testing.T, dir string) {
	t.Helper()
	probe := filepath.Join(dir, "probe")
	defer os.Remove(probe)
	var first, now time.Time
	for first.IsZero() || !now.After(first) {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		if now = info.ModTime(); first.IsZero() {
			first = now
		}
	}
}

// TestWorkersThatStartTogether: one of them writes the shared mark, and the others wait for it.
func TestWorkersThatStartTogether(t *testing.T) {
	w := newWorld(t)
	_, w.memory = inShm(t)
	w.share = true
	c := w.config(1, 2, 3, 4, 5, 6, 7, 8)
	c.AnyDisk = true
	s, err := static.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all sync.WaitGroup
	for _, id := range c.Workers {
		all.Go(func() {
			if _, err := s.Acquire(ctx, workerid.Request{Min: id, Max: id}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	names, err := filepath.Glob(w.dir + "/shared-*")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	series := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(names[0]), "shared-"), ".mark")
	for _, id := range c.Workers {
		b, err := os.ReadFile(fmt.Sprintf("%s/worker-%d.state", w.dir, id))
		if err != nil || !strings.Contains(string(b), ";"+series+".") {
			t.Errorf("worker id %d does not share %s: %v", id, series, err)
		}
	}
}
