package static

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func fileID(info fs.FileInfo) string {
	s := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%x-%x", s.Dev, s.Ino)
}

// The file systems that a state file must not be on: they forget it at the next boot (tmpfs, ramfs), promise less than they seem to when
// a server or a driver is in between (NFS, CIFS, FUSE, 9p, Ceph), or belong to a container that is thrown away (overlay).
var unfit = map[uint32]string{
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.RAMFS_MAGIC:           "ramfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.SMB_SUPER_MAGIC:       "smb",
	unix.CIFS_SUPER_MAGIC:      "cifs",
	unix.SMB2_SUPER_MAGIC:      "smb2",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.V9FS_MAGIC:            "9p",
	unix.CEPH_SUPER_MAGIC:      "ceph",
	unix.AFS_SUPER_MAGIC:       "afs",
}

// fileSystem names the file system under a directory if it is unfit, and is empty otherwise.
func fileSystem(dir string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return unfit[uint32(s.Type)], nil
}

// claim takes a name that one process of this network namespace can have, whatever its state directory. It is given up at Close, and by
// the kernel when the process ends.
func claim(name string) (io.Closer, error) {
	l, err := net.Listen("unix", "@"+name)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w%s", ErrInUse, holder(name))
	}
	return l, err
}

// holder says which process has the name, if that can be found out.
func holder(name string) string {
	c, err := net.DialTimeout("unix", "@"+name, 100*time.Millisecond)
	if err != nil {
		return ""
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	who := ""
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && cred.Pid > 0 {
			who = fmt.Sprintf(" by process %d", cred.Pid)
		}
	})
	return who
}

func readClocks() Clocks {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return processClocks()
	}
	wall := time.Now()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return Clocks{Wall: wall.UnixMilli(), Boot: t.Nano() / int64(time.Millisecond), BootID: strings.TrimSpace(string(boot))}
}
