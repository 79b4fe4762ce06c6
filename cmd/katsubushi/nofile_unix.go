//go:build unix

package main

import "syscall"

// openFiles is how many descriptors the process may have; the Go runtime has raised the soft limit
// to the hard one.
func openFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(min(uint64(l.Cur), 1<<20))
}
