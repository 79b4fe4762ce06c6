package static

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"syscall"
)

// A stateFile writes a record in such an order that at any moment, whatever of the unsynced survives, a copy is whole whose mark was
// either granted or is above one that was.
type stateFile struct {
	disk   Disk
	path   string
	log    *slog.Logger
	locked func() bool // whether the lock is still this process's, to be asked before another one's file might be replaced
	record record      // what was written last, or tried to be
	file   File        // nil before create, and when that failed half-way
	failed bool        // what the disk holds is not known since an error
	buf    []byte
}

var (
	errNotLocked = errors.New("the lock file was deleted")
	errMoved     = errors.New("it was deleted or replaced")
)

// create writes the file anew, beside the old one, and puts it in its place.
func (s *stateFile) create(mark int64) error {
	s.failed = true
	s.encode(mark)
	temporary := s.path + ".tmp"
	err := s.writeNew(temporary)
	if isFull(err) {
		return s.overwrite(temporary, err)
	}
	if err != nil {
		return err
	}
	if !s.locked() {
		return errNotLocked
	}
	if s.file != nil && !s.file.Is(s.path) {
		return errMoved
	}
	if err := s.close(); err != nil { // some systems replace no file that is open
		return err
	}
	if err := s.disk.Rename(temporary, s.path); err != nil {
		return err
	}
	if err := s.disk.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	f, err := s.disk.Open(s.path, false)
	if err != nil {
		return err
	}
	s.file, s.failed = f, false
	return nil
}

// overwrite is for a disk that has no room for another file: it writes over the one that is there. That takes two good copies, so that one of
// them is whole at any moment.
func (s *stateFile) overwrite(temporary string, full error) error {
	s.disk.Remove(temporary) // as far as it was made: others need the room, too
	r, damaged, err := readState(s.disk, s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return full
	}
	if mine := s.record; err == nil && r.Boot == mine.Boot && r.Run.Lock != "" && r.Run.Lock != mine.Run.Lock && r.Run.Nonce != mine.Run.Nonce {
		return fmt.Errorf("%w, and the file cannot be overwritten: its lock was deleted, and the process that wrote it may still go by it", full)
	}
	if err != nil || len(damaged) > 0 {
		return fmt.Errorf("%w, and the file cannot be overwritten, as not both of its copies are whole", full)
	}
	f, err := s.disk.Open(s.path, false)
	if err != nil {
		return errors.Join(full, err)
	}
	if !s.locked() {
		return errors.Join(errNotLocked, f.Close())
	}
	if err := s.close(); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file = f
	s.log.Warn("the disk is full: the state file is overwritten in place", "file", s.path, "error", full)
	return s.writeCopies()
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) }

func (s *stateFile) writeNew(path string) error {
	f, err := s.disk.Open(path, true)
	if err != nil {
		return err
	}
	for _, off := range []int64{0, copySize} {
		if _, err := f.WriteAt(s.buf, off); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// update writes one copy after the other. After an error, when the disk may be bad there, the next one creates the file anew. What is not where
// it was may be another process's by now, and is left alone.
func (s *stateFile) update(mark int64) error {
	if s.file == nil || !s.file.Is(s.path) {
		return errMoved
	}
	if s.failed {
		return s.create(mark)
	}
	s.encode(mark)
	return s.writeCopies()
}

func (s *stateFile) writeCopies() error {
	for _, off := range []int64{0, copySize} {
		_, err := s.file.WriteAt(s.buf, off)
		if err == nil {
			err = s.file.Datasync()
		}
		if err != nil {
			s.failed = true
			return err
		}
	}
	s.failed = false
	return nil
}

func (s *stateFile) encode(mark int64) {
	s.record.Generation++
	s.record.Mark = mark
	s.buf = s.record.encode(s.buf[:0])
}

func (s *stateFile) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// readState reads a file that nobody writes to.
func readState(d Disk, path string) (record, []string, error) {
	f, err := d.Open(path, false)
	if err != nil {
		return record{}, nil, err
	}
	defer f.Close()
	return readFile(f)
}

func readFile(f File) (record, []string, error) {
	b := make([]byte, fileSize+1) // one more, to see whether there is more
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return record{}, nil, err
	}
	return recoverRecord(b[:n])
}
