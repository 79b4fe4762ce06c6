package main

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/mount"
)

// frozenDisk is a file system of its own, on a file, that can be frozen: whoever writes to it then
// waits. It skips the test where that is not allowed.
func frozenDisk(t *testing.T) (dir string, freeze, thaw func()) {
	t.Helper()
	d, err := mount.NewDisk(t)
	if err != nil {
		t.Skip(err)
	}
	freeze = func() {
		t.Helper()
		if err := d.Freeze(); err != nil {
			t.Skipf("the disk cannot be frozen: %v", err)
		}
	}
	thaw = func() {
		if err := d.Thaw(); err != nil {
			t.Error(err)
		}
	}
	return d.Dir, freeze, thaw
}
