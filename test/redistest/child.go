package redistest

import (
	"os/exec"
	"testing"
)

// A Child is a process that dies with this one, even when that is killed.
type Child struct{ p *process }

// StartChild starts a command. Nobody else may wait for it.
func StartChild(cmd *exec.Cmd) (*Child, error) {
	p, err := startProcess(cmd, false)
	if err != nil {
		return nil, err
	}
	return &Child{p}, nil
}

// Kill ends the process at once, as a crash does, and waits for that.
func (c *Child) Kill() { c.p.kill() }

// Ended is closed when the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.p.ended }

// Pause stops the process, as an overloaded host does. The test is skipped where there is no way.
func (c *Child) Pause(t testing.TB) { c.p.pause(t) }

// Resume ends a Pause.
func (c *Child) Resume(t testing.TB) { c.p.resume(t) }
