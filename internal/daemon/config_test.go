package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordsNeedADisk: check-config says what the start would say of a directory whose files a reboot erases.
func TestRecordsNeedADisk(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "katsubushi-test")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := testConfig()
	c.StateDir, c.Counters.URL, c.AnyDisk = dir, "file://"+dir, false
	const each = " is on tmpfs: not a local disk"
	if err := c.ReadSecrets(); err == nil || strings.Count(err.Error(), dir+each) != 2 {
		t.Errorf("%v, want both directories' file system", err)
	}
	if c.AnyDisk = true; c.ReadSecrets() != nil {
		t.Error(c.ReadSecrets())
	}
	c.AnyDisk, c.StateDir, c.Counters.URL = false, filepath.Join(dir, "later"), ""
	if err := c.ReadSecrets(); err != nil {
		t.Errorf("a directory that is not there yet: %v", err)
	}
}
