package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deps runs make deps for a package that is missing, in a directory of programs: real ones, and scripts by their names.
func deps(t *testing.T, scripts map[string]string) (printed, bin string, err error) {
	t.Helper()
	bin = t.TempDir()
	for _, program := range []string{"make", "sh", "dpkg", "dpkg-query", "seq", "env", "rm"} {
		if _, scripted := scripts[program]; scripted {
			continue
		}
		path, err := exec.LookPath(program)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	scripts["promtool"] = "" // so that it need not be fetched
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "make"), "-C", "../..", "deps", "PACKAGES=dpkg no-package-of-this-name")
	cmd.Env = []string{"PATH=" + bin}
	out, err := cmd.CombinedOutput()
	return string(out), bin, err
}

// TestDepsWaitsForAnotherApt: as on a machine that has just booted and upgrades itself.
func TestDepsWaitsForAnotherApt(t *testing.T) {
	out, bin, err := deps(t, map[string]string{
		"id":    "echo 0\n",
		"sleep": `echo slept >>"${0%/*}/log"`,
		"apt-get": `echo "$@" >>"${0%/*}/log"
case "$*" in *update*)
	while read -r line; do n="$n$line"; done <"${0%/*}/log"
	case "$n" in *slept*slept*) ;; *)
		echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" >&2
		exit 100;;
	esac;;
esac`,
	})
	log, _ := os.ReadFile(filepath.Join(bin, "log"))
	const want = "update -qq\nslept\nupdate -qq\nslept\nupdate -qq\n" +
		"-o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends no-package-of-this-name\n"
	if err != nil || string(log) != want || strings.Count(out, "waiting until another apt ends") != 1 {
		t.Errorf("%v\n%s\n%s", err, log, out)
	}
}

// TestDepsSaysWhatToInstall: to somebody who is not root and has no sudo.
func TestDepsSaysWhatToInstall(t *testing.T) {
	out, _, err := deps(t, map[string]string{"id": "echo 1000\n"})
	const want = "\nAs root: apt-get install -y --no-install-recommends no-package-of-this-name\n"
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDepsInstallsAgain what was removed and has left its configuration.
func TestDepsInstallsAgain(t *testing.T) {
	out, _, err := deps(t, map[string]string{"id": "echo 1000\n", "dpkg-query": "echo deinstall ok config-files\n"})
	if err == nil || !strings.Contains(out, "--no-install-recommends dpkg no-package-of-this-name\n") {
		t.Errorf("%v: %s", err, out)
	}
}
