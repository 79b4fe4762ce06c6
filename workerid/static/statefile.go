package static

import (
	"errors"
	"log/slog"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// The disk is package durable's, which other records are kept with, too.
type (
	// A Disk is what a Store does to a file system. Tests put one in its place that fails or loses
	// what is not synced.
	Disk = durable.Disk
	// A File is an open file of a Disk.
	File = durable.File
)

// MachineID is an identity of this machine for state files: the same after every boot, another on
// every other machine, and of no use to find the machine's own id, which programs are asked not to
// give away. It is empty where there is none, as in many containers.
func MachineID() string { return durable.MachineID() }

// A stateFile writes a record in such an order that at any moment, whatever unsynced data survives,
// one copy is whole, and its high-water mark is the one last granted or a higher one.
type stateFile struct {
	durable.Copies
	record record // what was written last, or tried to be
	buf    []byte
}

// newStateFile returns a stateFile that assumes that there is no file yet. It calls locked and succeed before it
// might replace another process's file; see durable.Copies.
func newStateFile(d Disk, path string, log *slog.Logger, locked func() bool, succeed func() error) *stateFile {
	s := &stateFile{}
	s.Copies = durable.Copies{Disk: d, Path: path, Log: log, Locked: locked, Succeed: succeed,
		MayOverwrite: s.mayOverwrite}
	return s
}

// create writes a new file beside the old one, and renames it over that.
func (s *stateFile) create(mark int64) error {
	s.encode(mark)
	return s.Create(s.buf)
}

// update overwrites the file.
func (s *stateFile) update(mark int64) error {
	s.encode(mark)
	return s.Update(s.buf)
}

func (s *stateFile) mayOverwrite(content []byte) error {
	r, damaged, err := recoverRecord(content)
	if mine := s.record; err == nil && r.Boot == mine.Boot && r.Run.Lock != "" && r.Run.Lock != mine.Run.Lock &&
		r.Run.Nonce != mine.Run.Nonce {
		return errors.New("its lock was deleted, and the process that wrote it may still go by it")
	}
	if err != nil || len(damaged) > 0 {
		return durable.ErrNotWhole
	}
	return nil
}

func (s *stateFile) encode(mark int64) {
	s.record.Generation++
	s.record.HighWater = mark
	s.buf = s.record.encode(s.buf[:0])
}

// readState reads a file that no process writes to.
func readState(d Disk, path string) (record, []string, error) {
	b, err := durable.Read(d, path)
	if err != nil {
		return record{}, nil, err
	}
	return recoverRecord(b)
}

func readFile(f File) (record, []string, error) {
	b, err := durable.ReadFile(f)
	if err != nil {
		return record{}, nil, err
	}
	return recoverRecord(b)
}
