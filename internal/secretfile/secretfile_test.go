package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyItsOwnerMayUseASecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o400, 0o700} {
		os.Chmod(path, mode)
		if b, err := Read(path, 4); err != nil || string(b) != "hush" {
			t.Errorf("mode %#o: %q %v", mode, b, err)
		}
	}
	// the owner runs this test
	for _, mode := range []fs.FileMode{0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o440} {
		os.Chmod(path, mode)
		if b, err := Read(path, 4); err == nil || b != nil || !strings.Contains(err.Error(), path+": mode 0") ||
			!strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %#o: %q %v", mode, b, err)
		}
	}
}

// A process that is not root can read a file owned by root only through its group.
func TestAFileOfRootMayBeReadByItsGroup(t *testing.T) {
	for mode, want := range map[fs.FileMode]bool{
		0o600: true, 0o640: true, 0o440: true, 0o040: true, 0o660: false, 0o650: false, 0o644: false, 0o641: false,
		0o604: false,
	} {
		if permitted(mode, true) != want {
			t.Errorf("mode %#o: %v", mode, !want)
		}
	}
}

func TestLimitAndMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(path, 4); err == nil || b != nil || err.Error() != path+": larger than 4 bytes" {
		t.Errorf("%q %v", b, err)
	}
	dir := t.TempDir() // its mode is 0755, and chmod would not help
	if _, err := Read(dir, 4); err == nil || err.Error() != dir+": a directory, not a file" {
		t.Error(err)
	}
	if _, err := Read(path+"-", 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
