//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A declared name whose record may not be read, as one that an operator's command left to root, is refused
// alone. It is served once the file may be read and an operator has raised it.
func TestADeclaredRecordOfAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 { // who may read everything
		asNobody(t)
		return
	}
	settings := stores.Counters{Dir: t.TempDir(), AnyDisk: true}
	admin, err := settings.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Define(t.Context(), counter.Sequence("orders")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(settings.Dir, "sequences", "orders.sequence")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	d, _ := run(t, func(c *Config) {
		c.Counters, c.AnyDisk, c.MaxWait = settings, true, 10*time.Millisecond // a refusal waits for it
		c.Definitions = "orders sequence; healthy sequence"
	})
	ask := func(name string) error {
		runs, err := d.names.Catalog.Batch(t.Context(), []byte(name), 1)
		if err == nil && len(runs) == 0 {
			return errors.New("no answer")
		}
		return err
	}
	if err := ask("orders"); !strings.Contains(fmt.Sprint(err), "permission denied") {
		t.Errorf("orders: %v", err)
	}
	served := func(name string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for err := ask(name); err != nil; err = ask(name) {
			select {
			case <-ctx.Done():
				t.Fatal(err)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	served("healthy")
	served("id")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Raise(t.Context(), "orders", 100); err != nil { // daemons learn of it at once
		t.Fatal(err)
	}
	served("orders")
}

// asNobody runs the test once more, as a user who is not root.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "katsubushi-daemon") // everybody may enter it, unlike those of the tests
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	if err := os.Link(os.Args[0], program); errors.Is(err, syscall.EXDEV) {
		t.Skip("the test's program is on another file system than temporary files: ", err)
	} else if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v: %s", err, out)
	}
}
