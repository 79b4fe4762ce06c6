//go:build unix

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestARecordThatMustNotBeWrittenOver(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("items.sequence", path) },
	} {
		dir := t.TempDir()
		s, admin := openIn(dir)(t)
		countertest.Define(t, s, "orders", "items")
		path := filepath.Join(dir, "orders.sequence")
		if err := errors.Join(os.Remove(path), put(path)); err != nil {
			t.Fatal(err)
		}
		newcomer, _ := openIn(dir)(t)
		for _, s := range []counter.Store{s, newcomer} {
			_, err1 := s.Define(ctx, counter.Sequence("orders"))
			_, err2 := s.Reserve(ctx, "orders", 1)
			_, err3 := admin.Revive(ctx, counter.Sequence("orders"), 1001)
			for _, err := range []error{err1, err2, err3} {
				countertest.Refused(t, err, counter.ErrUnusable)
			}
			if list, err := admin.List(ctx); err != nil || len(list) != 2 {
				t.Errorf("%s: %+v, %v", what, list, err)
			}
		}
	}
}

func TestALockThatIsALink(t *testing.T) {
	dir := t.TempDir()
	s, _ := openIn(dir)(t)
	if err := os.Symlink("elsewhere", filepath.Join(dir, "orders.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Define(ctx, counter.Sequence("orders")); !errors.Is(err, counter.ErrUnusable) {
		t.Error(err)
	}
}
