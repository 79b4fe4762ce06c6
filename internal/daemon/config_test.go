package daemon

import (
	"fmt"
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
	for _, w := range []struct {
		dir, counters string
		any, leased   bool
		want          int // directories that are refused
	}{
		{dir: dir, counters: dir, want: 2},
		{dir: dir, counters: dir, any: true},
		{dir: dir, leased: true},
		{dir: dir, counters: dir, leased: true, want: 1},
		{dir: filepath.Join(dir, "later")},
	} {
		c := testConfig()
		c.StateDir, c.AnyDisk = w.dir, w.any
		if w.leased {
			c.WorkerIDs = nil
		}
		err := c.CheckRecord(w.counters)
		if n := strings.Count(fmt.Sprint(err), dir+" is on tmpfs: not a local disk"); n != w.want || (err != nil) != (n > 0) {
			t.Errorf("%+v: %v", w, err)
		}
	}
}
