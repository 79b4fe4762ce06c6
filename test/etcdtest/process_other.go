//go:build !linux

package etcdtest

import "os/exec"

func startChild(cmd *exec.Cmd) (ended chan struct{}, err error) {
	ended = make(chan struct{})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return ended, nil
}

// Pause skips the test: processes are paused on Linux only.
func (m *Member) Pause() { m.t.Skip("processes are paused on Linux only") }

// Resume is for tests that Pause does not skip.
func (m *Member) Resume() {}
