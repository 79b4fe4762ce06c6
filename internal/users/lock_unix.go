//go:build unix

package users

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps others from editing the file, by a lock on its directory: the file itself is replaced.
func (f *File) lock() (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		dir.Close()
		return nil, err
	}
	return func() { dir.Close() }, nil
}

// inherit gives a new file the owner and the mode of the old one.
func inherit(next *os.File, old fs.FileInfo) error {
	if s, ok := old.Sys().(*syscall.Stat_t); ok && (int(s.Uid) != os.Geteuid() || int(s.Gid) != os.Getegid()) {
		if err := next.Chown(int(s.Uid), int(s.Gid)); err != nil {
			return err
		}
	}
	return next.Chmod(old.Mode().Perm())
}
