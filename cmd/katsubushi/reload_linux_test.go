package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestProcessAReloadThatHangsDoesNotKeepItFromStopping: files of secrets may be pipes, or on a
// server that is down.
func TestProcessAReloadThatHangsDoesNotKeepItFromStopping(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, "-worker-id", "1", "-auth-file", file)
	if err := os.WriteFile(file, []byte("ann:secret\n"), 0o600); err != nil { // when it is opened to be read
		t.Fatal(err)
	}
	p.waitListening(t)
	p.Process.Signal(syscall.SIGHUP)
	p.Process.Signal(syscall.SIGHUP)
	p.Process.Signal(syscall.SIGTERM)
	await(t, "the daemon stops", p.hasExited)
	if code := p.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
