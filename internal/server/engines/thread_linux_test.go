package engines

import "golang.org/x/sys/unix"

// thread returns the number of the calling goroutine's thread, or 0 where it is not known.
func thread() int { return unix.Gettid() }
