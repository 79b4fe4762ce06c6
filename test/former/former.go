// Package former builds the daemon of an earlier revision, for tests of two versions together.
package former

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ErrNoHistory means that the repository does not have the revision: a shallow clone, or an archive.
var ErrNoHistory = errors.New("the history of this repository is not here")

// Build builds the daemon of a revision of the repository that root is the top folder of, from a copy
// in a temporary directory. It returns the program's path. The error may be ErrNoHistory.
func Build(t testing.TB, root, revision string) (program string, err error) {
	t.Helper()
	dir := t.TempDir()
	do := func(in, name string, args ...string) error {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w\n%s", name, args[0], err, out)
		}
		return nil
	}
	if err := do(root, "git", "cat-file", "-e", revision+"^{commit}"); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoHistory, err)
	}
	tree, program := filepath.Join(dir, "tree"), filepath.Join(dir, "katsubushi")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return "", err
	}
	for _, c := range [][]string{
		{root, "git", "archive", "-o", dir + "/tar", revision},
		{tree, "tar", "-xf", dir + "/tar"},
		// -trimpath: else go build would not find in its cache what it built elsewhere.
		{tree, "go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/katsubushi"},
	} {
		if err := do(c[0], c[1], c[2:]...); err != nil {
			return "", err
		}
	}
	return program, nil
}
