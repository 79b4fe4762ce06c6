package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const on, off, refuse, warn = "on", "off", "refuse", "warn"

// What Announce and PeerCheck may be.
var (
	AnnounceWords  = []string{on, off}
	PeerCheckWords = []string{refuse, warn, off}
)

// Config holds the settings of a Holder. A zero field means zero, not a default, unless its comment
// says otherwise.
type Config struct {
	Log *slog.Logger

	// WorkerIDs are fixed worker ids, one lane each, all within the layout and without duplicates.
	// Empty with a Store.
	WorkerIDs []uint64
	// Ordinal: the worker id comes from this host's name, so another host may be the next to have it.
	Ordinal bool
	// Store is where worker ids are leased if its Open is set.
	Store       Store
	Lanes       int              // number of leased worker ids: 1 to 64
	Layout      generator.Layout // must pass Check
	RandomStart bool             // see generator.Options
	MaxRunAhead time.Duration    // how far ahead of the clock ids may be issued: 0 to 1 minute

	// StateDir is where the windows of fixed worker ids are recorded. Empty = nowhere; the README says
	// what is then not promised.
	StateDir string
	AnyDisk  bool // accept a StateDir on a file system that may lose synced data
	// RuntimeDir is on tmpfs and kept between runs. It holds the last positions issued in
	// StateDir's windows. Empty = /dev/shm.
	RuntimeDir string
	// Claim: refuse to start if another process on this host has one of the worker ids. Linux only.
	Claim bool
	// StateDirByDefault: the user has neither named the StateDir nor said that there is to be none. If
	// it is empty all the same, or no record can be kept there, Open says so and names the flag.
	StateDirByDefault bool

	// Announce is one of AnnounceWords: whether the store's other users find this program there; empty = on
	// where the store can.
	Announce string
	// PeerCheck is one of PeerCheckWords: it compares the id clock with those of the daemons that are announced.
	// refuse means to acquire no worker id at the start until it fits. Empty = refuse where the Store Compares, else off.
	PeerCheck string
	// Peers says how daemons of the pool reach each other; it matters where the store has announcements.
	Peers Peers

	// Succeeds: another process has the windows of fixed worker ids, until TakeOver is called.
	Succeeds bool
	// Ready returns why the program issues no ids, or nil. Default: what the lanes say.
	Ready func() error
	// Failed is called with each error of the Store about a new worker id, and must return at once. nil = it is not
	// called.
	Failed func(error)
	// Wake tells those to ask again who got id.ErrWait from the Issuer; nil = no client waits.
	Wake func()
}

// A Store is where worker ids are leased.
type Store struct {
	// Open opens the store; it need not answer yet. now is the id clock, Unix ms; address is where clients
	// reach this program, or "" as long as that is not known.
	Open func(now func() int64, address string) (workerid.Backend, error)
	// Flag is what its user calls it.
	Flag      string
	Min, Max  uint64        // the worker ids that may be leased
	Lease     time.Duration // length of a lease
	Heartbeat time.Duration // mean time between two extensions of a lease
	Watch     time.Duration // how long a newcomer watches the pool before it gets a worker id
	Announces bool          // its workerid.Backend is a workerid.Directory
	Compares  bool          // and the clocks of those announced there are compared by default
	// Fingerprint is what all users of the pool have in common; it is announced.
	Fingerprint string
	// Pool returns the name of the pool, for figures; nil = it has none.
	Pool func() string
}

// Peers says how other daemons of the pool reach this one, and how it asks them.
type Peers struct {
	// Address returns where clients reach this program; port 0 = Opened will tell. nil = nowhere.
	Address func() (host string, port int)
	TLS     bool // clients speak TLS there
	Version string
	// Ask is how others are asked for their clocks; its Now is filled in.
	Ask announce.Asker
}

// leased reports whether worker ids are leased, not fixed.
func (c *Config) leased() bool { return c.Store.Open != nil }

// lanes returns how many worker ids there are at once.
func (c *Config) lanes() int {
	if c.leased() {
		return c.Lanes
	}
	return len(c.WorkerIDs)
}

// tick returns the length of the layout's tick.
func (c *Config) tick() time.Duration { return time.Duration(c.Layout.Unit) * time.Millisecond }

// Reserve returns how far ahead of the clock the windows of fixed worker ids are recorded.
func (c *Config) Reserve() time.Duration { return static.Reserve(c.MaxRunAhead, c.tick()) }

// Validate finds everything that is wrong with the fields, alone and together. The error is of
// package problem. It reads no files.
func (c *Config) Validate() error {
	var problems problem.List
	wrong := problems.Add
	c.validateLayout(wrong)
	switch {
	case c.leased():
		c.validateLeases(wrong)
	case len(c.WorkerIDs) == 0:
		wrong("WorkerIDs", "none given: 0 to %d, a different one for every daemon of the fleet; or -store, to lease one",
			c.Layout.MaxWorker())
	}
	if c.MaxRunAhead < 0 || c.MaxRunAhead > time.Minute {
		wrong("MaxRunAhead", "%v: 0s to %v allowed", c.MaxRunAhead, time.Minute)
	}
	c.validatePeers(wrong)
	return problems.Err()
}

