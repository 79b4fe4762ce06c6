package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Errors that say why a file must not be used as things are.
var (
	// ErrInUse: another process on this host has the lock. Retry if that one is about to end.
	ErrInUse = errors.New("in use")
	// ErrDamaged: no copy of the record is whole. Do not retry: an operator must make a new one.
	ErrDamaged = errors.New("no copy of the record is whole")
	// ErrOtherMachine: the file was written on another machine. Do not retry: an operator must adopt
	// it, once that machine does not use it any more.
	ErrOtherMachine = errors.New("written on another machine")
	// ErrFileSystem: the file system may forget what it has synced.
	ErrFileSystem = errors.New("not a local disk")
	// ErrLink: the name is a symbolic link. The next write would replace the link and leave the old
	// record under the other name, to be used again.
	ErrLink = errors.New("a symbolic link, where a record has one name")
	// ErrNoFile: the name is that of a directory, or of another thing that keeps no bytes.
	ErrNoFile = errors.New("no plain file")
)

// A Disk is what the owner of a file does to a file system. Tests use one that fails, or that loses
// what is not synced.
type Disk interface {
	// Prepare makes a directory that is not there, durably. kind names its file system if that may
	// forget what it has synced, and is empty otherwise.
	Prepare(dir string) (kind string, err error)
	// Open opens a file for reading and writing; create makes or empties it. What is no plain file is an
	// error: ErrLink, ErrNoFile.
	Open(path string, create bool) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Names returns the names in a directory, in any order.
	Names(dir string) ([]string, error)
	// Version returns a Version that path never has again once a name in that directory was made, replaced or
	// removed, that file was written to, or the path leads elsewhere; the zero Version if that is not certain now,
	// or if there is nothing. Its price is that of one Is.
	Version(path string) Version
}

// A Version tells one state of the names in a directory, or of a file's bytes, from all others.
type Version struct {
	Dev, Ino uint64 // of the directory or file
	Changed  int64  // when it changed last, Unix ns
}

// A File is an open file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes everything written durable, the file's length included; Datasync what is needed to
	// read it back.
	Sync() error
	Datasync() error
	// Lock takes the file's lock, until Close; ErrInUse if another process has it.
	Lock() error
	// Is says whether path still leads to this file. On a local disk the answer is in memory, even
	// while nothing can be written.
	Is(path string) bool
	// ID is a name that no other file of the disk has while this one is open; empty where there is none.
	ID() string
}

// OS is the operating system's Disk.
type OS struct{}

// An osFile is an open file, and which one that is: no other file can be that while it is open.
type osFile struct {
	*os.File
	info   fs.FileInfo
	closed atomic.Bool
}

// Prepare implements Disk.
func (OS) Prepare(dir string) (string, error) {
	if err := makeDir(filepath.Clean(dir), OS{}.SyncDir); err != nil {
		return "", err
	}
	return fileSystem(dir)
}

// Fits returns why a directory keeps no records durably: ErrFileSystem. One that is not there yet may.
func Fits(dir string) error {
	if kind, err := fileSystem(dir); err == nil && kind != "" {
		return fmt.Errorf("%s is on %s: %w", dir, kind, ErrFileSystem)
	}
	return nil
}

// withOwner adds to an error of permissions to whom the file or directory belongs, and who asks: a volume
// of a container is often given to another user.
func withOwner(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if whose := ownership(path); whose != "" {
		err = fmt.Errorf("%w: %s", err, whose)
	}
	return err
}

// makeDir makes a directory that is not there, and those above it, and syncs the name of each.
func makeDir(dir string, sync func(dir string) error) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // whoever uses it will see what is wrong with it
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeDir(above, sync); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist): // another process was faster
	case err != nil:
		return withOwner(above, err)
	default:
		giveToOwner(above, func(uid, gid int) error { return os.Lchown(dir, uid, gid) })
	}
	return sync(above)
}

// Open implements Disk. Root makes files for the owner of the directory: an operator who is root
// must not lock out a daemon that is not.
func (OS) Open(path string, create bool) (File, error) {
	flag := os.O_RDWR | noFollow
	if create {
		f, err := os.OpenFile(path, flag|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			giveToOwner(filepath.Dir(path), f.Chown)
			return identified(f, path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, withOwner(filepath.Dir(path), err)
		}
		flag |= os.O_CREATE | os.O_TRUNC
	}
	return open(path, flag)
}

func openToRead(path string) (File, error) { return open(path, os.O_RDONLY|noFollow) }

// open opens a plain file.
func open(path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		if info, e := os.Lstat(path); e == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = fmt.Errorf("%s: %w", path, ErrLink)
		} else if e == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: %w", path, ErrNoFile)
		}
		return nil, withOwner(path, err)
	}
	return identified(f, path)
}

// identified closes what is no plain file: a FIFO can be opened.
func identified(f *os.File, path string) (File, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(cmp.Or(err, fmt.Errorf("%s: %w", path, ErrNoFile)), f.Close())
	}
	return &osFile{File: f, info: info}, nil
}

// Rename implements Disk.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements Disk.
func (OS) Remove(path string) error { return os.Remove(path) }

// Version implements Disk.
func (OS) Version(path string) Version { return version(path, time.Now()) }

// Names implements Disk.
func (OS) Names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (f *osFile) Datasync() error { return datasync(f.File) }

func (f *osFile) Lock() error { return lock(f.File) }

func (f *osFile) Close() error {
	f.closed.Store(true)
	return f.File.Close()
}

func (f *osFile) Is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !f.closed.Load() && os.SameFile(f.info, info)
}

func (f *osFile) ID() string {
	if f.closed.Load() {
		return ""
	}
	return fileID(f.info)
}

// Try writes a file as long as a record into dir, and removes it. The error says why no record can be
// kept there.
func Try(dir string) error {
	f, err := os.CreateTemp(dir, "try-*.tmp")
	if err != nil {
		return withOwner(dir, err)
	}
	_, err = f.Write(make([]byte, FileSize))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
