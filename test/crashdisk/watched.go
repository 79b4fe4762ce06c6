package crashdisk

import (
	"path/filepath"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A Watched disk is a disk in the hands of one process. Before is called before each of its operations, which are
// called as in Disk.Trace without more than a name, and "is NAME" before a file is asked for its path. An error is what
// the operation fails with.
type Watched struct {
	durable.Disk
	Before func(op string) error
}

func (w *Watched) before(op, path string) error {
	if w.Before == nil {
		return nil
	}
	return w.Before(op + " " + filepath.Base(path))
}

// Open implements durable.Disk.
func (w *Watched) Open(path string, create bool) (durable.File, error) {
	if err := w.before("open", path); err != nil {
		return nil, err
	}
	f, err := w.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, w, path}, nil
}

// Rename implements durable.Disk.
func (w *Watched) Rename(from, to string) error {
	if err := w.before("rename", from); err != nil {
		return err
	}
	return w.Disk.Rename(from, to)
}

// Remove implements durable.Disk.
func (w *Watched) Remove(path string) error {
	if err := w.before("remove", path); err != nil {
		return err
	}
	return w.Disk.Remove(path)
}

// SyncDir implements durable.Disk.
func (w *Watched) SyncDir(dir string) error {
	if err := w.before("syncdir", dir); err != nil {
		return err
	}
	return w.Disk.SyncDir(dir)
}

type watchedFile struct {
	durable.File
	of   *Watched
	path string
}

func (f watchedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.of.before("read", f.path); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f watchedFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.of.before("write", f.path); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f watchedFile) Is(path string) bool {
	_ = f.of.before("is", path)
	return f.File.Is(path)
}
