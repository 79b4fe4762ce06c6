//go:build !unix

package leaserun

import (
	"errors"
	"os"
	"os/exec"
)

// Signals returns the signals that are forwarded to the program.
func Signals() []os.Signal { return []os.Signal{os.Interrupt} }

// A child is not supported here: there are no process groups.
type child struct{ gone chan struct{} }

func startChild(*exec.Cmd, *cgroup) (*child, error) {
	return nil, errors.New("programs can be run with a leased worker id on Unix systems only")
}

func (c *child) pid() int         { return 0 }
func (c *child) signal(os.Signal) {}
func (c *child) kill()            {}
func (c *child) code() int        { return 0 }
