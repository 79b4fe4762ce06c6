package daemon

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A ring is an engine that would have to wait for connections anew.
type ring struct{ server.Engine }

func (ring) Name() string { return "uring" }

// When Run ends it holds freezing for ever and waits for rearm, which must not wait for freezing.
func TestRearmingDoesNotOutliveRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{engine: ring{}, running: running{ctx: context.Background()}}
		d.freezing.Lock()
		d.rearm()
	})
}
