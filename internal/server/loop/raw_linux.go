package loop

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The event loops make these system calls without telling the Go runtime (RawSyscall). Telling it
// costs some 50 ns a call, and a call that blocks gives the loop's P away, which the loop must then
// win back with futexes.
//
// The price: during the call the thread keeps its P, and to the runtime it seems to run Go code.
// That does not matter for calls that cannot block. Only the two calls that wait for events can
// block. For those:
//
//   - A garbage collection that must stop the world sends the thread a signal (SIGURG, Go's
//     asynchronous preemption) again and again until it stops; the wait ends with EINTR. Any wait
//     longer than 10 ms ends the same way, by a signal from the runtime's monitor.
//   - After EINTR the loop waits again with the ordinary Syscall, which gives the P away. So an
//     idle loop holds no P and nobody has to interrupt it; a busy loop never gets that far.
//   - There is one more P than loops, so an idle loop's P is one more than there are CPUs. If the rest
//     of the process is busy, its goroutines run on that P, too, and wake each other's threads for
//     nothing: on one CPU a call of gRPC cost 40 % more. So while there is much to do elsewhere, the
//     first loop keeps its P: after EINTR it goes round a turn, in which the runtime can stop it, and
//     waits raw again. That costs 0.3 % of a CPU. See Engine.Hold.
//
// The buffers are Go memory, which does not move. The caller's slice keeps them alive during the
// call.

// RawReceive reads from a socket and bypasses the kernel's file layer, which makes a request 2 %
// cheaper.
func RawReceive(fd int32, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), 0, 0, 0)
	return int(n), e
}

// RawSend is RawReceive for writing. It may send less than all of b, and raises no SIGPIPE.
func RawSend(fd int32, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

// RawAccept is RawReceive for accepting: the descriptor does not block and is closed by exec.
func RawAccept(fd int) (int32, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int32(n), e
}

// holdWaits is how many interrupted waits a Hold lasts for: half a second, or less if many garbage
// collections interrupt the loop.
const holdWaits = 50

// Called is told the signals of a turn before the loop obeys them.
func (l *Loop) Called(signals uint32) {
	l.Raw = mayBlockRaw(l.Loops)
	if signals&signalHold != 0 {
		l.holds = holdWaits
	}
}

// Interrupted is called when a raw wait was interrupted. It returns true if the loop must go round a turn
// and wait raw again, and false if it must wait in the ordinary way now.
func (l *Loop) Interrupted() (again bool) {
	l.Raw = mayBlockRaw(l.Loops)
	if l.holds == 0 || !l.Raw {
		return false
	}
	l.holds--
	return true
}

// EpollWait waits for events, without a time limit or (block = false) not at all.
func (l *Loop) EpollWait(epoll int, events []unix.EpollEvent, block bool) (n int, e unix.Errno) {
	if block && l.Spin(func() bool {
		n, e = rawEpollWait(epoll, events, 0)
		return n != 0
	}) {
		return n, e
	}
	timeout := 0
	if block {
		timeout = forever
	}
	if !block || l.Raw {
		n, e = rawEpollWait(epoll, events, timeout)
		if e != unix.EINTR || !block || l.Interrupted() {
			return n, e
		}
	}
	return epollWait(epoll, events)
}

// forever is a time-out of epoll_pwait, in ms.
const forever = -1

func rawEpollWait(epoll int, events []unix.EpollEvent, timeout int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(timeout), 0, 0)
	return int(n), e
}

func epollWait(epoll int, events []unix.EpollEvent) (int, unix.Errno) {
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), ^uintptr(0), 0, 0)
	return int(n), e
}
