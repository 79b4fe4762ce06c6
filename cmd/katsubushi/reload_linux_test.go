package main

import (
	"os"
	"path/filepath"
	"strings"
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

// TestProcessDefinitionsThatAreWrong: a definition that is not the recorded one ends the daemon with the exit
// code of a wrong setting, and both are printed. At SIGHUP a file that is wrong changes nothing.
func TestProcessDefinitionsThatAreWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, stderr := runName(dir, "create", "orders sequence start=5"); code != exitOK {
		t.Fatal(stderr)
	}
	args := []string{"-worker-id", "1", "-max-wait", "1m", "-state-dir", dir, "-state-any-disk"}
	p := launch(t, append(args, "-generator", "orders sequence start=6")...)
	<-p.Ended()
	says := `name orders: the definition "orders sequence start=6" is not what is recorded, "orders sequence start=5"`
	if e := p.Entry("cannot start"); p.ProcessState.ExitCode() != exitUsage || e == nil ||
		!strings.HasPrefix(e["error"].(string), says) {
		t.Fatalf("exit code %d: %v", p.ProcessState.ExitCode(), e)
	}

	file := filepath.Join(t.TempDir(), "names")
	reload := func(text, message string) map[string]any {
		t.Helper()
		tempfile.Write(t, file, text)
		if p.Addr() == "" {
			p = start(t, append(args, "-generators", file)...)
		} else {
			p.Process.Signal(syscall.SIGHUP)
		}
		await(t, message, func() bool { return p.Entry(message) != nil })
		return p.Entry(message)
	}
	reload("orders sequence start=5 # as recorded\n", "listening")
	c := countFrom(t, p)
	if v := c.must(t, "orders"); v != 5 {
		t.Errorf("the first value is %d", v)
	}
	e := reload("fresh sequence\norders sequence start=6\n", "not reloaded, the old one stays in force")
	if want := `line 2: "orders sequence start=6" is not what is served as "orders sequence start=5": to change it, ` +
		`restart the daemon`; e["error"] != want {
		t.Errorf("%v, want %s", e["error"], want)
	}
	if v := c.must(t, "fresh"); v < 1<<32 {
		t.Errorf("%d is no snowflake: a part of the file counts", v)
	}
	if v := c.must(t, "orders"); v != 6 {
		t.Errorf("%d is not the next value", v)
	}
	reload("fresh sequence\norders sequence start=5\n", "reloaded")
	if v := c.must(t, "fresh"); v != 1 {
		t.Errorf("after a file without a mistake fresh is %d", v)
	}
}
