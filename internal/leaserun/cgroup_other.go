//go:build !linux

package leaserun

import "errors"

// There are no cgroups here, and a program in the background cannot be seen to ask for the terminal.
type (
	cgroup   struct{}
	terminal struct{}
)

func newCgroup(string) (*cgroup, error) { return nil, errors.New("on Linux only") }

func (*cgroup) kill()          {}
func (*cgroup) remove()        {}
func (*cgroup) String() string { return "" }

func (*terminal) ours() bool { return false }
