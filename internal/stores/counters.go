package stores

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/counter/redis"
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
	Operator     bool         // a human asks, who can wait, and may say that there never was a sequence
	Log          *slog.Logger // default none
}

// A CounterStore is what daemons and operators use.
type CounterStore interface {
	counter.Store
	counter.Admin
}

// A ledger is how to use one kind of store of sequences.
type ledger struct {
	ledgerConfig
	open func() (CounterStore, error)
}

// A ledgerConfig is the settings of one kind of store. Its errors are of package problem, and name the fields of
// Counters.
type ledgerConfig interface {
	Validate() error    // returns everything that is wrong; reads no file
	ReadSecrets() error // reads the files that hold secrets
}

func ledgerOf[C ledgerConfig, S CounterStore](c C, open func(C) (S, error)) ledger {
	return ledger{c, func() (CounterStore, error) {
		s, err := open(c)
		if err != nil {
			return nil, err // not a nil *Store in an interface
		}
		return s, nil
	}}
}

// humanPatience is how long one attempt to reach etcd may take where a human asks, who would only ask again. A daemon
// has other members to ask, and clients that wait.
const humanPatience = 5 * time.Second

func sequencesOfEtcd(c Counters) etcd.Config {
	e := etcd.Config{URL: c.URL, PasswordFile: c.PasswordFile}
	if c.Operator {
		e.Timeout = humanPatience
	}
	return e
}

func inEtcd(c Counters) ledger { return ledgerOf(sequencesOfEtcd(c), etcd.Open) }

func ofSQL(c Counters) sql.Config {
	return sql.Config{URL: c.URL, PasswordFile: c.PasswordFile, Lax: c.AnyDisk, Operator: c.Operator}
}

func inSQL(c Counters) ledger { return ledgerOf(ofSQL(c), sql.Open) }

func inRedis(c Counters) ledger {
	return ledgerOf(redis.Config{URL: c.URL, PasswordFile: c.PasswordFile, Operator: c.Operator}, redis.Open)
}

func inFiles(c Counters) ledger { return ledgerOf(fileCounters{c}, fileCounters.open) }

// ErrNoPlace is the error of sequences without a place to record them.
var ErrNoPlace = errors.New("there is no place to record it: give -state-dir DIRECTORY or -counters " +
	"file:///DIRECTORY")

// fileCounters are the settings of sequences in files.
type fileCounters struct{ Counters }

// directory returns that of the files, or "".
func (f fileCounters) directory() string {
	if dir, ok := strings.CutPrefix(f.URL, "file://"); ok {
		return dir
	}
	if f.Dir == "" {
		return ""
	}
	return filepath.Join(f.Dir, "sequences")
}

func (f fileCounters) Validate() error {
	var problems problem.List
	if f.URL != "" && f.URL != "file" && !filepath.IsAbs(f.directory()) {
		problems.Add("URL",
			"file:///DIRECTORY is allowed, with three slashes, or file for a directory in the state directory")
	}
	if f.PasswordFile != "" {
		problems.Add("PasswordFile", "belongs to a store that wants a password, and file wants none")
	}
	return problems.Err()
}

func (fileCounters) ReadSecrets() error { return nil }

func (f fileCounters) open() (*file.Store, error) {
	dir := f.directory()
	if dir == "" {
		return nil, ErrNoPlace
	}
	return file.Open(file.Config{Dir: dir, AnyDisk: f.AnyDisk, Log: f.Log, Open: f.OpenRecords})
}

// FileDirectory returns the directory that the URL names for the files of sequences; "" = it names none.
func (c Counters) FileDirectory() string {
	if !c.Files() || c.URL == "" || c.URL == "file" {
		return ""
	}
	return fileCounters{c}.directory()
}

func (c Counters) find() (*kind, error) {
	if c.URL == "" || c.URL == "file" {
		return &kindsOfStores[0], nil
	}
	k, err := find(c.URL, func(k *kind) bool { return k.sequences != nil })
	if err != nil {
		return nil, fmt.Errorf("%w; file alone is allowed too", err)
	}
	return k, nil
}

// Validate returns what is wrong with the settings, as an error of package problem. It does no I/O.
func (c Counters) Validate() error {
	k, err := c.find()
	if err != nil {
		var problems problem.List
		problems.Add("URL", "%w", err)
		return problems.Err()
	}
	return k.sequences(c).Validate()
}

// ReadSecrets reads the files that hold secrets. Its error has the same form as Validate's.
func (c Counters) ReadSecrets() error {
	if k, err := c.find(); err == nil {
		return k.sequences(c).ReadSecrets()
	}
	return nil
}

// CheckDefinition returns why the store cannot keep a sequence as it is defined, or nil.
func (c Counters) CheckDefinition(d kinds.Definition) error {
	k, err := c.find()
	if err != nil || !d.Recorded() {
		return nil // Validate reports it
	}
	var errs []error
	scheme, _, _ := strings.Cut(c.URL, ":")
	scheme = cmp.Or(scheme, k.schemes[0])
	if d.Strict && !k.strict {
		errs = append(errs, fmt.Errorf("order=strict: in %s nothing elects the one daemon that issues: record it with "+
			"-counters file or etcd://..., or leave order=free", scheme))
	}
	if k.lossy != nil {
		errs = append(errs, k.lossy(d.Definition))
	} else if d.Rate != 0 || d.RefuseLoss {
		errs = append(errs, fmt.Errorf("rate= and on-loss= are for stores that may lose what they have confirmed, such as "+
			"redis://; %s does not", scheme))
	}
	if c.leaf() {
		errs = append(errs, sql.CheckLeaf(d.Definition))
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
	k, err := c.find()
	switch {
	case c.leaf():
		return "is granted any more; running daemons and Leaf servers first issue what they hold, so restart them"
	case err == nil && k.name == database: // no row names the daemons
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
	k, err := c.find()
	return err == nil && k.users
}

// Files reports whether sequences are files, which may be copied from another machine and adopted.
func (c Counters) Files() bool {
	k, err := c.find()
	return err == nil && k == &kindsOfStores[0]
}

// Elects reports whether daemons agree in the store on who leads the sequences with order=strict.
func (c Counters) Elects() bool {
	k, err := c.find()
	return err == nil && k.strict && !c.Files()
}

// Nowhere reports whether there is no place to record sequences: then there can be none.
func (c Counters) Nowhere() bool {
	return c.Files() && fileCounters{c}.directory() == ""
}

// Descriptors returns how many of so many files the store may hold open, if it keeps sequences in files: those
// in its directory, and those that are declared. The records share a part of the files; locks are those of
// sequences with order=strict, each of which is held for life.
func (c Counters) Descriptors(declared []kinds.Definition, files int) (records, locks int) {
	if !c.Files() || c.Nowhere() {
		return 0, 0
	}
	all := file.Recorded(fileCounters{c}.directory())
	for _, d := range declared {
		if d.Recorded() {
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
	k, err := c.find()
	if err != nil {
		return nil, err
	}
	return k.sequences(c).open()
}
