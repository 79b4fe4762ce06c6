package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestFilesOfSettingsThatAreNone are refused, and not waited for.
func TestFilesOfSettingsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), tempfile.Write(t, "large", strings.Repeat("#\n", maxConfigFile/2+1))
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: dir + " is not a file", pipe: pipe + " is not a file", large: large + " has more than 1048576 bytes",
	} {
		if _, problems := readConfig(path); len(problems) != 1 || problems[0].Error() != "-config: "+want {
			t.Errorf("%v, want %s", problems, want)
		}
	}
}
