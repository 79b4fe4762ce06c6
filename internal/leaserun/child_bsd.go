//go:build unix && !linux

package leaserun

import "syscall"

// prepare gives the program a process group. On these systems it does not die with this process.
func (c *child) prepare() error {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// wait returns when the program is dead and its group is killed.
func (c *child) wait() {
	c.cmd.Wait()
	c.bury()
}
