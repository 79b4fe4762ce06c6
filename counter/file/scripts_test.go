//go:build unix

package file_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestScripts plays what becomes of sequences in files. Beside the calls of countertest.Stage:
//
//	small 64k            the directory is a small disk
//	memory               it is one in memory
//	open a [in DIR] [checked]   a store there; checked = it looks at the disk
//	rm, mkdir, fifo NAME        link NAME TO, write NAME TEXT, lock NAME, fill NAME
//	ls PATTERN           which files there are
//	fails OPERATION      of the disk in memory, from now on: "write changes"; works
//	did                  what it did since, notes of daemons aside, and the generations in the record of orders
//	clock 48h            how much later it is for stores
//	a later 1m           and for what a knows of changes
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/files.script", func(t *testing.T, play func(script.Do)) {
		f := &folder{Stage: countertest.NewStage(t), t: t, dir: t.TempDir(), now: time.UnixMilli(1_790_000_000_000)}
		f.Words[f.dir] = "DIR"
		play(func(words []string) string { return f.Constant(f.do(words)) })
	})
}

// A folder is what a script has made.
type folder struct {
	*countertest.Stage
	t      *testing.T
	dir    string
	memory *crashdisk.Disk // nil = a real one
	now    time.Time
}

func (f *folder) do(words []string) string {
	path := filepath.Join(f.dir, append(words, "")[1])
	rest := strings.Join(words[min(2, len(words)):], " ")
	switch words[0] {
	case "small":
		f.dir = mount.Small(f.t, words[1])
		f.Words[f.dir] = "DIR"
	case "memory":
		f.memory = &crashdisk.Disk{}
	case "open":
		return f.open(words[1], words[2:])
	case "rm", "mkdir", "fifo", "link", "write", "lock", "fill":
		return countertest.Said("", map[string]func() error{
			"rm":    func() error { return os.Remove(path) },
			"mkdir": func() error { return os.Mkdir(path, 0o700) },
			"fifo":  func() error { return syscall.Mkfifo(path, 0o600) },
			"link":  func() error { return os.Symlink(rest, path) },
			"write": func() error { return os.WriteFile(path, []byte(strings.ReplaceAll(rest, `\0`, "\x00")+"\n"), 0o600) },
			"lock":  func() error { return f.lock(path) },
			"fill":  func() error { return fill(path) },
		}[words[0]]())
	case "ls":
		list, _ := filepath.Glob(path)
		return countertest.Said(strings.Join(list, "\n"), nil)
	case "fails", "works":
		f.memory.Fault = func(op string) error {
			if words[0] == "fails" && strings.HasPrefix(op, strings.Join(words[1:], " ")) {
				return syscall.ENOSPC
			}
			return nil
		}
	case "did":
		return f.did()
	case "clock":
		f.now = f.now.Add(f.Duration(words[1]))
	default:
		if words[1] == "later" {
			file.Later(f.Stores[words[0]].(*file.Store), f.Duration(words[2]))
			return ""
		}
		return f.Do(words)
	}
	return ""
}

func (f *folder) open(name string, words []string) string {
	c := file.Config{Dir: f.dir, AnyDisk: !slices.Contains(words, "checked"), Now: func() time.Time { return f.now }}
	if f.memory != nil {
		c.Disk = f.memory
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
