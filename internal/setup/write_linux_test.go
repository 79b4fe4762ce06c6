package setup

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestAllMayReadTheFiles, whatever the umask: a container's user must.
func TestAllMayReadTheFiles(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "new")
	if err := Write(dir, []File{{"h1/x.conf", "a"}}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{"": 0o755, "h1": 0o755, "h1/x.conf": 0o644} {
		if s, err := os.Stat(filepath.Join(dir, path)); err != nil || s.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, s.Mode(), err)
		}
	}
}
