package daemon

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// A directory that nobody has named must not stop a daemon that needs none. Where worker ids are recorded in it too, so
// would be sequences that other daemons create.
func TestADefaultDirectoryThatCannotBeUsed(t *testing.T) {
	c := testConfig()
	c.Counters = stores.Counters{Dir: "/proc/version", DirByDefault: true}
	d, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	d.windows.Stop(true)
	d.services.Stop()
	c.StateDir, c.StateDirByDefault, c.AnyDisk, c.RuntimeDir = t.TempDir(), true, true, t.TempDir()
	if _, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
	}
}

// A start that is told to stop does not wait until its counter store answers.
func TestAStartThatStops(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		if c, err := silent.Accept(); err == nil {
			defer c.Close()
			stop()
			<-t.Context().Done()
		}
	}()
	c := testConfig()
	c.Counters.URL = "postgres://u@" + silent.Addr().String() + "/x?sslmode=disable"
	if _, err := New(ctx, c); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := New(ctx, testConfig()); !errors.Is(err, context.Canceled) {
		t.Error("without a counter store: ", err)
	}
}
