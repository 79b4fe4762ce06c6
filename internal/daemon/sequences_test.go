package daemon

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A directory that nobody has named must not stop a daemon that needs none. Where worker ids are recorded in it too, so
// would be sequences that other daemons create.
func TestADefaultDirectoryThatCannotBeUsed(t *testing.T) {
	c := testConfig()
	c.Counters = stores.Counters{Dir: "/proc/version", DirByDefault: true}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.windows.Stop(true)
	d.services.Stop()
	c.StateDir, c.StateDirByDefault, c.AnyDisk, c.RuntimeDir = t.TempDir(), true, true, t.TempDir()
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
	}
}
