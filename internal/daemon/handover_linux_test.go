package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// successor is a variable that makes this test program the new process of an upgrade: it says how it
// behaves, and which file it writes to.
const successor = "KATSUBUSHI_DAEMON_TEST_SUCCESSOR"

func TestMain(m *testing.M) {
	how, file, _ := strings.Cut(os.Getenv(successor), " ")
	if how == "" {
		os.Exit(m.Run())
	}
	if err := succeed(how, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// succeed is the new process.
func succeed(how, file string) error {
	link, err := unix.Dup(3) // before it becomes the Origin's
	if err != nil {
		return err
	}
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		return err
	}
	switch how {
	case "flees":
		return flee(origin, link, file)
	case "turns":
		return turn(origin)
	case "serves":
		c := layouts(file)
		if c.Inherited, err = handover.Introduce(origin); err != nil {
			return err
		}
		d, err := New(context.Background(), c)
		if err != nil {
			return err
		}
		return d.Run(context.Background())
	}
	return fmt.Errorf("there is no %s", how)
}

// flee says whatever is due until it is to serve, and then something else. Before that it has started a process
// in another session that has its connection to the old process, and has written its number into the file.
func flee(origin *upgrade.Origin, link int, file string) error {
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

// turn says something else when it is to be ready.
func turn(origin *upgrade.Origin) error {
	for {
		m, fds, err := origin.Receive()
		upgrade.CloseAll(fds)
		switch {
		case err != nil:
			return err
		case m.Kind == upgrade.Begin:
			err = origin.Send(upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Fingerprint: m.Fingerprint})
		case m.Kind == upgrade.Take:
			err = origin.Send(upgrade.Message{Kind: upgrade.Serving})
		}
		if err != nil {
			return err
		}
	}
}

// layouts configures a daemon with ids of two layouts; those of the second may run a second ahead of the clock.
func layouts(dir string) Config {
	c := testConfig()
	c.Definitions, c.MaxRunAhead, c.StateDir, c.AnyDisk = "other snowflake layout=instagram", 2*time.Second, dir, true
	return c
}

// upgradeTo upgrades a daemon, once it says that it serves, to this test program. What serves then ends with the test.
func upgradeTo(t *testing.T, d *Daemon) error {
	<-d.Serving() // it answers clients a moment before
	return d.Upgrade(handover.Upgrade{
		Start:   func() (handover.Child, error) { return upgrade.Start(os.Args[0], os.Args, os.Stderr) },
		Timeout: patience,
		Succeeded: func(s handover.Succession) {
			t.Cleanup(func() { syscall.Kill(s.PID, syscall.SIGKILL) })
		},
	})
}

// ask1 asks for an id under a key.
func ask1(t *testing.T, c net.Conn, key string) uint64 {
	t.Helper()
	io.WriteString(c, "get "+key+"\r\n")
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err == nil && strings.HasPrefix(line, "VALUE ") {
		line, err = r.ReadString('\n')
	}
	id, e := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
	if err != nil || e != nil {
		t.Fatalf("get %s: %q, %v", key, line, err)
	}
	r.ReadString('\n')
	return id
}

// TestOtherLayoutsAfterAnUpgrade: under load the lanes are further ahead of the clock than ids of another layout
// may be. They are issued on, after an upgrade and after one that failed, above those before.
func TestOtherLayoutsAfterAnUpgrade(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		d, address := run(t, func(c *Config) {
			log := c.Log
			*c = layouts(dir)
			c.Log = log
		})
		await(t, "the first window has begun", func() bool {
			return d.windows.Clock.Now()+900 > d.windows.Issuer.Generator(0).Next()
		})
		conn := dial(t, address)
		last := ask1(t, conn, "other")
		rises := func(when string) {
			t.Helper()
			id := ask1(t, conn, "other")
			if id <= last {
				t.Errorf("%s, state directory %q: id %d after %d", when, dir, id, last)
			}
			last = id
		}
		if err := d.windows.Issuer.Generator(0).Skip(d.windows.Clock.Now() + 1990); err != nil {
			t.Fatal(err)
		}
		rises("before")
		t.Setenv(successor, "turns "+dir)
		if err := upgradeTo(t, d); err == nil || !strings.Contains(err.Error(), `said "serving" where "ready" was due`) {
			t.Fatal(err)
		}
		rises("after an upgrade that failed")
		t.Setenv(successor, "serves "+dir)
		if err := upgradeTo(t, d); err != nil {
			t.Fatal(err)
		}
		rises("after an upgrade")
	}
}

// TestNoThawBesideAnother: after Serve, a process that the new one has started may be serving. Until it has
// ended, the old process serves nobody; a stop ends that.
func TestNoThawBesideAnother(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		t.Run(fmt.Sprintf("stopped=%v", stopped), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			t.Setenv(successor, "flees "+file)
			d, address := run(t, func(*Config) {})
			conn := dial(t, address)
			last := get(t, conn)
			ended := make(chan error, 1)
			go func() { ended <- upgradeTo(t, d) }()
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
