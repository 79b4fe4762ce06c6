package daemonrun

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Program returns the path of a test's daemon; see Build.
func Program(t testing.TB) (path string) {
	t.Helper()
	path, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Build builds the daemon of the tree that this process is in, into bin/_daemon, unless that has been done, and
// returns its path. All tests share it. Where the tree has changed since, another file is made: what runs keeps its
// own.
var Build = sync.OnceValues(func() (path string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	const source = "cmd/katsubushi"
	for {
		if _, err := os.Stat(filepath.Join(root, source)); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", errors.New("no directory above has " + source)
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, "bin", "_daemon")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	built := filepath.Join(dir, "katsubushi")
	build := exec.Command("go", "build", "-o", built, "./"+source)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	info, err := os.Stat(built)
	if err != nil {
		return "", err
	}
	links, _ := filepath.Glob(filepath.Join(dir, "*", "katsubushi"))
	for _, link := range links {
		switch other, err := os.Stat(link); {
		case err != nil:
		case os.SameFile(info, other):
			return link, nil
		case info.ModTime().Sub(other.ModTime()) > 24*time.Hour: // nobody can be running it any more
			os.RemoveAll(filepath.Dir(link))
		}
	}
	path, err = os.MkdirTemp(dir, "")
	path = filepath.Join(path, "katsubushi")
	return path, errors.Join(err, os.Chmod(filepath.Dir(path), 0o755), os.Link(built, path))
})
