//go:build unix && !solaris && !aix

package durable

import (
	"errors"
	"os"
	"syscall"
)

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
