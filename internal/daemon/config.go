package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/handover"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/services"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// Windows are the settings of the room that holds the right to issue.
type Windows = windows.Config

// Config holds all settings of a Daemon. A zero field means zero, not a default, unless its comment
// says otherwise.
type Config struct {
	Version string // N.N.N, first number not 0: memcached's clients parse it
	Log     *slog.Logger
	// LogDropped returns how many lines Log has lost so far; nil = it loses none. Any goroutine may
	// call it.
	LogDropped func() uint64

	// Windows are the lanes and what records their windows. New fills in its Store, Peers and callbacks.
	Windows
	// Store is where worker ids are leased if its URL is set. New fills in its Layout, Now and Log.
	Store stores.Settings

	Front
	Services

	// Advertise is the host:port where clients reach the memcached port, and the Redis
	// protocol where the Counters elect leaders, see fleet.go. Empty = Bind (or this host's address) and
	// Port.
	Advertise string

	// How this daemon logs in to the others, for values of sequences that they lead (see fleet.go) and for
	// their clocks.
	ForwardUser         string // logs in; empty = no login
	ForwardPasswordFile string // its password; read at each connection
	ForwardCA           string // PEM file of the authorities of the others' certificates; empty = the system's

	ShutdownDelay time.Duration // between not ready and the end of accepting, so that load balancers notice

	// Generators are definition lines, see package kinds, separated by line feeds or semicolons.
	Generators string
	// GeneratorsFile has more of them; Reload reads it again. Empty = none.
	GeneratorsFile string
	// Counters is where sequences are recorded. New sets its AnyDisk and Log.
	Counters stores.Counters
	// MaxWait is how long a client waits for a value of a sequence whose store does not answer: 0 to 1
	// minute.
	MaxWait time.Duration
	// RefuseUnknown: keys that are neither declared nor reserved (see kinds.Reserved) get no ids.
	RefuseUnknown bool

	// Inherited is what another process has opened for this one; nil = nothing.
	Inherited *handover.Inherited

	generators []byte // content of GeneratorsFile, which ReadSecrets has read, because it may be a pipe; nil = not read
}

// Front says where clients ask, and which may.
type Front = front.Config

// Services says which ports there are beside the engine's.
type Services = services.Config

// ReadSecrets reads the files that the fields name: secrets, and definitions, and looks whether
// directories are some. Its error describes what is wrong with them, like Validate's. New does not
// read again what ReadSecrets could read.
func (c *Config) ReadSecrets() error {
	var problems problem.List
	if err := notADirectory(c.StateDir); err != nil && !c.StateDirByDefault {
		problems.Add("StateDir", "%w", err)
	}
	if err := notADirectory(c.Counters.FileDirectory()); err != nil {
		problems.Add("Counters.URL", "%w", err)
	}
	problems.Include("", c.Front.ReadSecrets())
	if c.leased() {
		problems.Include("Store.", c.storeSettings().ReadSecrets())
	}
	problems.Include("Counters.", c.Counters.ReadSecrets())
	c.readForwarding(problems.Add)
	for _, p := range problem.Of(c.readGenerators()) {
		problems.Add("GeneratorsFile", "%w", p)
	}
	if c.Counters.Elects() && !c.declaresStrict(nil) && c.declaresStrict(c.generators) {
		c.validateLeader(problems.Add)
	}
	return problems.Err()
}

// notADirectory returns why a path can never be a directory: it, or what it lies in, is something else. A path that
// does not exist is made at the start.
func notADirectory(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, syscall.ENOTDIR):
		return err
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	return nil
}

// leased reports whether worker ids are leased, not fixed.
func (c *Config) leased() bool { return c.Store.URL != "" }

// storeSettings returns the settings of the store, except its clock.
func (c *Config) storeSettings() stores.Settings {
	s := c.Store
	s.Layout, s.Log, s.CAS.Addr = c.Layout.Fingerprint(), c.Log, c.Advertise
	return s
}

// windows returns the settings of the right to issue.
func (c *Config) windows() windows.Config {
	w := c.Windows
	w.Log = c.Log
	if c.leased() {
		s := c.storeSettings()
		w.Store = windows.Store{
			Open: func(now func() int64, address string) (workerid.Backend, error) {
				s := s
				s.Now, s.CAS.Addr = now, address
				return stores.Open(s)
			},
			Flag: s.Flag(), Min: s.Min, Max: s.Max, Lease: s.Lease, Heartbeat: s.Interval(), Watch: s.Watch(),
			Announces: s.Announces(), Fingerprint: s.Fingerprint(), Pool: s.Pool,
		}
	}
	if !c.unreachable() {
		w.Peers.Address = c.ownAddress
	}
	w.Peers.TLS, w.Peers.Version = c.TLSCert != "" && c.Sock == "", c.Version
	return w
}

// Validate finds everything that is wrong with the fields, alone and together. The error is of
// package problem. It reads no files; see ReadSecrets.
func (c *Config) Validate() error {
	var problems problem.List
	wrong := problems.Add
	check := func(field string, err error) {
		if err != nil {
			wrong(field, "%w", err)
		}
	}
	w := c.windows()
	problems.Include("", w.Validate())
	if c.leased() {
		problems.Include("Store.", c.storeSettings().Validate())
	}
	problems.Include("Counters.", c.Counters.Validate())
	c.validateLimits(wrong)
	problems.Include("", c.Front.Validate())
	if c.Users == "counters" && c.Counters.Validate() == nil && !c.Counters.KeepsUsers() {
		wrong("Users", "only etcd keeps users: -counters etcd://HOST:PORT, or -auth-file instead")
	}
	if c.Advertise != "" {
		check("Advertise", sockets.CheckAdvertised(c.Advertise))
	}
	c.validateFleet(wrong)
	problems.Include("", c.Services.Validate())
	if c.AdminPort != 0 && !c.HasLogins() {
		wrong("admin-port", "there are no users, and one with the right admin is needed: -auth-file or -auth-store says "+
			"where they are")
	}
	_, flags, _ := c.definitions(nil, nil)
	for _, p := range problem.Of(flags) {
		wrong("Generators", "%w", p)
	}
	sockets.Clashes(c.places(), wrong)
	return problems.Err()
}

// validateLimits checks the numbers and times that are wrong by themselves.
func (c *Config) validateLimits(wrong func(field, format string, args ...any)) {
	duration := func(field string, v, hi time.Duration) {
		if v < 0 || v > hi {
			wrong(field, "%v: 0s to %v allowed", v, hi)
		}
	}
	duration("MaxWait", c.MaxWait, time.Minute)
	duration("ShutdownDelay", c.ShutdownDelay, time.Hour)
}

// SequenceDescriptors returns how many of so many files the sequences may hold open: records, which
// Counters.OpenRecords bounds, and locks. ReadSecrets must have read what declares some.
func (c *Config) SequenceDescriptors(files int) (records, locks int) {
	all, _, _ := c.definitions(c.generators, nil)
	return c.Counters.Descriptors(all, files)
}

// places returns where the ports listen that are on, the memcached port first.
func (c *Config) places() []sockets.Place {
	return append(c.Front.Places(), c.Services.Places(c.Bind)...)
}

// SocketNames returns the names that a passed socket may have.
func SocketNames() []string {
	names := append(services.Flags(), sockets.Unix, front.PortFlag, front.RedisFlag, front.UDPFlag)
	slices.Sort(names)
	return names
}
