package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// successor is a variable that makes this test program the new process of an upgrade: it names the file that flee
// writes to.
const successor = "KATSUBUSHI_DAEMON_TEST_SUCCESSOR"

func TestMain(m *testing.M) {
	file := os.Getenv(successor)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := flee(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// flee is the new process. It says whatever is due until it is to serve, and then something else. Before that it has
// started a process in another session that has its connection to the old process, and has written its number into the
// file.
func flee(file string) error {
	link, err := unix.Dup(3) // before it becomes the Origin's
	if err != nil {
		return err
	}
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		return err
	}
	c := exec.Command("sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.ExtraFiles = []*os.File{os.NewFile(uintptr(link), "link")}
	if err := c.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
		return err
	}
	missing := 1
	for {
		m, fds, err := origin.Receive()
		if err != nil {
			return err
		}
		upgrade.CloseAll(fds)
		switch m.Kind {
		case upgrade.Begin:
			m = upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Fingerprint: m.Fingerprint}
			err = origin.Send(m)
		case upgrade.Take:
			missing = m.Connections
		case upgrade.Moved:
			missing -= len(m.Moved)
		case upgrade.Serve:
			err = origin.Send(upgrade.Message{Kind: upgrade.Hello})
		}
		if err == nil && missing == 0 {
			missing--
			err = origin.Send(upgrade.Message{Kind: upgrade.Ready})
		}
		if err != nil {
			return err
		}
	}
}

// upgradeToThis upgrades a daemon to this test program.
func upgradeToThis(d *Daemon) error {
	return d.Upgrade(handover.Upgrade{
		Start:   func() (handover.Child, error) { return upgrade.Start(os.Args[0], os.Args, os.Stderr) },
		Timeout: patience,
	})
}

// TestNoThawBesideAnother: after Serve, a process that the new one has started may be serving. Until it has
// ended, the old process serves nobody; a stop ends that.
func TestNoThawBesideAnother(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		t.Run(fmt.Sprintf("stopped=%v", stopped), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			t.Setenv(successor, file)
			d, address := run(t, func(*Config) {})
			conn := dial(t, address)
			last := get(t, conn)
			ended := make(chan error, 1)
			go func() { ended <- upgradeToThis(d) }()
			var holder int
			await(t, "the engine is frozen, and the new process has died", func() bool {
				select {
				case err := <-ended:
					t.Fatal("the upgrade has ended: ", err)
				default:
				}
				text, _ := os.ReadFile(file)
				holder, _ = strconv.Atoi(string(text))
				at := at(reflect.ValueOf(d.giver).Elem(), "child").Addr().UnsafePointer()
				child := (*atomic.Pointer[handover.Child])(at).Load()
				return holder != 0 && child != nil && syscall.Kill(-(*child).Pid(), 0) != nil
			})
			waiting := dial(t, address)
			io.WriteString(waiting, "get id\r\n")
			if stopped {
				d.fail(context.Canceled)
				err := <-ended
				if err == nil || !strings.Contains(err.Error(), "has its connection and has not ended") {
					t.Errorf("it does not wait for a process that may serve: %v", err)
				}
				if text, _ := io.ReadAll(waiting); len(text) > 0 {
					t.Errorf("it answers beside a process that may serve: %q", text)
				}
				syscall.Kill(holder, syscall.SIGKILL)
				return
			}
			syscall.Kill(holder, syscall.SIGKILL)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "1 connections are lost") ||
				strings.Contains(err.Error(), "has not ended") {
				t.Error(err)
			}
			if id := get(t, dial(t, address)); id <= last {
				t.Errorf("id %d after %d", id, last)
			}
		})
	}
}
