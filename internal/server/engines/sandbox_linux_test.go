package engines

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/uring"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// In a sandbox that forbids io_uring the probe says so, and auto takes the next engine. The sandbox
// uses seccomp, like a container's, but for one thread only.
func TestProbeWhereForbidden(t *testing.T) {
	if err := uring.Probe(2); err != nil {
		t.Skip(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := forbid(unix.SYS_IO_URING_SETUP); err != nil {
			t.Logf("cannot make a sandbox: %v", err)
			return
		}
		if err := uring.Probe(2); err == nil || !strings.Contains(err.Error(), "not permitted") {
			t.Errorf("probe: error %v, want one that says it is not permitted", err)
		}
		make, reason, err := Choose("auto", 2)
		if err != nil || make(server.Config{}).Name() != "epoll" ||
			!strings.Contains(reason, "not uring: io_uring is not permitted") {
			t.Errorf("auto: reason %q, error %v", reason, err)
		}
		if _, _, err := Choose("uring", 2); err == nil {
			t.Error("uring: no error")
		}
	}()
	<-done
}

// forbid makes a system call of this thread fail with EPERM.
func forbid(call uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}
