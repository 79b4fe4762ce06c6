package stores

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	counterredis "github.com/katsubushi/katsubushi/v3/counter/redis"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/counter/sql"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// Counters are the settings of the store of sequences.
type Counters struct {
	URL          string       // SCHEME://...; empty or "file" = a directory in Dir
	Dir          string       // the state directory; empty = there is none
	DirByDefault bool         // nobody has named Dir, nor given a URL
	AnyDisk      bool         // accept a Dir on a file system, or a database, that may forget what it has synced
	PasswordFile string       // has the password of the URL's user; for stores that want one
	OpenRecords  int          // how many records in files may stay open, see Descriptors; a few in any case
	Operator     bool         // a human asks, who may say that there never was a sequence
	Log          *slog.Logger // default none
}

// A CounterStore is what daemons and operators use.
type CounterStore interface {
	counter.Store
	counter.Admin
}

// A counterKind is a kind of store of sequences.
type counterKind struct {
	schemes []string // of its URLs
	// of package problem, or about the URL; rest is what follows SCHEME://, or empty
	check   func(c Counters, rest string) error
	secrets func(c Counters) error // reads the files that hold secrets; nil = there are none
	open    func(c Counters, rest string) (CounterStore, error)
	strict  bool // it keeps order=strict
	users   bool // it keeps users too, as users.Keys
	// it may lose writes, and says why it cannot keep a sequence; nil = it loses none
	lossy func(counter.Definition) error
}

// counterKinds is the table of stores of sequences. A new one is a folder in counter and a line here.
var counterKinds = []counterKind{
	{[]string{"file"}, checkCounterFile, nil, openCounterFile, true, false, nil},
	{[]string{"etcd", "etcds"}, checkCounterEtcd, readEtcdSecrets, openCounterEtcd, true, true, nil},
	{counterredis.Schemes(), checkCounterRedis, readRedisSecrets, openCounterRedis, false, false, line.Check},
	{sql.Schemes(), checkCounterSQL, readSQLSecrets, openCounterSQL, false, false, nil},
}

func ofEtcd(c Counters) etcd.Config {
	return etcd.Config{URL: c.URL, PasswordFile: c.PasswordFile, Log: c.Log}
}

func checkCounterEtcd(c Counters, _ string) error { return ofEtcd(c).Validate() }

func readEtcdSecrets(c Counters) error { return ofEtcd(c).ReadSecrets() }

