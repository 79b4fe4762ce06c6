package file_test

import (
	"os"
	"syscall"
	"testing"
)

// mountSmall is a directory with room for little more than one file.
func mountSmall(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
