package engines

import "golang.org/x/sys/unix"

// thread is the number of the calling goroutine's thread, 0 where it cannot be told.
func thread() int { return unix.Gettid() }