func openCounterEtcd(c Counters, _ string) (CounterStore, error) {
	s, err := etcd.Open(ofEtcd(c))
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

func ofSQL(c Counters) sql.Config {
	return sql.Config{URL: c.URL, PasswordFile: c.PasswordFile, Lax: c.AnyDisk, Operator: c.Operator, Log: c.Log}
}

func checkCounterSQL(c Counters, _ string) error { return ofSQL(c).Validate() }

func readSQLSecrets(c Counters) error { return ofSQL(c).ReadSecrets() }

func openCounterSQL(c Counters, _ string) (CounterStore, error) {
	s, err := sql.Open(ofSQL(c))
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

func ofRedisCounters(c Counters) counterredis.Config {
	return counterredis.Config{URL: c.URL, PasswordFile: c.PasswordFile, Operator: c.Operator}
}

func checkCounterRedis(c Counters, rest string) error {
	scheme, _, _ := strings.Cut(c.URL, "://")
	var problems problem.List
	if err := checkHosts(scheme, rest); err != nil {
		problems.Add("URL", "%w", err)
		return problems.Err()
	}
	return ofRedisCounters(c).Validate()
}

func readRedisSecrets(c Counters) error { return ofRedisCounters(c).ReadSecrets() }

func openCounterRedis(c Counters, rest string) (CounterStore, error) {
	if err := checkCounterRedis(c, rest); err != nil {
		return nil, err
	}
	s, err := counterredis.Open(ofRedisCounters(c))
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

// ErrNoPlace is the error of sequences without a place to record them.
var ErrNoPlace = errors.New("there is no place to record it: -state-dir DIRECTORY gives one, or -counters " +
	"file:///DIRECTORY")

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

// FileDirectory returns the directory that the URL names for the files of sequences; "" = it names none.
func (c Counters) FileDirectory() string {
	if i, rest, err := c.find(); err == nil && counterKinds[i].schemes[0] == "file" {
		return rest
	}
	return ""
}

func checkCounterFile(c Counters, rest string) error {
	if rest != "" && !filepath.IsAbs(rest) {
		var problems problem.List
		problems.Add("URL",
			"file:///DIRECTORY is allowed, with three slashes, or file for a directory in the state directory")
		return problems.Err()
	}
	return nil
}

func openCounterFile(c Counters, rest string) (CounterStore, error) {
	dir := counterDir(c, rest)
	if dir == "" {
		return nil, ErrNoPlace
	}
	return file.Open(file.Config{Dir: dir, AnyDisk: c.AnyDisk, Log: c.Log, Open: c.OpenRecords})
}

// find returns the line of the table, as its place, and what follows the scheme.
func (c Counters) find() (i int, rest string, err error) {
	if c.URL == "" {
		return 0, "", nil
	}
	scheme, rest, ok := strings.Cut(c.URL, "://")
	var names []string
	for i, k := range counterKinds {
		if slices.Contains(k.schemes, scheme) && (ok && rest != "" || c.URL == "file") {
			return i, rest, nil
		}
		for _, name := range k.schemes {
			names = append(names, name+"://...")
		}
	}
	return 0, "", fmt.Errorf("file, or %s, allowed", strings.Join(names, ", "))
}

// Validate returns what is wrong with the settings, as an error of package problem. It does no I/O.
func (c Counters) Validate() error {
	var problems problem.List
	i, rest, err := c.find()
	if err != nil {
		problems.Add("URL", "%w", err)
		return problems.Err()
	}
	k := counterKinds[i]
	problems.Include("", k.check(c, rest))
	if c.PasswordFile != "" && k.secrets == nil {
		problems.Add("PasswordFile", "belongs to a store that wants a password, and %s wants none", k.schemes[0])
	}
	return problems.Err()
}

// ReadSecrets reads the files that hold secrets. Its error has the same form as Validate's.
func (c Counters) ReadSecrets() error {
	if i, _, err := c.find(); err == nil && counterKinds[i].secrets != nil {
		return counterKinds[i].secrets(c)
	}
	return nil
}

// CheckDefinition returns why the store cannot keep a sequence as it is defined, or nil.
func (c Counters) CheckDefinition(d kinds.Definition) error {
	i, _, err := c.find()
	if err != nil || d.Kind != kinds.Sequence {
		return nil // Validate reports it
	}
	k := counterKinds[i]
	var errs []error
	if d.Strict && !k.strict {
		errs = append(errs, fmt.Errorf("order=strict: in %s nothing elects the one daemon that issues: record it with "+
			"-counters file or etcd://..., or leave order=free", k.schemes[0]))
	}
	if k.lossy != nil {
		errs = append(errs, k.lossy(Recorded(d)))
	} else if d.Rate != 0 || d.RefuseLoss {
		errs = append(errs, fmt.Errorf("rate= and on-loss= are for stores that may lose what they have confirmed, such as "+
			"redis://; %s does not", k.schemes[0]))
	}
	if c.leaf() {
		errs = append(errs, sql.CheckLeaf(Recorded(d)))
	}
	return errors.Join(errs...)
}

// leaf reports whether the store is Leaf's table.
func (c Counters) leaf() bool { return ofSQL(c).Leaf() }

// CheckRetire returns why no sequence can be retired in the store, or nil.
func (c Counters) CheckRetire() error {
	if c.leaf() {
		return Conflict{sql.ErrNoRetire}
	}
	return nil
}

// AfterRaise says what becomes of smaller values after Raise. late is what Confirm returned.
func (c Counters) AfterRaise(late []string) string {
	scheme, _, _ := strings.Cut(c.URL, "://")
	switch {
	case c.leaf():
		return "is granted any more; running daemons and Leaf servers first issue what they hold, so restart them"
	case slices.Contains(sql.Schemes(), scheme): // no row names the daemons
		return "is issued any more; daemons that reach the database drop theirs within a second and need no restart. " +
			"The database does not know its daemons: restart each that is stopped, or cut off from it, before it serves again"
	}
	if len(late) > 0 {
		return "is granted any more; the daemons that are named here may still issue smaller ones"
	}
	if c.Files() { // where an earlier version does not sign in
		return "is issued any more; every daemon that runs and is of this version or later has confirmed it. " +
			"One of an earlier version does not: while it runs it drops smaller ones within a second"
	}
	return "is issued any more; every daemon that runs has confirmed it"
}

// KeepsUsers reports whether the store keeps users too.
func (c Counters) KeepsUsers() bool {
	i, _, err := c.find()
	return err == nil && counterKinds[i].users
}

// Files reports whether sequences are files, which may be copied from another machine and adopted.
func (c Counters) Files() bool {
	i, _, err := c.find()
	return err == nil && i == 0
}

// Elects reports whether daemons agree in the store on who leads the sequences with order=strict.
func (c Counters) Elects() bool {
	i, _, err := c.find()
	return err == nil && slices.Contains(counterKinds[i].schemes, "etcd")
}

// Nowhere reports whether there is no place to record sequences: then there can be none.
func (c Counters) Nowhere() bool {
	_, rest, err := c.find()
	return err == nil && c.Files() && counterDir(c, rest) == ""
}

// Descriptors returns how many of so many files the store may hold open, if it keeps sequences in files: those
// in its directory, and those that are declared. The records share a part of the files; locks are those of
// sequences with order=strict, each of which is held for life.
func (c Counters) Descriptors(declared []kinds.Definition, files int) (records, locks int) {
	_, rest, err := c.find()
	if err != nil || !c.Files() || counterDir(c, rest) == "" {
		return 0, 0
	}
	all := file.Recorded(counterDir(c, rest))
	for _, d := range declared {
		if d.Kind == kinds.Sequence {
			all[d.Name] = all[d.Name] || d.Strict
		}
	}
	for _, strict := range all {
		if strict {
			locks++
		}
	}
	return min(len(all), max((files-locks)/recordShare, file.LeastOpen)), locks
}

// recordShare is the part of all files, one in so many, that may be records that stay open. A sequence beyond
// that costs a rename and a sync of the directory more whenever a block of it is reserved. With a larger part, a
// user who may create sequences could take most connections from the next start.
const recordShare = 4

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
	return counter.Definition{Name: d.Name, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max, Batch: d.Batch,
		Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
}

// Declared returns the definition that Recorded made d of.
func Declared(d counter.Definition) kinds.Definition {
	return kinds.Definition{Name: d.Name, Kind: kinds.Sequence, Start: d.Start, Step: d.Step, Offset: d.Offset, Max: d.Max,
		Batch: d.Batch, Strict: d.Strict, Rate: d.Rate, RefuseLoss: d.RefuseLoss}
}

// A DifferentError is returned for a definition that is not the one in the store.
type DifferentError struct {
	Recorded counter.Definition // in the store
	Given    kinds.Definition
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("the definition %q is not what is recorded, %q: a sequence never changes; give it another name, "+
		"or the definition that is recorded",
		e.Given, Declared(e.Recorded))
}

// Compare returns a *DifferentError unless a definition is that of a record. Batch may differ.
func Compare(given kinds.Definition, r counter.Record) error {
	if r.Same(Recorded(given)) {
		return nil
	}
	return &DifferentError{r.Definition, given}
}
