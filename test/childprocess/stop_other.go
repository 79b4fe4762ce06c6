//go:build !linux

package childprocess

import (
	"os/exec"
	"testing"
)

func dieWithThread(*exec.Cmd) {}

// Pause skips the test: processes are paused on Linux only.
func (c *Child) Pause(t testing.TB) { t.Skip("processes are paused on Linux only") }

// Resume is for tests that Pause does not skip.
func (c *Child) Resume(testing.TB) {}
