package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock takes the file's lock for this open file, until it is closed.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrInUse
	}
	return os.NewSyscallError("LockFileEx", err)
}

// SyncDir implements Disk. The system has no such call: NTFS keeps its names in a journal.
func (OS) SyncDir(string) error { return nil }

// errQuota: there is no such error here.
var errQuota = errors.New("quota exceeded")

// noFollow is not to be had here.
const noFollow = 0

// giveToOwner does nothing here.
func giveToOwner(string, func(uid, gid int) error) {}

func ownership(string) string { return "" }
