package loop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls of the event loops, made without telling the Go runtime (RawSyscall): telling it costs some 50 ns a call, and a call that
// blocks gives the loop's P away, to be fought for afterwards with futexes.
//
// The price is that during the call the thread still holds its P and looks to the runtime as if it ran Go code. That is of no consequence
// for calls that cannot block, which all of these are but two: waiting for events. There
//
//   - a collection that must stop the world sends the thread a signal (SIGURG, Go's asynchronous preemption), again and again until
//     it stops; the wait ends with EINTR. So does any wait longer than 10 ms, by the same signal from the runtime's monitor;
//   - after EINTR the loop waits again by the ordinary Syscall, which gives the P away. So an idle loop holds nothing, and nobody has
//     to interrupt it; a busy one never gets there.
//
// The buffers are Go memory, which does not move, and are kept alive by the caller's slice during the call.

// RawReceive reads from a socket without the kernel's file layer between: 2 % less for a request.
func RawReceive(fd int32, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	return int(n), e
}

func RawSend(fd int32, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

func RawAccept(fd int) (int32, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int32(n), e
}

// EpollWait waits for events, for ever or (block = false) not at all.
func (l *Loop) EpollWait(epoll int, events []unix.EpollEvent, block bool) (int, unix.Errno) {
	to := uintptr(unsafe.Pointer(unsafe.SliceData(events)))
	if !block || l.Raw {
		timeout := uintptr(0)
		if block {
			timeout = ^uintptr(0)
		}
		n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), to, uintptr(len(events)), timeout, 0, 0)
		if e != unix.EINTR || !block {
			return int(n), e
		}
		l.Raw = MayBlockRaw(l.Loops)
	}
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), ^uintptr(0), 0, 0)
	return int(n), e
}
