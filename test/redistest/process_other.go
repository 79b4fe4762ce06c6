//go:build !linux

package redistest

import (
	"os/exec"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/faketime"
)

type process struct {
	cmd   *exec.Cmd
	clock *faketime.Process // nil
	ended chan struct{}
}

func startProcess(cmd *exec.Cmd, _ bool) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) pause(t testing.TB)  { t.Skip("processes are paused on Linux only") }
func (p *process) resume(t testing.TB) {}
