//go:build !(linux && amd64)

package faketime

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// A Process is a running command with a wall clock of its own. There is none on this system.
type Process struct{}

// Start returns an error that is errors.ErrUnsupported, and does not start cmd.
func Start(*exec.Cmd, time.Duration) (*Process, error) {
	return nil, fmt.Errorf("faketime on %s/%s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}

// Step is never called, for lack of a Process.
func (*Process) Step(time.Duration) error { return errors.ErrUnsupported }

// Pause is never called, for lack of a Process.
func (*Process) Pause() error { return errors.ErrUnsupported }

// Resume is never called, for lack of a Process.
func (*Process) Resume() error { return errors.ErrUnsupported }
