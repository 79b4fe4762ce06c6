package static

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// OnDisk returns why a directory keeps no records durably: ErrFileSystem. One that is not there yet may.
func OnDisk(dir string) error { return durable.Fits(dir) }

// Readable returns why a daemon must not go on from the records of some worker ids. Records that are not there, or that
// this process may not read, are no reason. Daemons may be running.
func Readable(dir string, workers []uint64, fingerprint string) error {
	c := Config{Disk: durable.OS{}, Dir: dir, Fingerprint: fingerprint, Machine: MachineID(),
		Log: slog.New(slog.DiscardHandler)}
	var all []error
	for _, id := range workers {
		if _, err := newWorker(&c, id, nil).read(); !errors.Is(err, fs.ErrPermission) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// Usable creates a directory and returns why it cannot keep the records of some worker ids. nil means
// that it can, or that it has a record of one of them already: that record must be used, and Open
// reports what is wrong with it. Usable is for a directory that the user has not named.
func Usable(dir string, workers []uint64, anyDisk bool) error {
	for _, id := range workers {
		switch _, err := os.Lstat(statePath(dir, id)); {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	kind, err := durable.OS{}.Prepare(dir)
	switch {
	case err != nil:
		return err
	case kind != "" && !anyDisk:
		return fmt.Errorf("it is on %s: %w", kind, ErrFileSystem)
	}
	return durable.Try(dir)
}
