package std

import "golang.org/x/sys/unix"

// hungUp reports whether nothing can be sent on a socket any more.
func hungUp(socket uintptr) bool {
	p := []unix.PollFd{{Fd: int32(socket)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
