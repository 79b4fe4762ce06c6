//go:build unix

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

func TestARecordThatMustNotBeWrittenOver(t *testing.T) {
	for what, put := range map[string]func(path string) error{
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("items.sequence", path) },
		"later version": func(path string) error {
			later := durable.Format{Kind: "sequence", Version: "2"}
			return os.WriteFile(path, later.Append(later.Append(nil, "name orders\n"), "name orders\n"), 0o600)
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			countertest.RunUnusable(t, openIn(dir), func(name string) {
				path := filepath.Join(dir, name+".sequence")
				if err := errors.Join(os.Remove(path), put(path)); err != nil {
					t.Fatal(err)
				}
			})
		})
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
