package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesOfSettingsThatAreNone are refused, and not waited for.
func TestFilesOfSettingsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("#\n"), maxConfigFile/2+1), 0o644); err != nil {
		t.Fatal(err)
	}
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
