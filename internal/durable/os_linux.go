package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// The file systems that a state file must not be on: they forget it at the next boot (tmpfs,
// ramfs), promise less than they seem to when a server or a driver is in between (NFS, CIFS, FUSE,
// 9p, Ceph), or belong to a container that is thrown away (overlay).
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

// coarsest is the longest time for which a clock of file times may stand still: FAT counts two seconds.
const coarsest = 2 * time.Second

// version is not certain while the next change could leave the times of path as they are.
func version(path string, now time.Time) Version {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return Version{}
	}
	changed := max(s.Ctim.Nano(), s.Mtim.Nano())
	if now.UnixNano()-changed <= int64(coarsest) {
		return Version{}
	}
	return Version{Dev: uint64(s.Dev), Ino: s.Ino, Changed: changed}
}
