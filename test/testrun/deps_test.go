package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDepsSaysWhatToInstall: to somebody who is not root and has no sudo.
func TestDepsSaysWhatToInstall(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"make", "sh", "dpkg", "dpkg-query"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(bin, "id"), []byte("#!/bin/sh\necho 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "make"), "-C", "../..", "deps", "PACKAGES=dpkg no-package-of-this-name")
	cmd.Env = []string{"PATH=" + bin}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "\nAs root: apt-get install -y --no-install-recommends no-package-of-this-name\n") {
		t.Errorf("%v: %s", err, out)
	}
}
