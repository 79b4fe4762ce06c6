package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemoryIsNoStateDirectoryByDefault: the default directory is not used if a reboot would erase
// it, whether or not somebody put a record there.
func TestMemoryIsNoStateDirectoryByDefault(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	inMemory := func(c *Config) { c.StateDir, c.StateDirByDefault, c.AnyDisk = dir, true, false }
	if _, log, err := opened(t, inMemory); err == nil || !strings.Contains(err.Error(), "it is on tmpfs") ||
		!strings.Contains(err.Error(), "; with -state-dir none ") {
		t.Errorf("%v: %s", err, log)
	}
	if err := os.WriteFile(filepath.Join(dir, "worker-1.state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := opened(t, inMemory); err == nil || !strings.Contains(err.Error(), "is on tmpfs") ||
		!strings.Contains(err.Error(), "or none)") {
		t.Errorf("with a record: %v", err)
	}
}
