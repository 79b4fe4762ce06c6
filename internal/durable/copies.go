package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
)

// Copies writes the two copies of a record in such an order that at any moment, whatever survives of
// what is not synced, one copy is whole: that of a write that returned nil, or of a later one. Its
// methods are for one goroutine.
type Copies struct {
	Disk   Disk
	Path   string
	Log    *slog.Logger
	Locked func() bool // reports whether the caller still has the lock; asked before a file is replaced
	// Lock tells the lock that the caller has from any other one, in letters, digits and hyphens; "" = there is only one.
	// Processes with different locks, as after one was moved away, write their new files under different names.
	Lock string
	// Succeed is called last before the first file is replaced, if it is set. Its error says why the record at Path is
	// not the one that the caller goes on from: a lock that was moved away may be back after another process had its own.
	Succeed func() error
	// MayOverwrite says why a file with this content must not be overwritten in place on a full disk.
	// That takes two whole copies, so that one of them is whole at any moment.
	MayOverwrite func(content []byte) error

	file   File // nil before Create, and when that failed half-way
	failed bool // an error has left what the disk holds unknown
}

var (
	// ErrNotLocked: the caller has lost the lock, since somebody deleted its file. It is final.
	ErrNotLocked = errors.New("the lock file was deleted")
	// errMoved: the file that is open is no longer the one at its path. It is final.
	errMoved = errors.New("it was deleted or replaced")
	// ErrNotWhole is for MayOverwrite to return.
	ErrNotWhole = errors.New("not both of its copies are whole")
)

// File returns the file that was written last, or nil.
func (c *Copies) File() File { return c.file }

// Use makes f the file. The next Update replaces it, since f may be an older one.
func (c *Copies) Use(f File) { c.file, c.failed = f, true }

// Create writes a new file beside the old one and renames it over it. An earlier write error may be
// hidden by the page cache, so a process begins with this.
func (c *Copies) Create(data []byte) error {
	c.failed = true
	temporary := c.Path + ".tmp"
	own := temporary
	if c.Lock != "" {
		own = c.Path + "." + c.Lock + ".tmp"
	}
	err := c.writeNew(own, data)
	if isFull(err) {
		return c.overwrite(own, data, err)
	}
	// All processes rename their new files from one name, and look at the rest after they have put theirs there. So
	// another one that was stopped after its look finds nothing to rename, or this file, which is not its own.
	if err == nil && own != temporary {
		err = c.Disk.Rename(own, temporary)
	}
	if err != nil {
		return err
	}
	if err := c.mayReplace(); err != nil {
		return err
	}
	if err := c.Close(); err != nil { // some systems do not replace a file that is open
		return err
	}
	if err := c.Disk.Rename(temporary, c.Path); err != nil {
		return err
	}
	if err := c.Disk.SyncDir(filepath.Dir(c.Path)); err != nil {
		return err
	}
	f, err := c.Disk.Open(c.Path, false)
	if err != nil {
		return err
	}
	// While this process was stopped after the rename, another one may have put its file there.
	if content, err := ReadFile(f); err != nil || !bytes.Equal(content, slices.Concat(data, data)) {
		return errors.Join(errMoved, err, f.Close())
	}
	c.file, c.failed = f, false
	return nil
}

// mayReplace says why what is at Path must not be replaced: it may be another process's.
func (c *Copies) mayReplace() error {
	switch {
	case !c.Locked():
		return ErrNotLocked
	case c.file != nil && !c.file.Is(c.Path):
		return errMoved
	case c.file == nil && c.Succeed != nil:
		return c.Succeed()
	}
	return nil
}

// overwrite is for a disk that has no room for another file: it writes over the one that is there.
func (c *Copies) overwrite(temporary string, data []byte, full error) error {
	c.Disk.Remove(temporary) // as far as it was made: others need the room too
	f, err := c.Disk.Open(c.Path, false)
	if errors.Is(err, fs.ErrNotExist) {
		return full
	}
	if err != nil {
		return errors.Join(full, err)
	}
	content, err := ReadFile(f)
	if err == nil {
		err = c.MayOverwrite(content)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w, and the file cannot be overwritten: %w", full, err), f.Close())
	}
	if err := c.mayReplace(); err != nil {
		return errors.Join(err, f.Close())
	}
	// Whoever put the file there may have failed to make its name durable, or been killed before.
	err = errors.Join(c.Disk.SyncDir(filepath.Dir(c.Path)), c.Close())
	if err != nil {
		return errors.Join(err, f.Close())
	}
	c.file = f
	c.Log.Warn("the disk is full: the state file is overwritten in place", "file", c.Path, "error", full)
	// After a write that failed, or a kill, one of the copies may be in the page cache only. Written again
	// as they are, the other one stays whole on the disk even if this fails too.
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Datasync()
	}
	if err != nil {
		return err
	}
	return c.writeCopies(data)
}

// isFull reports whether an error means that there is no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

// writeNew makes a file that no other process has open: one that was stopped here would go on to write into it.
func (c *Copies) writeNew(path string, data []byte) error {
	if err := c.Disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := c.Disk.Open(path, true)
	if err != nil {
		return err
	}
	for _, off := range []int64{0, CopySize} {
		if _, err := f.WriteAt(data, off); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// Update writes one copy after the other. After an error, when the disk may be bad there, the next one
// creates the file anew. A file that is not where it was may be another process's by now, and is left
// alone: errMoved.
func (c *Copies) Update(data []byte) error {
	if c.file == nil || !c.file.Is(c.Path) {
		return errMoved
	}
	if c.failed {
		return c.Create(data)
	}
	return c.writeCopies(data)
}

func (c *Copies) writeCopies(data []byte) error {
	for _, off := range []int64{0, CopySize} {
		_, err := c.file.WriteAt(data, off)
		if err == nil {
			err = c.file.Datasync()
		}
		if err != nil {
			c.failed = true
			return err
		}
	}
	c.failed = false
	return nil
}

// Close closes the file, if there is one.
func (c *Copies) Close() error {
	if c.file == nil {
		return nil
	}
	f := c.file
	c.file = nil
	return f.Close()
}

// Read returns the content of a file that nobody writes to, and at most one byte more than FileSize, so
// that Recover sees if there is more. The process need not have the right to write it.
func Read(d Disk, path string) ([]byte, error) {
	f, err := d.Open(path, false)
	if _, ok := d.(OS); ok && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		if only, e := openToRead(path); e == nil {
			f, err = only, nil
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFile(f)
}

// ReadFile is Read of an open file.
func ReadFile(f File) ([]byte, error) {
	b := make([]byte, FileSize+1)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return b[:n], nil
}

// Like makes c go on from where another one stands, whose file it then shares. failed says whether an error has
// left what the disk holds unknown. It is for test/explore.
func (c *Copies) Like(o *Copies) (failed bool) {
	c.file, c.failed = o.file, o.failed
	return c.failed
}
