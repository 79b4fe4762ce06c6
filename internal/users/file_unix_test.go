//go:build unix

package users

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe may be the first file, and its users stay. In place of a file it is an error: reading it would
// wait for somebody who writes.
func TestPipesAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	put := func(make func() error) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(path), make()); err != nil {
			t.Fatal(err)
		}
	}
	pipe := func() error { return unix.Mkfifo(path, 0o600) }
	file := func() error { return os.WriteFile(path, []byte("ann:one\n"), 0o600) }

	put(pipe)
	go file()
	s := NewFile(path)
	now, list, err := s.Changes(bg, "")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if again, list, err := s.Changes(bg, now); again != now || list != nil || err != nil {
		t.Errorf("the same pipe: %q %v %v", again, list, err)
	}
	put(file)
	if now, list, err = s.Changes(bg, now); err != nil || len(list) != 1 {
		t.Errorf("a file in its place: %v %v", list, err)
	}
	put(pipe)
	for _, since := range []string{now, ""} {
		if same, list, err := s.Changes(bg, since); same != since || list != nil || err == nil ||
			!strings.Contains(err.Error(), path+": not a regular file") {
			t.Errorf("a pipe in place of the file: %q %v %v", same, list, err)
		}
	}
	if err := Remove(bg, s, "ann"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("removed from a pipe: %v", err)
	}
}
