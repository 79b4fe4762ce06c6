package durable_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

var (
	format   = durable.Format{Kind: "test", Version: "1"}
	errPower = errors.New("power cut")
)

// encode makes a copy of a record that is longer than a sector of the disk.
func encode(generation int) []byte {
	return format.Append(nil, strings.Repeat(fmt.Sprintf("generation %d\n", generation), 20))
}

func decode(b []byte) (n int, generation uint64, err error) {
	body, err := format.Body(b)
	if err == nil {
		err = format.Same(b, body)
	}
	if err == nil {
		_, err = fmt.Sscanf(body, "generation %d\n", &generation)
	}
	return int(generation), generation, err
}

func mayOverwrite(content []byte) error {
	if _, damaged, err := durable.Recover(content, decode); err != nil || len(damaged) > 0 {
		return durable.ErrNotWhole
	}
	return nil
}

// Whatever becomes of a byte, nothing wrong is believed: one copy is found damaged, and the other is used. A copy that
// is cut off, or of another version, is no copy either, and of two whole ones the newer wins.
func TestDamage(t *testing.T) {
	read := func(b []byte, want, damaged int, wrong error) {
		t.Helper()
		n, bad, err := durable.Recover(b, decode)
		if n != want || len(bad) != damaged || !errors.Is(err, wrong) {
			t.Fatalf("generation %d, %q, %v; want %d, %d damaged, %v", n, bad, err, want, damaged, wrong)
		}
	}
	old, newer := encode(1), encode(2)
	for _, b := range [][]byte{slices.Concat(old, newer), slices.Concat(newer, old)} {
		read(b, 2, 0, nil)
	}
	both := slices.Concat(old, old)
	for i := range both {
		for _, flip := range []byte{0xff, 1 << (i % 8)} {
			both[i] ^= flip
			read(both, 1, 1, nil)
			last := both[i/len(old)*len(old):][:len(old)] // that is left
			read(last, 0, 2, durable.ErrDamaged)
			both[i] ^= flip
		}
		if i < len(old) {
			read(both[:i], 0, 2, durable.ErrDamaged)
		} else {
			read(both[:i], 1, 1, nil)
		}
	}
	read(append(both, 0), 1, 1, nil)
	later := durable.Format{Kind: "test", Version: "2"}.Append(nil, "generation 3\n")
	for _, b := range [][]byte{slices.Concat(later, old), slices.Concat(old, later)} {
		read(b, 0, 0, durable.ErrVersion)
	}
}

// updates writes one generation after the other until the power is cut, by one process or by a new one
// each time, and returns the last one that was written without an error.
func updates(disk *crashdisk.Disk, restarts bool) (written int) {
	written = 1
	begin := func() *durable.Copies {
		return &durable.Copies{Disk: disk, Path: "record", Log: slog.New(slog.DiscardHandler),
			Locked: func() bool { return true }, MayOverwrite: mayOverwrite}
	}
	c := begin()
	for generation := 2; generation < 5; generation++ {
		write := c.Create
		if c.File() != nil {
			write = c.Update
		}
		if write(encode(generation)) == nil {
			written = generation
		}
		if restarts {
			c.Close()
			c = begin()
		}
	}
	return written
}

// On a full disk the file is overwritten in place. Two operations fail; what a failed fsync was for is read
// back although it may not be on the disk. Then the power is cut.
func TestTwoErrorsOnAFullDisk(t *testing.T) {
	whole := []byte(strings.Repeat(string(encode(1)), 2))
	for _, restarts := range []bool{false, true} {
		runs := 0
		for two, reached := 0, true; reached; two++ {
			reached = false
			for one := range two + 1 {
				disk, at := &crashdisk.Disk{}, -1
				disk.Write("record", whole)
				disk.Fault = func(op string) error {
					switch at++; {
					case at > two:
						return errPower
					case at == one || at == two:
						return syscall.EIO
					case strings.HasPrefix(op, "write record.tmp"):
						return syscall.ENOSPC
					}
					return nil
				}
				written := updates(disk, restarts)
				reached = reached || at > two
				runs++
				for seed := range uint64(4) {
					found := disk.Cut(rand.New(rand.NewPCG(seed, uint64(two)))).Read("record")
					if got, damaged, err := durable.Recover(found, decode); err != nil || got < written {
						t.Fatalf("restarts %v, errors at operations %d and %d, seed %d: generation %d, %v, %v; %d was written\n%s",
							restarts, one, two, seed, got, damaged, err, written, strings.Join(disk.Trace[:two+1], "\n"))
					}
				}
			}
		}
		t.Logf("restarts %v: %d runs", restarts, runs)
	}
}

