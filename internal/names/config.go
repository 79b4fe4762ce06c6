package names

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// Config says which names there are, and where sequences are recorded. A zero field means zero, not a default, unless
// its comment says otherwise.
type Config struct {
	// Definitions are definition lines, see package kinds, separated by line feeds or semicolons.
	Definitions string
	// DefinitionsFile has more of them; Reload reads it again. Empty = none.
	DefinitionsFile string
	// Counters is where sequences are recorded. New sets its AnyDisk and Log.
	Counters stores.Counters
	// MaxWait is how long a client waits for a value of a sequence whose store does not answer: 0 to 1
	// minute.
	MaxWait time.Duration
	// RefuseUnknown: keys that are neither declared nor reserved (see kinds.Reserved) get no ids.
	RefuseUnknown bool
	// Own is what the daemon's own ids are made of: those of names must fit it.
	Own Lanes

	text []byte // content of DefinitionsFile, which ReadSecrets has read, because it may be a pipe; nil = not read
}

// Lanes is what a definition must fit. The daemon fills it in.
type Lanes struct {
	Layout    generator.Layout
	RunAhead  time.Duration
	MaxWorker uint64 // the largest worker id that there may be
	// NoDirectory: no setting names the state directory, and worker ids are leased. If it cannot be used, the daemon
	// does without sequences.
	NoDirectory bool
}

// Given is what the room gets from the others. Any goroutine may call its functions.
type Given struct {
	Log    *slog.Logger
	Issuer *issuer.Issuer
	Now    func() int64 // the id clock, Unix ms
	// NextSecond returns how long it is until what is to be done each second should be; nil = a second.
	NextSecond func() time.Duration
	Wake       func() // tells those at the ports to ask again who got id.ErrWait
	AnyDisk    bool   // see stores.Counters
	// Forwarder makes a client of the other daemons.
	Forwarder func() *forward.Client
	// Hidden: not every user may know what the next ids are, so metrics do not tell the last ones.
	Hidden bool
	// Succeeds: another process goes on if this one cannot start.
	Succeeds bool
	// Unreachable: this daemon was meant to lead sequences, and has no address to tell the others.
	Unreachable bool
}

// Validate finds everything that is wrong with the fields, alone and together. The error is of package problem. It
// reads no files; see ReadSecrets.
func (c *Config) Validate() error {
	var problems problem.List
	problems.Include("Counters.", c.Counters.Validate())
	if c.MaxWait < 0 || c.MaxWait > time.Minute {
		problems.Add("MaxWait", "%v: 0s to %v allowed", c.MaxWait, time.Minute)
	}
	_, flags, _ := c.definitions(nil, nil)
	for _, p := range problem.Of(flags) {
		problems.Add("Definitions", "%w", p)
	}
	return problems.Err()
}

// ReadSecrets reads the files that the fields name. Its error describes what is wrong with them, like Validate's. Open
// does not read again what ReadSecrets could read.
func (c *Config) ReadSecrets() error {
	var problems problem.List
	problems.Include("Counters.", c.Counters.ReadSecrets())
	for _, p := range problem.Of(c.readFile()) {
		problems.Add("DefinitionsFile", "%w", p)
	}
	return problems.Err()
}

// readFile reads the file of definitions, unless it was read already.
func (c *Config) readFile() error {
	if c.DefinitionsFile == "" || c.text != nil {
		return nil
	}
	text, err := kinds.ReadFile(c.DefinitionsFile)
	if err != nil {
		return err
	}
	if _, _, err := c.definitions(text, nil); err != nil {
		return err
	}
	c.text = append([]byte{}, text...) // not nil, even if the file is empty
	return nil
}

// Defined returns the definitions of the flags, and of the file if ReadSecrets has read it.
func (c *Config) Defined() []kinds.Definition {
	all, _, _ := c.definitions(c.text, nil)
	return all
}

// definitions returns the definitions of the flags, then those of the file's content, with all that is
// wrong with each of the two. also checks what check does not; nil = nothing.
func (c *Config) definitions(file []byte, also func(kinds.Definition) error) (all []kinds.Definition, flags,
	inFile error) {
	list := kinds.List{Check: func(def kinds.Definition) error {
		err := c.check(def)
		if also != nil {
			err = errors.Join(err, also(def))
		}
		return err
	}}
	flags = list.Add(c.Definitions)
	inFile = list.AddFile(file)
	return list.All(), flags, inFile
}

// check says why this daemon cannot serve a definition.
func (c *Config) check(def kinds.Definition) error {
	if c.Own.Layout.Check() != nil { // told already; what fits into it is not known
		return nil
	}
	if def.Recorded() {
		return errors.Join(c.checkNode(def), c.checkSequence(def))
	}
	var tooLarge error
	l, most := issuer.LayoutOf(def, c.Own.Layout), c.Own.MaxWorker
	if def.Kind == kinds.Snowflake && most > l.MaxWorker() {
		tooLarge = fmt.Errorf("worker ids go up to %d: layout %s has 0 to %d", most, l, l.MaxWorker())
	}
	return errors.Join(tooLarge, issuer.CheckKind(def, c.Own.Layout, c.Own.RunAhead))
}

func (c *Config) checkSequence(def kinds.Definition) error {
	if c.Counters.Nowhere() {
		return stores.ErrNoPlace
	}
	return c.Counters.CheckDefinition(def)
}

// DeclaresStrict reports whether a flag defines a sequence with order=strict, or the file, if ReadSecrets has read it.
func (c *Config) DeclaresStrict() (flag, file bool) {
	if c.Own.Layout.Check() != nil { // snowflakes need it
		return false, false
	}
	strict := func(text []byte) bool {
		all, _, _ := c.definitions(text, nil)
		return slices.ContainsFunc(all, func(def kinds.Definition) bool { return def.Recorded() && def.Strict })
	}
	return strict(nil), strict(c.text)
}

// SequenceDescriptors returns how many of so many files the sequences may hold open: records, which
// Counters.OpenRecords bounds, and locks. ReadSecrets must have read what declares some.
func (c *Config) SequenceDescriptors(files int) (records, locks int) {
	return c.Counters.Descriptors(c.Defined(), files)
}
