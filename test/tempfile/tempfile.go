// Package tempfile writes files of settings and secrets for tests.
package tempfile

import (
	"os"
	"path/filepath"
	"testing"
)

// Write writes a text to a file that is its owner's alone, and returns the path. One that does not begin with / is in
// a directory of the test's own.
func Write(t testing.TB, path, text string) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.TempDir(), path)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
