package mount

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Small is a directory with room for size, as tmpfs writes it ("32k"). It skips the test where mounting
// is not allowed.
func Small(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" && os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { Unmount(t, dir) })
	return dir
}

// Unmount takes a file system away. A child that another test is starting holds all open files of this
// process until it becomes its program, so the file system may be busy for a moment.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := unix.Unmount(dir, 0)
		if err == nil {
			return
		}
		if err != unix.EBUSY || time.Now().After(deadline) {
			t.Errorf("unmount %s: %v", dir, err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}
