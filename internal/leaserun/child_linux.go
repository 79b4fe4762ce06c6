package leaserun

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// prepare makes sure that the program dies with this process and is in the cgroup from its start. It
// also makes this process the parent of orphans that the program leaves, so that it can wait for their
// death, even if they left the process group or were moved to another cgroup.
func (c *child) prepare() error {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.cgroup != nil {
		a.UseCgroupFD, a.CgroupFD = true, int(c.cgroup.dir.Fd())
	}
	c.cmd.SysProcAttr = a
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	c.elders = map[int]bool{}
	for _, pid := range children() {
		c.elders[pid] = true
	}
	c.tty = openTerminal()
	return nil
}

// wait returns when the program and everything that it started are dead. Meanwhile it reaps orphans, as
// the init process would.
func (c *child) wait() {
	for dead := false; !dead; {
		switch pid, stop := awaitChild(); {
		case pid == c.pid() && stop != 0:
			c.tty.stopped(pid, stop)
		case pid == c.pid() || pid == 0:
			dead = true
		case stop == 0:
			unix.Wait4(pid, nil, 0, nil)
			delete(c.elders, pid) // an orphan may get the same pid
		}
	}
	c.bury() // before cmd.Wait reaps the program: until then no other process or group gets its pid
	c.cmd.Wait()
	for c.sweep() {
	}
	c.cgroup.end()
	c.tty.takeBack()
	c.tty.close()
}

// sweep kills the children that the program left to this process and waits for them. They may leave
// further children when they die.
func (c *child) sweep() (found bool) {
	var left []int
	for _, pid := range children() {
		if !c.elders[pid] {
			unix.Kill(pid, unix.SIGKILL)
			left = append(left, pid)
		}
	}
	for _, pid := range left {
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				break
			}
		}
	}
	return len(left) > 0
}

// awaitChild waits until a child is dead and returns its pid, or 0 if there is no child. The pid is not
// reused until the child is reaped. If the child was only stopped, stop is the signal.
func awaitChild() (pid int, stop unix.Signal) {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); err {
		case unix.EINTR:
			continue
		case nil:
		default:
			return 0, 0
		}
		// After three ints comes a union that also holds pointers. It begins with pid, uid and status.
		const word = unsafe.Sizeof(uintptr(0))
		const at = (3*4 + word - 1) / word * word
		raw := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
		pid = int(binary.NativeEndian.Uint32(raw[at:]))
		if info.Code != cldStopped {
			return pid, 0
		}
		unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil) // do not report it again
		return pid, unix.Signal(binary.NativeEndian.Uint32(raw[at+8:]))
	}
}

const cldStopped = 5 // si_code of a child that stopped

// children lists the children of this process.
func children() (pids []int) {
	self := []byte(strconv.Itoa(os.Getpid()))
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// pid (name) state ppid ...; the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && bytes.Equal(fields[1], self) {
			pids = append(pids, pid)
		}
	}
	return pids
}
