//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// noFollow makes opening a symbolic link an error.
const noFollow = syscall.O_NOFOLLOW

// giveToOwner lets chown give something new to the owner of a directory, if this process may. What it
// cannot give stays its own.
func giveToOwner(dir string, chown func(uid, gid int) error) {
	if os.Geteuid() != 0 {
		return
	}
	if info, err := os.Stat(dir); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
			_ = chown(int(s.Uid), int(s.Gid))
		}
	}
}

// ownership says to whom a path belongs and who this process is, or "".
func ownership(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	uid, gid := os.Geteuid(), os.Getegid()
	whose := fmt.Sprintf("%s belongs to user %d, group %d (%v), and this process is user %d, group %d",
		path, s.Uid, s.Gid, info.Mode(), uid, gid)
	if path == "/" { // of a user whose home does not exist, for example
		return whose + ": name a directory that this user may write to"
	}
	return fmt.Sprintf("%s: chown %d:%d %s, or fsGroup: %[3]d in a pod", whose, uid, gid, path)
}

// lock takes the file's lock for this open file, until it is closed.
func lock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrInUse
		default:
			return os.NewSyscallError("flock", err)
		}
	}
}

// SyncDir implements Disk.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// errQuota: the user has used up what they may have of the disk.
var errQuota error = syscall.EDQUOT
