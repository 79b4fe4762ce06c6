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

// prepare sees to it that the program dies with this process, and that what it leaves behind becomes a child of this process, which can
// wait for its death: also what left the process group.
func (c *child) prepare() error {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	c.elders = map[int]bool{}
	for _, pid := range children() {
		c.elders[pid] = true
	}
	return nil
}

// wait returns when the program and all that it started are dead. Meanwhile it sees orphans off, as the init process would.
func (c *child) wait() {
	for {
		pid := awaitDeath()
		if pid == c.pid() || pid == 0 {
			break
		}
		unix.Wait4(pid, nil, 0, nil)
	}
	c.bury() // before anybody asks for the exit status: until then no other process and no other group gets the number
	c.cmd.Wait()
	for c.sweep() {
	}
}

// sweep kills the children that the program left to this process and waits for them. In dying they may leave others.
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

// awaitDeath waits until a child is dead and returns its number, which stays its own until it is waited for once more. 0: there is none.
func awaitDeath() (pid int) {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err {
		case unix.EINTR:
		case nil:
			// After three ints comes a union that holds pointers too; its first field is the number.
			const word = unsafe.Sizeof(uintptr(0))
			const at = (3*4 + word - 1) / word * word
			raw := (*[unsafe.Sizeof(info)]byte)(unsafe.Pointer(&info))
			return int(binary.NativeEndian.Uint32(raw[at:]))
		default:
			return 0
		}
	}
}

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
