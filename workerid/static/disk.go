package static

import (
	"io"
	"os"
	"path/filepath"
)

// A Disk is what a Store does to a file system. Tests put one in its place that fails or loses what is not synced.
type Disk interface {
	// Prepare makes a directory that is not there, and names the file system that it is on.
	Prepare(dir string) (kind string, err error)
	// Open opens a file for reading and writing; create makes or empties it.
	Open(path string, create bool) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// A File is an open file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes everything written durable, the file's length included; Datasync what is needed to read it back.
	Sync() error
	Datasync() error
	// Lock takes the file's lock, until Close; ErrInUse if another process has it.
	Lock() error
	// Is says whether path still leads to this file. On a local disk the answer is in memory, even while nothing can be written.
	Is(path string) bool
	// ID is a name that no other file of the disk has while this one is open; empty where there is none.
	ID() string
}

// osDisk is the operating system's.
type osDisk struct{}

type osFile struct{ *os.File }

func (osDisk) Prepare(dir string) (string, error) {
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		if err := (osDisk{}).SyncDir(filepath.Dir(filepath.Clean(dir))); err != nil {
			return "", err
		}
	}
	return fileSystem(dir)
}

func (osDisk) Open(path string, create bool) (File, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(path string) error { return os.Remove(path) }

func (f osFile) Datasync() error { return datasync(f.File) }

func (f osFile) Lock() error { return lock(f.File) }

func (f osFile) Is(path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

func (f osFile) ID() string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	return fileID(info)
}
