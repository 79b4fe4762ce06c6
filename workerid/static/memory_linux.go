package static

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A page is one file of pageSize bytes on tmpfs: a line with the nonce, one with the ms, NUL up to
// the word, which is in the machine's own byte order and alone in its cache lines.
const (
	pageSize = 4096
	wordAt   = 2048
	pageText = "katsubushi word 1\nnonce %s\nissued %d\n"
)

type tmpfs struct{ dir string }

// SharedMemory keeps pages in files of a directory on tmpfs; "" is /dev/shm. It is an error if the
// directory is not on tmpfs.
func SharedMemory(dir string) (Memory, error) {
	if dir == "" {
		dir = "/dev/shm"
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoMemory, &os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	// a file on a disk is written back, and a store to it waits for the disk
	if s.Type != unix.TMPFS_MAGIC && s.Type != unix.RAMFS_MAGIC {
		return nil, fmt.Errorf("%w: %s is not on tmpfs", errNoMemory, dir)
	}
	return tmpfs{dir}, nil
}

func (m tmpfs) path(nonce string) string { return filepath.Join(m.dir, "katsubushi-"+nonce) }

// Make implements Memory. The bytes are written before they are mapped: a full tmpfs is an error
// now, not a signal later.
func (m tmpfs) Make(nonce string, issued int64) (p Page, err error) {
	f, err := os.OpenFile(m.path(nonce), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return p, err
	}
	defer f.Close()
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	b := fmt.Appendf(make([]byte, 0, pageSize), pageText, nonce, issued)
	if err := f.Chmod(0o600); err != nil { // whatever the umask is
		return p, err
	}
	if _, err := f.Write(b[:pageSize]); err != nil {
		return p, err
	}
	shared, err := unix.Mmap(int(f.Fd()), 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return p, os.NewSyscallError("mmap", err)
	}
	_ = unix.Mlock(shared) // else it may be swapped out, which costs the next run a wait and nothing more
	p.Word = (*atomic.Uint64)(unsafe.Pointer(&shared[wordAt]))
	p.Word.Store(0) // newer kernels note the first store in the file's times
	if p.ID, err = pageID(f); err != nil {
		return Page{}, err
	}
	return p, nil
}

// pageID identifies this file, and changes when a system call writes to it. Stores through a mapping
// leave its times alone.
func pageID(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	s := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 || s.Nlink != 1 || int(s.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s: mode %v, %d links, of user %d: not as it was made", f.Name(), info.Mode(), s.Nlink, s.Uid)
	case info.Size() != pageSize:
		return "", fmt.Errorf("%s: %d bytes: not as it was made", f.Name(), info.Size())
	}
	file, changed := pageTimes(s)
	return file + changed, nil
}

// pageTimes identifies a file and its last change.
func pageTimes(s *syscall.Stat_t) (file, changed string) {
	b := make([]byte, 0, 64)
	b = append(strconv.AppendUint(b, uint64(s.Dev), 16), '-')
	b = append(strconv.AppendUint(b, s.Ino, 16), '-')
	file = string(b)
	return file, string(strconv.AppendInt(b[:0], s.Ctim.Nano(), 16))
}

// Changed implements Memory.
func (m tmpfs) Changed(id, nonce string) bool {
	var s syscall.Stat_t
	if err := syscall.Lstat(m.path(nonce), &s); err != nil {
		return false
	}
	file, changed := pageTimes(&s)
	return strings.HasPrefix(id, file) && id != file+changed
}

// Find implements Memory.
func (m tmpfs) Find(id, nonce string) (issued int64, word uint64, err error) {
	f, err := os.OpenFile(m.path(nonce), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	found, err := pageID(f)
	if err != nil {
		return 0, 0, err
	}
	if found != id {
		return 0, 0, fmt.Errorf("%s: not the file that was made, or written to since", f.Name())
	}
	b := make([]byte, pageSize)
	if _, err := f.ReadAt(b, 0); err != nil {
		return 0, 0, err
	}
	text, _, _ := bytes.Cut(b[:wordAt], []byte{0})
	var of string
	if n, _ := fmt.Sscanf(string(text), pageText, &of, &issued); n != 2 || of != nonce {
		return 0, 0, fmt.Errorf("%s: another run's", f.Name())
	}
	return issued, binary.NativeEndian.Uint64(b[wordAt:]), nil
}

// Remove implements Memory.
func (m tmpfs) Remove(_, nonce string) error {
	if err := os.Remove(m.path(nonce)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
