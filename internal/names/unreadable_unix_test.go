//go:build unix

package names

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// A declared name whose record may not be read, as one that an operator's command left to root, is refused
// alone. It is served once the file may be read and an operator has raised it.
func TestADeclaredRecordOfAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 { // who may read everything
		asNobody(t)
		return
	}
	settings, admin := files(t)
	record(t, admin, counter.Sequence("orders"))
	path := filepath.Join(settings.Dir, "sequences", "orders.sequence")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	n := room(t, Config{
		Counters: settings, MaxWait: 10 * time.Millisecond, // a refusal waits for it
		Definitions: "orders sequence; healthy sequence",
	})
	if got := n.next(t, "orders"); !strings.Contains(got, "permission denied") {
		t.Errorf("orders: %s", got)
	}
	childprocess.Until(t, "the other one is served", func() bool { return n.next(t, "healthy") == "1" })
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Raise(t.Context(), "orders", 100); err != nil { // daemons learn of it at once
		t.Fatal(err)
	}
	childprocess.Until(t, "it is served", func() bool { return n.next(t, "orders") == "100" })
}

// asNobody runs the test once more, as a user who is not root.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "katsubushi-names") // everybody may enter it, unlike those of the tests
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
