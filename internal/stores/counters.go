package stores

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// Counters are the settings of the store of sequences.
type Counters struct {
	URL          string       // SCHEME://...; empty or "file" = a directory in Dir
	Dir          string       // the state directory; empty = there is none
	DirByDefault bool         // nobody has named Dir, nor given a URL
	AnyDisk      bool         // accept a Dir on a file system that may forget what it has synced
	Log          *slog.Logger // default none
}

// A CounterStore is what daemons and operators use.
type CounterStore interface {
	counter.Store
	counter.Admin
}

// counterKinds is the table of stores of sequences. A new one is a folder in counter and a line here.
var counterKinds = []struct {
	scheme string
	check  func(c Counters, rest string) error // rest is what follows SCHEME://, or empty
	open   func(c Counters, rest string) (CounterStore, error)
}{
	{"file", checkCounterFile, openCounterFile},
}

// ErrNoPlace is the error of sequences without a place to record them.
var ErrNoPlace = errors.New("there is no place to record it: -state-dir DIRECTORY gives one, or -counters file:///DIRECTORY")

// counterDir returns the directory of the files of sequences, or "".
func counterDir(c Counters, rest string) string {
	if rest != "" {
		return rest
	}
	if c.Dir == "" {
		return ""
	}
	return filepath.Join(c.Dir, "sequences")
}

func checkCounterFile(c Counters, rest string) error {
	if rest != "" && !filepath.IsAbs(rest) {
		return errors.New("file:///DIRECTORY is allowed, with three slashes, or file for a directory in the state directory")
	}
	return nil
}

func openCounterFile(c Counters, rest string) (CounterStore, error) {
	dir := counterDir(c, rest)
	if dir == "" {
		return nil, ErrNoPlace
	}
	return file.Open(file.Config{Dir: dir, AnyDisk: c.AnyDisk, Log: c.Log})
}

// find returns the line of the table, as its place, and what follows the scheme.
func (c Counters) find() (i int, rest string, err error) {
	if c.URL == "" {
		return 0, "", nil
	}
	scheme, rest, ok := strings.Cut(c.URL, "://")
	var names []string
	for i, k := range counterKinds {
		if k.scheme == scheme && (!ok || rest != "") {
			return i, rest, nil
		}
		names = append(names, k.scheme)
	}
	return 0, "", fmt.Errorf("%s, or %s://..., allowed", strings.Join(names, ", "), strings.Join(names, "://..., "))
}

// Validate returns what is wrong with the settings, as an error of package problem. It does no I/O.
func (c Counters) Validate() error {
	var problems problem.List
	i, rest, err := c.find()
	if err == nil {
		err = counterKinds[i].check(c, rest)
	}
	if err != nil {
		problems.Add("URL", "%w", err)
	}
	return problems.Err()
}

// Nowhere reports whether there is no place to record sequences: then there can be none.
func (c Counters) Nowhere() bool {
	i, rest, err := c.find()
	return err == nil && counterKinds[i].scheme == "file" && counterDir(c, rest) == ""
}

// Open makes the store. Its directory need not exist.
func (c Counters) Open() (CounterStore, error) {
	i, rest, err := c.find()
	if err != nil {
		return nil, err
	}
	return counterKinds[i].open(c, rest)
}

// Recorded returns what is recorded of the definition of a sequence.
func Recorded(d kinds.Definition) counter.Definition {
	return counter.Definition{Name: d.Name, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max, Batch: d.Batch, Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
}

// Declared returns the definition that Recorded made d of.
func Declared(d counter.Definition) kinds.Definition {
	return kinds.Definition{Name: d.Name, Kind: kinds.Sequence, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max, Batch: d.Batch, Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
}

// A DifferentError is returned for a definition that is not the one in the store.
type DifferentError struct {
	Recorded counter.Definition // in the store
	Given    kinds.Definition
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("the definition %q is not what is recorded, %q: a sequence never changes; give it another name, or the definition that is recorded",
		e.Given, Declared(e.Recorded))
}

// Compare returns a *DifferentError unless a definition is that of a record. Batch may differ.
func Compare(given kinds.Definition, r counter.Record) error {
	if r.Same(Recorded(given)) {
		return nil
	}
	return &DifferentError{r.Definition, given}
}
