package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestProcessUpgradeByOthers: a user who is not the daemon's, nor root, is refused.
func TestProcessUpgradeByOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	u := startUpgradable(t, append(inMemory(t), "-worker-id", "41")...)
	ids := newAsker(t, "tcp", u.Addr())
	ids.id(t)
	dir, err := os.MkdirTemp("", "katsubushi-test") // everybody may enter it, unlike those of the tests
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "katsubushi")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Link(binary, program)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "upgrade", "-pid", strconv.Itoa(u.now))
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Skipf("this system lets root be nobody else: %v", err)
	}
	const want = "only root and the user of the daemon may ask for this: its user id is 0, yours 65534"
	if c.ProcessState.ExitCode() != exitFailure || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
	if strings.Contains(u.Logged(), `"upgrading"`) {
		t.Errorf("an upgrade began")
	}
	ids.id(t)
	u.succeed(t) // the daemon's own user may
}

// TestProcessUpgradeOfProcess1: with process 1 its container ends, so it is not replaced.
func TestProcessUpgradeOfProcess1(t *testing.T) {
	t.Parallel()
	sock := filepath.Join(t.TempDir(), "s")
	alone := func(program string) *exec.Cmd {
		c := exec.Command(program)
		// The network keeps its control socket, whose name is 1, from that of another process 1.
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET}
		return c
	}
	err := alone("true").Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("no process namespace can be made here: %v", err)
	}
	u := startUpgradableBy(t, alone, "-state-dir", "none", "-worker-id", "42", "-sock", sock)
	ids := newAsker(t, "unix", sock)
	ids.id(t)
	const want = "this process is number 1 of a container, which ends with it: start a container with the new image"
	await(t, "it says why not", func() bool {
		u.Process.Signal(syscall.SIGUSR2) // again, if it came before the daemon listens to signals
		return strings.Contains(u.Logged(), want)
	})
	ids.id(t)
}
