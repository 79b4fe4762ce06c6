//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// An installer provides what set-ups need:
//
//	apt NAME ...   Debian packages
//	npm NAME       one of the packages that node/package.json pins
//	go MODULE      one of the modules that go/go.mod pins
//	tool PACKAGE@VERSION   a Go program, unless PATH has it already
//	here           nothing: the set-up is part of this tree
//
// Debian packages stay installed; everything else goes into the work directory.
type installer struct {
	source string // test/clients
	work   string
	npmErr error
	npmRan bool
}

// debian installs all Debian packages of the set-ups in one go, which is much faster than one by
// one. It reports nothing: a package that is still missing afterwards is tried again, and reported,
// by version.
func (in *installer) debian(chosen []*setup) {
	var missing []string
	for _, s := range chosen {
		for _, name := range aptNames(s) {
			if debianVersion(name) == "" && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
	}
	if len(missing) == 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "installing", strings.Join(missing, " "))
	aptGet("update")
	aptGet(append([]string{"install", "-y", "--no-install-recommends"}, missing...)...)
}

// version installs what is still missing for a set-up and returns the version of the client itself.
// An error means that a package cannot be had here.
func (in *installer) version(s *setup) (string, error) {
	kind, name, _ := strings.Cut(s.needs, " ")
	switch kind {
	case "apt":
		names := aptNames(s)
		for _, n := range names {
			if debianVersion(n) != "" {
				continue
			}
			if out, err := aptGet("install", "-y", "--no-install-recommends", n); err != nil {
				return "", fmt.Errorf("package %s: %s", n, lastLine(out, err))
			}
		}
		return debianVersion(names[0]), nil
	case "npm":
		return in.npm(name)
	case "go":
		return in.module(name)
	case "tool":
		return in.tool(name)
	case "here":
		return "this tree", nil
	}
	return "", fmt.Errorf("unknown kind of package %q", kind)
}

func aptNames(s *setup) []string {
	if kind, names, _ := strings.Cut(s.needs, " "); kind == "apt" {
		return strings.Fields(names)
	}
	return nil
}

// debianVersion returns the version of an installed package without Debian's revision, or "".
func debianVersion(name string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", name).Output()
	status, version, _ := strings.Cut(string(out), " ")
	if err != nil || status != "installed" {
		return ""
	}
	if _, upstream, ok := strings.Cut(version, ":"); ok { // epoch
		version = upstream
	}
	if i := strings.LastIndexByte(version, '-'); i > 0 {
		version = version[:i]
	}
	if i := strings.IndexAny(version, "+~"); i > 0 { // repacked, pre-release
		version = version[:i]
	}
	return version
}

func aptGet(args ...string) ([]byte, error) {
	cmd := exec.Command("apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	if os.Geteuid() != 0 {
		cmd = exec.Command("sudo", append([]string{"-n", "DEBIAN_FRONTEND=noninteractive"}, cmd.Args...)...)
	}
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return cmd.CombinedOutput()
}

// npm installs all npm packages at once, in the versions of the lock file.
func (in *installer) npm(name string) (string, error) {
	dir := filepath.Join(in.work, "node")
	if !in.npmRan {
		in.npmRan = true
		in.npmErr = in.npmInstall(dir)
	}
	if in.npmErr != nil {
		return "", in.npmErr
	}
	out, err := exec.Command("node", "-p", "require(process.argv[1]).version",
		filepath.Join(dir, "node_modules", name, "package.json")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm package %s: %s", name, lastLine(out, err))
	}
	return strings.TrimSpace(string(out)), nil
}

func (in *installer) npmInstall(dir string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		if out, err := aptGet("install", "-y", "--no-install-recommends", "nodejs", "npm"); err != nil {
			return fmt.Errorf("package nodejs: %s", lastLine(out, err))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.ReadFile(filepath.Join(in.source, "node", "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(dir, "installed.json") // the lock file that node_modules was last filled from
	if done, err := os.ReadFile(stamp); err == nil && bytes.Equal(done, lock) {
		return nil
	}
	for _, file := range []string{"package.json", "package-lock.json", ".npmrc"} {
		content, err := os.ReadFile(filepath.Join(in.source, "node", file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command("npm", "ci")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %s", lastLine(out, err))
	}
	return os.WriteFile(stamp, lock, 0o644)
}

func (in *installer) module(name string) (string, error) {
	dir := filepath.Join(in.source, "go")
	download := exec.Command("go", "mod", "download", name)
	download.Dir = dir
	if out, err := download.CombinedOutput(); err != nil {
		return "", fmt.Errorf("module %s: %s", name, lastLine(out, err))
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Version}}", name)
	list.Dir = dir
	out, err := list.Output()
	return shortVersion(strings.TrimSpace(string(out))), err
}

// shortVersion keeps the date of a Go pseudo-version: v0.0.0-20260422231931-4d751bb6e37c -> 20260422.
func shortVersion(version string) string {
	if parts := strings.Split(version, "-"); len(parts) == 3 && len(parts[1]) == 14 {
		return parts[1][:8]
	}
	return strings.TrimPrefix(version, "v")
}

func (in *installer) tool(pkg string) (string, error) {
	dir, version, _ := strings.Cut(pkg, "@")
	if _, err := exec.LookPath(path.Base(dir)); err == nil {
		return "in PATH", nil
	}
	cmd := exec.Command("go", "install", pkg)
	cmd.Dir = in.work
	cmd.Env = append(os.Environ(), "GOBIN="+in.bin())
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s: %s", pkg, lastLine(out, err))
	}
	return shortVersion(version), nil
}

func (in *installer) bin() string { return filepath.Join(in.work, "bin") }

// lastLine is what a failed command said last.
func lastLine(out []byte, err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return err.Error()
}