// validateLayout checks the layout, and the worker ids that it has room for.
func (c *Config) validateLayout(wrong func(field, format string, args ...any)) {
	if err := c.Layout.Check(); err != nil {
		wrong("Layout", "%w", err)
		return
	}
	c.validateTimeField(wrong)
	for i, id := range c.WorkerIDs {
		if id > c.Layout.MaxWorker() {
			wrong("WorkerIDs", "%d: 0 to %d allowed", id, c.Layout.MaxWorker())
		}
		if slices.Contains(c.WorkerIDs[:i], id) {
			wrong("WorkerIDs", "%d is there twice", id)
		}
	}
}

// validateTimeField refuses a layout in which no id can hold the present time. It does not trust
// this host's clock: after a boot it may be years behind until it is set. But the present is later
// than the day this was written, by at most a lifetime.
func (c *Config) validateTimeField(wrong func(field, format string, args ...any)) {
	const written, lifetime = 1767225600000, 100 * 365 * 24 * 3600 * 1000 // 2026; ms
	date := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	if end := c.Layout.End(); end <= written {
		wrong("Layout", "no id can be issued: the time field ended at %s", date(end))
	} else if c.Layout.Epoch > written+lifetime {
		wrong("Layout", "no id can be issued: the time field begins at %s", date(c.Layout.Epoch))
	}
}

func (c *Config) validateLeases(wrong func(field, format string, args ...any)) {
	s := &c.Store
	if len(c.WorkerIDs) > 0 {
		wrong("WorkerIDs", "with %s worker ids are leased, not given", s.Flag)
	}
	if s.Max > c.Layout.MaxWorker() {
		wrong("Store.Max", "%d: at most %d in this layout", s.Max, c.Layout.MaxWorker())
	}
	if c.Lanes < 1 || c.Lanes > 64 {
		wrong("Lanes", "%d: 1 to 64 allowed", c.Lanes)
	} else if s.Min <= s.Max && uint64(c.Lanes) > s.Max-s.Min+1 {
		wrong("Lanes", "%d: more than there are worker ids from %d to %d", c.Lanes, s.Min, s.Max)
	}
	// A window holds only whole ticks: it must contain the next tick to be issued from until the
	// next two extensions.
	if least := c.tick() + c.MaxRunAhead + 2*s.Heartbeat; c.Layout.Unit > 1 && s.Lease < least {
		wrong("Store.Lease", "%v: with ticks of %v it must be at least %v", s.Lease, c.tick(), least)
	}
}

// validatePeers checks the settings about announcements.
func (c *Config) validatePeers(wrong func(field, format string, args ...any)) {
	const only = "only stores from which worker ids are leased have a place for announcements: -store URL"
	able := c.Store.Announces
	switch c.Announce {
	case "", off:
	case on:
		if !able {
			wrong("Announce", only)
		} else if c.Peers.Address == nil {
			wrong("Announce", "a unix socket has no address for others: -advertise says where clients reach it, or leave "+
				"-sock out")
		}
	default:
		wrong("Announce", "%q: %s", c.Announce, problem.Allowed(AnnounceWords...))
	}
	switch c.PeerCheck {
	case "", off:
	case refuse, warn:
		if !able {
			wrong("PeerCheck", only)
		}
	default:
		wrong("PeerCheck", "%q: %s", c.PeerCheck, problem.Allowed(PeerCheckWords...))
	}
}

// ChecksPeers reports whether peers are asked for their clocks.
func (c *Config) ChecksPeers() bool {
	return c.Store.Announces && c.PeerCheck != off && (c.PeerCheck != "" || c.Store.Compares)
}

// checkTime says why no id can hold this Unix ms, and the likely cause.
func (c *Config) checkTime(ms int64) error {
	if err := c.Layout.CheckTime(ms); err != nil {
		return fmt.Errorf("%w: this host's clock is wrong, or -epoch", err)
	}
	return nil
}

// CheckRecord returns why the windows of worker ids cannot be recorded in the state directory, or other records in
// others. It makes no directory.
func (c *Config) CheckRecord(others ...string) error {
	err := c.checkDefault(false)
	if err == nil && len(c.WorkerIDs) > 0 && c.StateDir != "" {
		others = append(others, c.StateDir)
		err = static.Readable(c.StateDir, c.WorkerIDs, c.Layout.Fingerprint())
	}
	for _, dir := range others {
		if !c.AnyDisk && dir != "" {
			err = errors.Join(err, static.OnDisk(dir))
		}
	}
	return err
}

// checkDefault returns why the windows of worker ids cannot be recorded in the state directory by default.
// To run without a record is the user's decision. create makes a directory that is not there; without it, the
// nearest one above is tried.
func (c *Config) checkDefault(create bool) error {
	if !c.StateDirByDefault {
		return nil
	}
	err := errors.New("neither XDG_STATE_HOME nor HOME is an absolute path")
	if dir := c.StateDir; dir != "" {
		for _, gone := os.Stat(dir); !create && errors.Is(gone, fs.ErrNotExist); _, gone = os.Stat(dir) {
			dir = filepath.Dir(dir)
		}
		if err = static.Usable(dir, c.WorkerIDs, c.AnyDisk); err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", c.StateDir, err)
	}
	return fmt.Errorf("the state directory by default cannot be used: %w: name another one with -state-dir; "+
		"with -state-dir none the daemon starts without a record, "+
		"and ids repeat if the clock goes back before the next start", err)
}
