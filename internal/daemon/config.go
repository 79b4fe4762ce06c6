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
	"github.com/katsubushi/katsubushi/v3/internal/names"
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
	// Busy is called a few times a second while the HTTP or the gRPC port has more than 1,000 requests a second; nil =
	// nobody need know.
	Busy func()

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

	Names

	// Inherited is what another process has opened for this one; nil = nothing.
	Inherited *handover.Inherited
}

// Front says where clients ask, and which may.
type Front = front.Config

// Names says which names are declared. New fills in its Own.
type Names = names.Config

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
	c.readForwarding(problems.Add)
	c.Names = c.names()
	problems.Include("", c.Names.ReadSecrets())
	if flag, file := c.DeclaresStrict(); c.Counters.Elects() && !flag && file {
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
			Announces: s.Announces(), Compares: s.Compares(), Fingerprint: s.Fingerprint(), Pool: s.Pool,
		}
	}
	if !c.unreachable() {
		w.Peers.Address = c.ownAddress
	}
	w.Peers.TLS, w.Peers.Version = c.TLSCert != "" && c.Sock == "", c.Version
	return w
}

// names returns the settings of what is declared.
func (c *Config) names() names.Config {
	n := c.Names
	n.Own = names.Lanes{
		Layout: c.Layout, RunAhead: c.MaxRunAhead, MaxWorker: slices.Max(append([]uint64{0}, c.WorkerIDs...)),
		NoDirectory: !c.StateDirByDefault,
	}
	if c.leased() {
		n.Own.MaxWorker = c.Store.Max
	}
	return n
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
	if c.ShutdownDelay < 0 || c.ShutdownDelay > time.Hour {
		wrong("ShutdownDelay", "%v: 0s to %v allowed", c.ShutdownDelay, time.Hour)
	}
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
	n := c.names()
	problems.Include("", n.Validate())
	sockets.Clashes(c.places(), wrong)
	return problems.Err()
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
