package static_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/mount"
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

func TestSharedMemory(t *testing.T) {
	dir, m := inShm(t)
	p, err := m.Make("abc", 41)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{0, 1 << 62, 42} {
		p.Word.Store(want)
		if issued, word, err := m.Find(p.ID, "abc"); issued != 41 || word != want || err != nil {
			t.Errorf("%d, %d, %v; want %d", issued, word, err, want)
		}
	}
	if _, err := m.Make("abc", 41); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made again over what is there: %v", err)
	}
	for range 2 { // there is nothing to remove for the second one
		if err := m.Remove(p.ID, "abc"); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := m.Find(p.ID, "abc"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	p.Word.Add(1) // still there for who has it
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// Whatever was done to a page but through its word, it is not believed any more.
func TestSharedMemoryThatWasTamperedWith(t *testing.T) {
	dir, m := inShm(t)
	path := filepath.Join(dir, "katsubushi-abc")
	content := func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// Who runs need not mind what became of the name.
	inPlace := map[string]bool{"written": true, "cut short": true, "longer": true, "readable": true, "linked": true,
		"moved away and back": true}
	for what, tamper := range map[string]func() error{
		"nothing":   func() error { return nil },
		"removed":   func() error { return os.Remove(path) },
		"written":   func() error { return os.WriteFile(path, content(), 0o600) },
		"cut short": func() error { return os.Truncate(path, 2048) },
		"longer":    func() error { return os.Truncate(path, 8192) },
		"readable":  func() error { return os.Chmod(path, 0o644) },
		"linked":    func() error { return os.Link(path, path+"-2") },
		"a copy": func() error {
			return errors.Join(os.WriteFile(path+"-2", content(), 0o600), os.Rename(path+"-2", path))
		},
		"moved away and back": func() error { return errors.Join(os.Rename(path, path+"-2"), os.Rename(path+"-2", path)) },
		"a symbolic link":     func() error { return errors.Join(os.Rename(path, path+"-2"), os.Symlink(path+"-2", path)) },
		"a directory":         func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o600)) },
		"a pipe":              func() error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) },
	} {
		p, err := m.Make("abc", 41)
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		// Times are as coarse as the kernel's tick. Who makes and tampers within one is not found
		// out by them.
		probe := filepath.Join(dir, "probe")
		for moved := false; !moved; {
			os.WriteFile(probe, nil, 0o600)
			now, err := os.Stat(probe)
			if err != nil {
				t.Fatal(err)
			}
			moved = now.ModTime().After(before.ModTime())
		}
		os.Remove(probe)
		if err := tamper(); err != nil {
			t.Fatal(what, err)
		}
		if issued, word, err := m.Find(p.ID, "abc"); (err == nil) != (what == "nothing") {
			t.Errorf("%s: %d, %d, %v", what, issued, word, err)
		}
		if got := m.Changed(p.ID, "abc"); got != inPlace[what] {
			t.Errorf("%s: changed in place: %v", what, got)
		}
		os.Remove(path)
		os.Remove(path + "-2")
	}
}

// The page of another run under the name and the identity of this one: only what is in it tells.
func TestSharedMemoryOfAnotherRun(t *testing.T) {
	dir, m := inShm(t)
	p, err := m.Make("abc", 41)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(elsewhere, "katsubushi-xyz")
	if err := os.Symlink(filepath.Join(dir, "katsubushi-abc"), path); err != nil {
		t.Fatal(err)
	}
	other, err := static.SharedMemory(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Find(p.ID, "xyz"); err == nil {
		t.Error("through a symbolic link")
	}
	if err := os.Rename(filepath.Join(dir, "katsubushi-abc"), path); err != nil {
		t.Fatal(err)
	}
	p.ID = static.PageID(t, path)
	if _, _, err := other.Find(p.ID, "xyz"); err == nil {
		t.Error("with another nonce")
	}
	if err := os.Rename(path, filepath.Join(elsewhere, "katsubushi-abc")); err != nil {
		t.Fatal(err)
	}
	p.ID = static.PageID(t, filepath.Join(elsewhere, "katsubushi-abc"))
	if _, _, err := other.Find(p.ID, "abc"); err != nil {
		t.Errorf("the right one: %v", err)
	}
}

func TestNoSharedMemory(t *testing.T) {
	if m, err := static.SharedMemory("/proc"); err == nil {
		t.Errorf("%v on a file system that is no memory", m)
	}
	if m, err := static.SharedMemory("/nowhere"); err == nil {
		t.Errorf("%v where there is no directory", m)
	}
	dir := mount.Small(t, "32k")
	m, err := static.SharedMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	if p, err := m.Make("abc", 41); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a page on a full file system: %+v, %v", p, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "katsubushi-abc")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what there was no room for is still there: %v", err)
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
