//go:build !linux

package leaserun

import "errors"

// There are no cgroups here, and this process cannot notice that a background program wants the
// terminal.
type (
	cgroup   struct{}
	terminal struct{}
)

func newCgroup(string) (*cgroup, error) { return nil, errors.New("on Linux only") }

func (*cgroup) kill()          {}
func (*cgroup) remove()        {}
func (*cgroup) String() string { return "" }

func (*terminal) ours() bool { return false }
