//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// All that root makes in somebody's directory belongs to them.
func TestRootMakesFilesForTheOwnerOfTheDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files for others")
	}
	const uid, gid = 65533, 65532
	dir := t.TempDir()
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(dir, "state", "sequences")
	if _, err := (OS{}).Prepare(deep); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(deep, "orders")
	f, err := OS{}.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, p := range []string{filepath.Dir(deep), deep, path} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); s.Uid != uid || s.Gid != gid {
			t.Errorf("%s belongs to %d:%d", p, s.Uid, s.Gid)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", p, info.Mode())
		}
	}
	// What is there already stays whose it is.
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	if f, err = (OS{}).Open(path, true); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, _ := os.Stat(path); info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Error("a file that was there was given away")
	}
}

// A write would replace the link, and leave the record under its other name as it was.
func TestSymbolicLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	link, other := filepath.Join(dir, "link"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(other, []byte("content"), 0o600), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		if f, err := (OS{}).Open(link, create); !errors.Is(err, ErrLink) {
			t.Errorf("create %v: %v, %v", create, f, err)
		}
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	// The directory may be reached by one.
	if err := os.Symlink(dir, filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.Open(filepath.Join(dir, "here", "other"), false)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// After a power cut a directory is lost if the name of any one above it was not synced.
func TestEveryNewDirectoryIsSynced(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	sync := func(dir string) error { synced = append(synced, dir); return nil }
	for range 2 {
		if err := makeDir(filepath.Join(dir, "a", "b", "c"), sync); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	broken := errors.New("no")
	if err := makeDir(filepath.Join(dir, "x", "y"), func(string) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (OS{}).Prepare(filepath.Join(dir, "file", "below")); err == nil {
		t.Error(fmt.Errorf("a directory below a file was made"))
	}
}