// stoppedBefore is the disk of a process that is stopped before its first operation of a kind.
func stoppedBefore(disk durable.Disk, op string, meanwhile func() error) *crashdisk.Watched {
	stopped := false
	return &crashdisk.Watched{Disk: disk, Before: func(next string) error {
		if stopped || !strings.HasPrefix(next, op) {
			return nil
		}
		stopped = true
		return meanwhile()
	}}
}

// A process that is stopped while it writes a new file, and has no lock any more when it goes on, leaves the file of
// another one alone.
func TestAStoppedProcessWritesIntoNoOthersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	locked := true
	other := &durable.Copies{Disk: durable.OS{}, Path: path, Locked: func() bool { return true }}
	stopped := &durable.Copies{Path: path, Locked: func() bool { return locked },
		Disk: stoppedBefore(durable.OS{}, "write", func() error {
			locked = false
			return other.Create(encode(2))
		})}
	if err := stopped.Create(encode(1)); !errors.Is(err, durable.ErrNotLocked) {
		t.Error(err)
	}
	b, err := durable.ReadFile(other.File())
	if err != nil || !other.File().Is(path) {
		t.Fatal(err)
	}
	if n, damaged, err := durable.Recover(b, decode); n != 2 || damaged != nil || err != nil {
		t.Errorf("generation %d, %v, %v", n, damaged, err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// A process that is stopped after it renamed its new file takes no file for its own that another one has put there,
// though the lock is back.
func TestAFileFoundAfterTheRenameMayBeAnothers(t *testing.T) {
	disk := &crashdisk.Disk{}
	free := func() bool { return true }
	other := &durable.Copies{Disk: disk, Path: "record", Locked: free}
	stopped := &durable.Copies{Path: "record", Locked: free, Disk: stoppedBefore(disk, "syncdir", func() error {
		return other.Create(encode(2))
	})}
	if err := stopped.Create(encode(1)); err == nil || stopped.File() != nil {
		t.Errorf("created, %v", err)
	}
	if err := stopped.Update(encode(3)); err == nil {
		t.Error("updated")
	}
	if n, damaged, err := durable.Recover(disk.Read("record"), decode); n != 2 || damaged != nil || err != nil {
		t.Errorf("generation %d, %v, %v", n, damaged, err)
	}
}

// On a full disk, too, a record that is another's by now is left alone.
func TestAnothersRecordIsNotOverwrittenOnAFullDisk(t *testing.T) {
	disk, others := &crashdisk.Disk{}, errors.New("another's")
	disk.Write("record", []byte(strings.Repeat(string(encode(2)), 2)))
	disk.Fault = func(op string) error {
		if strings.HasPrefix(op, "write record.tmp") {
			return syscall.ENOSPC
		}
		return nil
	}
	c := &durable.Copies{Disk: disk, Path: "record", Log: slog.New(slog.DiscardHandler), MayOverwrite: mayOverwrite,
		Locked: func() bool { return true }, Succeed: func() error { return others }}
	if err := c.Create(encode(3)); !errors.Is(err, others) {
		t.Error(err)
	}
	if n, damaged, err := durable.Recover(disk.Read("record"), decode); n != 2 || damaged != nil || err != nil {
		t.Errorf("generation %d, %v, %v", n, damaged, err)
	}
}
