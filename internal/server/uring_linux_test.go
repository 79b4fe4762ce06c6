package server

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// If a connection had two sends in one submission and the socket had no room for the first, it might have some for the second.
func TestOneSendForEachConnectionAndTurn(t *testing.T) {
	if err := ProbeUring(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loop{Config: &Config{Counters: new(Counters), Log: slog.Default()}, share: NewBudget(0).share(nil, nil)}
	r, err := newUringLoop(l, NewUring(Config{}).sizes)
	if err != nil {
		t.Fatal(err)
	}
	u := r.(*uringLoop)
	u.round = 1 // of a new connection the last is 0
	defer u.close()
	var conns [2]*conn
	for i := range conns {
		conns[i] = u.conns.occupy(int32(i))
		conns[i].session = new(lineSession)
		conns[i].receiving = true
	}
	for range 3 { // results of one turn, taking turns
		for _, c := range conns {
			u.hear(c, []byte("echo 1\n"))
		}
	}
	u.endReply()
	if len(u.sends) != 2 || string(u.sends[0].bytes) != "1\r\n" || string(u.sends[1].bytes) != "1\r\n1\r\n1\r\n" {
		t.Errorf("sends %v, want one for each connection, the second with all that came while it was being made", u.sends)
	}
	if c := conns[0]; c.waiting == nil || string(c.waiting.in.bytes()) != "echo 1\necho 1\n" || !c.more {
		t.Error("the first connection's later input is not kept for the next turn")
	}
	for _, c := range conns {
		c.receiving = false // there is no socket
	}
}

// Inside a sandbox that forbids io_uring the probe says so, and auto takes the next engine. The sandbox is seccomp's, as a container's is,
// for one thread.
func TestProbeWhereForbidden(t *testing.T) {
	if err := ProbeUring(); err != nil {
		t.Skip(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := forbid(unix.SYS_IO_URING_SETUP); err != nil {
			t.Logf("cannot make a sandbox: %v", err)
			return
		}
		if err := ProbeUring(); err == nil || !strings.Contains(err.Error(), "not permitted") {
			t.Errorf("probe: error %v, want one that says it is not permitted", err)
		}
		make, reason, err := Choose("auto")
		if err != nil || make(Config{}).Name() != "epoll" || !strings.Contains(reason, "not uring: io_uring is not permitted") {
			t.Errorf("auto: reason %q, error %v", reason, err)
		}
		if _, _, err := Choose("uring"); err == nil {
			t.Error("uring: no error")
		}
	}()
	<-done
}

// forbid has a system call of this thread fail with EPERM.
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

// Linux 6.1 tells of a buffer also where there was no input.
func TestReceiveThatFailedWithABuffer(t *testing.T) {
	r := &ring{buffers: make([]byte, 100), bufferSize: 100}
	if id, input := r.received(cqe{res: -int32(unix.EAGAIN), flags: cqeBuffer}); id != 0 || len(input) != 0 {
		t.Errorf("buffer %d, input %q; want buffer 0 and none", id, input)
	}
}

// The last of a lingering connection's input may close it. Nothing may be asked of its slot then.
func TestNothingIsAskedOfAClosedSlot(t *testing.T) {
	if err := ProbeUring(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loop{Config: &Config{Counters: new(Counters), Log: slog.Default()}}
	r, err := newUringLoop(l, NewUring(Config{}).sizes)
	if err != nil {
		t.Fatal(err)
	}
	u := r.(*uringLoop)
	u.round = 1
	defer u.close()
	c := u.conns.occupy(0)
	c.session, c.receiving, c.lingering = new(lineSession), true, true
	c.waiting = &waiting{left: 3}
	before := u.ring.tail
	u.received(cqe{tag: tagOf(tagReceive, c), res: 4, flags: cqeBuffer}) // and no cqeMore
	if c.session != nil || u.conns.used != 0 {
		t.Error("the connection is not closed")
	}
	if asked := u.ring.tail - before; asked != 1 || u.ring.sqes[before].op != opClose {
		t.Errorf("%d operations, the first is %d; want one that closes the slot", asked, u.ring.sqes[before].op)
	}
}
