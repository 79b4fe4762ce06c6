package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestProcessAReloadThatHangsDoesNotKeepItFromStopping: nor does a start. Files of secrets may be pipes, or on a
// server that is down.
func TestProcessAReloadThatHangsDoesNotKeepItFromStopping(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	starting := launch(t, "-worker-id", "1", "-auth-file", file)
	writer, err := os.OpenFile(file, os.O_WRONLY, 0) // when it is opened to be read
	if err != nil {
		t.Fatal(err)
	}
	if code := starting.end(t, syscall.SIGTERM); code != exitOK {
		t.Errorf("a start: exit code %d", code)
	}
	writer.Close()
	p := launch(t, "-worker-id", "1", "-auth-file", file)
	tempfile.Write(t, file, "ann:secret\n")
	p.WaitListening(t)
	p.Process.Signal(syscall.SIGHUP)
	p.Process.Signal(syscall.SIGHUP)
	p.Process.Signal(syscall.SIGTERM)
	await(t, "the daemon stops", p.HasEnded)
	if code := p.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
