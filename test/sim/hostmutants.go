package sim

import (
	"strings"

	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The mutants of a host with a state file, besides Unfenced and Unsealed.
const (
	Unsynced  Mutant = "the disk is not asked to keep what is written"
	Forgotten Mutant = "the state file is gone after each run"
	Early     Mutant = "what is reported at the end lies before the last id"
	Unrenewed Mutant = "the nonce is not renewed"
	AnyBoot   Mutant = "the boot id is not compared"
	AnyRun    Mutant = "the word is trusted after another run"
	AnyLock   Mutant = "the word is trusted though the lock is a new file"
	AnyPage   Mutant = "the word is trusted though it is a copy"
	AnyFile   Mutant = "a state file is taken for one's own though it is a new one"
	AnyWrite  Mutant = "the word is trusted though its page was written to while it was in use"
	Wordless  Mutant = "the generator keeps its word elsewhere, and says that it does not"
)

// HostMutants is all that RunHost knows.
func HostMutants() []Mutant {
	return []Mutant{Unfenced, Unsealed, Unsynced, Forgotten, Early, Unrenewed, AnyBoot, AnyRun, AnyLock, AnyPage, AnyFile,
		AnyWrite, Wordless}
}

// unsynced is a disk whose owner trusts that what is written stays.
type unsynced struct{ *crashdisk.Disk }

type unsyncedFile struct{ static.File }

func (d unsynced) Open(path string, create bool) (static.File, error) {
	f, err := d.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) Datasync() error { return nil }

// sameNumber is a disk whose owner takes every file for the same one, so long as it has the same name.
type sameNumber struct{ *crashdisk.Disk }

type sameNumberFile struct{ static.File }

func (d sameNumber) Open(path string, create bool) (static.File, error) {
	f, err := d.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return sameNumberFile{f}, nil
}

func (sameNumberFile) ID() string { return "1" }

// sameState is a disk whose owner looks at the lock only.
type sameState struct{ *crashdisk.Disk }

type sameStateFile struct{ static.File }

func (d sameState) Open(path string, create bool) (static.File, error) {
	f, err := d.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return sameStateFile{f}, nil
}

func (f sameStateFile) Is(path string) bool {
	return strings.HasSuffix(path, ".state") || f.File.Is(path)
}

// anyWrite is memory whose owner does not see that others write to it.
type anyWrite struct{ *crashdisk.Memory }

func (anyWrite) Changed(string, string) bool { return false }

// anyRun is memory whose owner believes every page of the right name.
type anyRun struct{ *crashdisk.Memory }

func (m anyRun) Find(id, _ string) (int64, uint64, error) { return m.FindAny(id, "") }

// anyPage is memory whose owner believes every page with the right nonce.
type anyPage struct{ *crashdisk.Memory }

func (m anyPage) Find(_, nonce string) (int64, uint64, error) { return m.FindAny("", nonce) }
