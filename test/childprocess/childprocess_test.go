//go:build unix

package childprocess

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A child is ended in good order, has to be killed, or has ended before; its log is whole in each case.
func TestEnd(t *testing.T) {
	for _, c := range []struct {
		name, script string
		limit        time.Duration
		code         int
		wrong        bool
	}{
		{"it ends as it is told", `trap 'echo bye; exit 3' TERM`, time.Hour, 3, false},
		{"it does not listen", `trap '' TERM`, time.Millisecond, -1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			child, err := Start(exec.Command("sh", "-c", c.script+"; echo ready; while :; do sleep 0.01; done"))
			if err != nil {
				t.Fatal(err)
			}
			defer child.Kill()
			Until(t, "it is ready", func() bool { return child.Log.Tail(1) == "ready" })
			if child.HasEnded() {
				t.Error("it has ended")
			}
			if code, err := child.End(syscall.SIGTERM, c.limit); code != c.code || (err != nil) != c.wrong {
				t.Errorf("exit code %d, %v", code, err)
			}
			if _, err := child.End(syscall.SIGTERM, c.limit); !errors.Is(err, ErrEnded) || !child.HasEnded() {
				t.Errorf("once more: %v", err)
			}
			if last := child.Log.Tail(1); (last == "bye") == c.wrong {
				t.Errorf("logged %q", child.Log)
			}
		})
	}
}

// A child is stopped, twice, and ends only when it goes on.
func TestPause(t *testing.T) {
	child, err := Start(exec.Command("sleep", "3600"))
	if err != nil {
		t.Fatal(err)
	}
	defer child.Kill()
	child.Pause(t)
	child.Pause(t) // stopped already
	child.Signal(t, syscall.SIGTERM)
	if child.HasEnded() {
		t.Error("it ended while it was stopped")
	}
	child.Resume(t)
	<-child.Ended()
}
