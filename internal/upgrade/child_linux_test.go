package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// part is a variable that makes this test program the new process, or one that it has started. What it
// has to tell goes into the file that told names.
const (
	part = "KATSUBUSHI_UPGRADE_TEST_PART"
	told = "KATSUBUSHI_UPGRADE_TEST_FILE"
)

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "":
		os.Exit(m.Run())
	case "greets":
		origin, err := FromEnvironment()
		if err == nil {
			err = origin.Send(Message{Kind: Hello, Version: Version})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	case "flees": // it starts a process in another session that has its end of the link
		origin, err := FromEnvironment()
		if err != nil {
			os.Exit(1)
		}
		f, _ := origin.conn.File()
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), part+"=holds")
		c.ExtraFiles = []*os.File{f}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			os.Exit(1)
		}
		f.Close()
		tell(strconv.Itoa(c.Process.Pid))
		time.Sleep(time.Hour)
	case "holds":
		link, err := newLink(os.NewFile(3, "link"))
		if err != nil {
			os.Exit(1)
		}
		m, _, err := link.Receive()
		tell(fmt.Sprintf("read %s, %v", m.Kind, err))
		if m.Kind != Refused {
			time.Sleep(time.Hour)
		}
	}
	os.Exit(0)
}

// tell puts a line into the file of the test.
func tell(line string) {
	f, _ := os.OpenFile(os.Getenv(told), os.O_WRONLY|os.O_APPEND, 0)
	io.WriteString(f, line+"\n")
	f.Close()
}

// begin starts a program as the new process. lines returns what it told, once it told n lines.
func begin(t *testing.T, as string, program string, args ...string) (c *Child, lines func(n int) []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "told")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(part, as)
	t.Setenv(told, file)
	c, err := Start(program, append([]string{program}, args...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.End(context.Background(), false) })
	return c, func(n int) []string {
		t.Helper()
		for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(file)
			if all := bytes.Count(text, []byte("\n")); err == nil && all >= n {
				return strings.Split(string(text), "\n")[:n]
			}
			if time.Now().After(until) {
				t.Fatalf("it told %q, %v", text, err)
			}
		}
	}
}

// is reports whether there is a process, or a group of some, with this number.
func is(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestWrapper: a shell that starts the program beside itself is refused, because nobody would end the program
// with it. After End neither is left.
func TestWrapper(t *testing.T) {
	c, _ := begin(t, "greets", "/bin/sh", "-c", `"$0" & wait`, os.Args[0])
	m, err := c.Await(context.Background(), Hello)
	var real, shell int
	if err == nil {
		t.Fatalf("another process than the one that was started is believed: %+v", m)
	}
	const want = "the new program is a wrapper: process %d answers, and not process %d"
	if n, _ := fmt.Sscanf(err.Error(), want, &real, &shell); n != 2 || shell != c.Pid() || real == shell {
		t.Fatal(err)
	}
	if err := c.End(context.Background(), false); err != nil || is(-shell) || is(real) {
		t.Errorf("%v; it is left: the group %v, the program %v", err, is(-shell), is(real))
	}
}

// TestExec: a shell that becomes the program is none.
func TestExec(t *testing.T) {
	c, _ := begin(t, "greets", "/bin/sh", "-c", `exec "$0"`, os.Args[0])
	if m, err := c.Await(context.Background(), Hello); err != nil || m.Version != Version {
		t.Errorf("%+v, %v", m, err)
	}
	if err := c.End(context.Background(), false); err != nil || is(-c.Pid()) {
		t.Errorf("%v; it is left: %v", err, is(-c.Pid()))
	}
}

// TestEndWithoutItsParent: the shell has ended, what it started has not, and has its stderr.
func TestEndWithoutItsParent(t *testing.T) {
	c, _ := begin(t, "greets", "/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo bye >&2; exit 3")
	<-c.reaped
	if pid, err := unix.Wait4(-c.Pid(), nil, unix.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("what the shell has left is not this process's to wait for: %d, %v", pid, err)
	}
	if err := c.End(context.Background(), false); err != nil || is(-c.Pid()) {
		t.Errorf("%v; it is left: %v", err, is(-c.Pid()))
	}
}

// TestEndOutsideTheGroup: a process that has left the group and has the connection is told that it must not go
// on before it could take this process for dead. If it may serve already, End waits for its end.
func TestEndOutsideTheGroup(t *testing.T) {
	t.Run("ready", func(t *testing.T) {
		c, lines := begin(t, "flees", os.Args[0])
		lines(1)
		if err := c.End(context.Background(), false); err != nil {
			t.Error(err)
		}
		if got := lines(2)[1]; got != "read refused, <nil>" {
			t.Errorf("it %s", got)
		}
	})
	t.Run("serving", func(t *testing.T) {
		c, lines := begin(t, "flees", os.Args[0])
		holder, err := strconv.Atoi(lines(1)[0])
		if err != nil {
			t.Fatal(err)
		}
		stopped, cancel := context.WithCancel(context.Background())
		cancel()
		childprocess.Until(t, "the new process has ended", func() bool { // which takes a busy machine more than a second
			err = c.End(stopped, true)
			return err == nil || !strings.Contains(err.Error(), "was killed and has not ended")
		})
		if err == nil || !strings.Contains(err.Error(), "has its connection and has not ended") {
			t.Errorf("End does not wait: %v", err)
		}
		syscall.Kill(holder, syscall.SIGKILL)
		if err := c.End(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
}
