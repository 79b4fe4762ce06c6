//go:build unix

package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/mount"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScripts plays what becomes of sequences in files. Beside the calls of countertest.Stage there are those of a
// folder.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/files.script", func(t *testing.T, play func(script.Do)) {
		f := &folder{Stage: countertest.NewStage(t), t: t, dir: t.TempDir(), now: time.UnixMilli(1_790_000_000_000)}
		f.Words[f.dir] = "DIR"
		f.calls()
		play(func(words []string) string { return f.Constant(f.Do(words)) })
	})
}

// A folder is what a script has made.
type folder struct {
	*countertest.Stage
	t      *testing.T
	dir    string
	memory *crashdisk.Disk // nil = a real one
	told   told
	now    time.Time
}

func (f *folder) calls() {
	in := func(name string) string { return filepath.Join(f.dir, name) }
	maps.Copy(f.Calls, script.Calls{
		// small 64k: the directory is a small disk; memory: it is one in memory
		"small": func(size string) {
			f.dir = mount.Small(f.t, size)
			f.Words[f.dir] = "DIR"
		},
		"memory": func() { f.memory = &crashdisk.Disk{} },
		// open a [in DIR] [checked] [told]: a store there; checked = it looks at the disk; told = each Version is certain
		// at once, but for that of a directory with a file "unsure"; touched: how often such stores asked for more since
		"open":    f.open,
		"touched": func() int { return int(f.told.Swap(0)) },
		"rm":      func(name string) error { return os.Remove(in(name)) },
		"mkdir":   func(name string) error { return os.Mkdir(in(name), 0o700) },
		"fifo":    func(name string) error { return syscall.Mkfifo(in(name), 0o600) },
		"link":    func(name, to string) error { return os.Symlink(to, in(name)) },
		"write": func(name, text string) error {
			return os.WriteFile(in(name), []byte(strings.ReplaceAll(text, `\0`, "\x00")+"\n"), 0o600)
		},
		"lock": func(name string) error { return f.lock(in(name)) },
		"fill": func(name string) error { return fill(in(name)) },
		// ls PATTERN: which files there are
		"ls": func(pattern string) (string, error) {
			list, err := filepath.Glob(in(pattern))
			return strings.Join(list, "\n"), err
		},
		// fails OPERATION of the disk in memory, from now on: "write changes"
		"fails": func(operation ...string) {
			f.memory.Fault = func(op string) error {
				if strings.HasPrefix(op, strings.Join(operation, " ")) {
					return syscall.ENOSPC
				}
				return nil
			}
		},
		// read-only: it can be read, and nothing can be opened to be written
		"read-only": func() {
			f.memory.Fault = func(op string) error {
				if strings.HasPrefix(op, "open") && strings.HasSuffix(op, "create") {
					return syscall.EROFS
				}
				return nil
			}
		},
		"works": func() { f.memory.Fault = nil },
		// did: what it did since, notes of daemons aside, and the generations in the record of orders
		"did": f.did,
		// clock 48h: how much later it is for stores; a later 1m: and for what a knows of changes
		"clock": func(d time.Duration) { f.now = f.now.Add(d) },
		"later": file.Later,
	})
}

func (f *folder) open(name string, words ...string) string {
	c := file.Config{Dir: f.dir, AnyDisk: !slices.Contains(words, "checked"), Now: func() time.Time { return f.now }}
	if f.memory != nil {
		c.Disk = f.memory
	}
	if slices.Contains(words, "told") {
		c.Disk = &f.told
	}
	if len(words) > 1 {
		c.Dir = filepath.Join(f.dir, words[1])
	}
	s, err := file.Open(c)
	if err == nil {
		f.t.Cleanup(func() { s.Close() })
		f.Stores[name] = s
	}
	if errors.Is(err, durable.ErrFileSystem) {
		return "of the file system: " + err.Error()
	}
	return strings.TrimPrefix(countertest.Said("", err), "ok")
}

// A told disk is a real one that counts what is done to its files and directories, and knows every Version of them.
type told struct {
	durable.OS
	atomic.Int64
}

func (d *told) Open(path string, create bool) (durable.File, error) {
	d.Add(1)
	return d.OS.Open(path, create)
}

func (d *told) Names(dir string) ([]string, error) {
	d.Add(1)
	return d.OS.Names(dir)
}

func (d *told) Version(path string) durable.Version {
	names, err := os.ReadDir(path)
	text := []byte(fmt.Sprint(names))
	if err != nil {
		text, err = os.ReadFile(path)
	}
	if err != nil || bytes.Contains(text, []byte("unsure")) {
		return durable.Version{}
	}
	return durable.Version{Ino: 1, Changed: int64(crc32.ChecksumIEEE(text))}
}

// lock locks a file as another daemon does.
func (f *folder) lock(path string) error {
	file, err := durable.OS{}.Open(path, true)
	if err == nil {
		f.t.Cleanup(func() { file.Close() })
		err = file.Lock()
	}
	return err
}

// fill takes all room.
func fill(path string) error {
	f, err := os.Create(path)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return errors.Join(err, f.Close())
}

func (f *folder) did() string {
	trace := slices.DeleteFunc(f.memory.Trace, func(op string) bool { return strings.Contains(op, ".daemon") })
	f.memory.Trace = nil
	var generations []string
	for line := range strings.Lines(string(f.memory.Read("orders.sequence"))) {
		if strings.HasPrefix(line, "generation") {
			generations = append(generations, strings.TrimSpace(line))
		}
	}
	return fmt.Sprint(strings.Join(trace, ", "), "\n", strings.Join(generations, ", "))
}
