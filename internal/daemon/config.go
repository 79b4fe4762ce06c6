package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/users"
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
	// ComparePasswords returns what starts a process that calls users.CompareBeside; nil = passwords are
	// compared in this process.
	ComparePasswords func() *exec.Cmd

	Ports
	Bind     string      // address of the TCP ports; empty = all, IPv6 and IPv4
	UDPPort  int         // port of memcached's UDP protocol; 0 = off
	Sock     string      // path of a unix socket, used instead of the memcached port; empty = TCP
	SockMode fs.FileMode // permissions of the socket

	// Advertise is the host:port where clients reach the memcached port, see advertise.go, and the Redis
	// protocol where the Counters elect leaders, see fleet.go. Empty = Bind (or this host's address) and
	// Port.
	Advertise string

	// How this daemon logs in to the others, for values of sequences that they lead (see fleet.go) and for
	// their clocks.
	ForwardUser         string // logs in; empty = no login
	ForwardPasswordFile string // its password; read at each connection
	ForwardCA           string // PEM file of the authorities of the others' certificates; empty = the system's

	TLSCert, TLSKey string // PEM files: the engine's TCP ports speak TLS and nothing else; both or neither
	// TLSClientCA is a PEM file of the authorities that sign clients' certificates. Empty = accept
	// every client.
	TLSClientCA string
	// AuthFile names the users that may log in, see package users. Empty = no login needed, unless Users
	// is set.
	AuthFile string
	Users    string // "counters" = the users are in the counter store; empty = they are in AuthFile

	Engine string // auto, uring, epoll or net
	Loops  int    // number of event loops, each with a listener and a home lane: 1 to 1024
	// MaxConnections: connections above it get an error and are closed. The HTTP port has its own
	// limit, see HTTPConnections.
	MaxConnections int
	// MaxBufferMemory limits unfinished input and unsent output of all connections, in bytes. At
	// least MinBufferMemory; 0 = no limit.
	MaxBufferMemory int64
	IdleTimeout     time.Duration // 0 = never
	ShutdownDelay   time.Duration // between not ready and the end of accepting, so that load balancers notice
	DrainTimeout    time.Duration // for clients to read their last replies

	HTTPBind    string // address of the HTTP port; empty = Bind
	AdminBind   string // address of the admin port; empty = loopback
	EnablePprof bool   // on the debug port, beside /debug/events
	EnableStats bool   // the same

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
	Inherited *Inherited

	secrets secrets // what ReadSecrets has read
}

// secrets hold the contents of a Config's files. They are read only once at startup, because they
// may be pipes.
type secrets struct {
	tls   *server.TLS // nil = plain
	users *readUsers  // of AuthFile; nil = not read

	generators []byte // content of GeneratorsFile; nil = not read
}

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
	if c.TLSCert != "" && c.TLSKey != "" && c.secrets.tls == nil {
		t, err := server.NewTLS(c.TLSCert, c.TLSKey, c.TLSClientCA)
		c.secrets.tls = t
		problems.Include("TLS", err)
	}
	for _, p := range problem.Of(c.readUsers()) {
		problems.Add("AuthFile", "%w", p)
	}
	if c.leased() {
		problems.Include("Store.", c.storeSettings().ReadSecrets())
	}
	problems.Include("Counters.", c.Counters.ReadSecrets())
	c.readForwarding(problems.Add)
	for _, p := range problem.Of(c.readGenerators()) {
		problems.Add("GeneratorsFile", "%w", p)
	}
	if c.Counters.Elects() && !c.declaresStrict(nil) && c.declaresStrict(c.secrets.generators) {
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

// readUsers is what ReadSecrets has read of AuthFile.
type readUsers struct {
	from  users.Store
	since string
	list  []users.User
}

func (c *Config) readUsers() (err error) {
	if c.AuthFile == "" || c.secrets.users != nil {
		return nil
	}
	r := &readUsers{from: users.NewFile(c.AuthFile)}
	if r.since, r.list, err = r.from.Changes(context.Background(), ""); err == nil {
		c.secrets.users = r
	}
	return err
}

// hasLogins reports whether clients must log in.
func (c *Config) hasLogins() bool { return c.AuthFile != "" || c.Users != "" }

func (c *Config) validateUsers(wrong func(field, format string, args ...any)) {
	switch {
	case c.Users == "":
	case c.Users != "counters":
		wrong("Users", "%q: counters allowed, which means the store of -counters", c.Users)
	case c.Counters.Validate() == nil && !c.Counters.KeepsUsers():
		wrong("Users", "only etcd keeps users: -counters etcd://HOST:PORT, or -auth-file instead")
	}
	if c.Users != "" && c.AuthFile != "" {
		wrong("Users", "not together with -auth-file: one of the two says who may log in")
	}
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

// validateUDP refuses settings that datagrams would bypass.
func (c *Config) validateUDP(wrong func(field, format string, args ...any)) {
	if c.AuthFile != "" {
		wrong("UDPPort", "datagrams carry no login: not together with -auth-file")
	} else if c.hasLogins() {
		wrong("UDPPort", "datagrams carry no login: not together with -users")
	}
	if c.TLSCert != "" {
		wrong("UDPPort", "datagrams are not encrypted and show no certificate: not together with -tls-cert")
	}
	if c.Sock != "" {
		wrong("UDPPort", "a unix socket is listened on instead of ports: not together with -sock")
	}
}

// Validate finds everything that is wrong with the fields, alone and together. The error is of
// package problem. It reads no files; see ReadSecrets.
func (c *Config) Validate() error {
	var problems problem.List
	wrong := problems.Add
	host := func(field, v string) {
		if _, err := netip.ParseAddr(v); err != nil && strings.ContainsAny(v, ":/ ") {
			wrong(field, "%q: an address or a name without a port is allowed", v)
		}
	}
	w := c.windows()
	problems.Include("", w.Validate())
	if c.leased() {
		problems.Include("Store.", c.storeSettings().Validate())
	}
	problems.Include("Counters.", c.Counters.Validate())
	c.validateLimits(wrong)
	if c.UDPPort != 0 {
		c.validateUDP(wrong)
	}
	c.validateUsers(wrong)
	if c.Advertise != "" {
		if err := checkAdvertise(c.Advertise); err != nil {
			wrong("Advertise", "%w", err)
		}
	}
	c.validateFleet(wrong)
	c.validateTLS(wrong)
	if _, _, err := engines.Choose(c.Engine); err != nil {
		wrong("Engine", "%w", err)
	}
	if c.SockMode&^fs.ModePerm != 0 {
		wrong("SockMode", "%#o: 0 to 0777 allowed", uint32(c.SockMode))
	}
	host("Bind", c.Bind)
	host("HTTPBind", c.HTTPBind)
	host("AdminBind", c.AdminBind)
	if c.AdminPort != 0 && !c.hasLogins() {
		wrong("admin-port", "there are no users, and one with the right admin is needed: -auth-file or -users says where "+
			"they are")
	}
	if err := sockets.CheckPath(c.Sock); err != nil {
		wrong("Sock", "%w", err)
	}
	_, flags, _ := c.definitions(nil, nil)
	for _, p := range problem.Of(flags) {
		wrong("Generators", "%w", p)
	}
	c.validatePorts(wrong)
	return problems.Err()
}

// validateLimits checks the numbers and times that are wrong by themselves.
func (c *Config) validateLimits(wrong func(field, format string, args ...any)) {
	within := func(field string, v, lo, hi int) {
		if v < lo || v > hi {
			wrong(field, "%d: %d to %d allowed", v, lo, hi)
		}
	}
	duration := func(field string, v, hi time.Duration) {
		if v < 0 || v > hi {
			wrong(field, "%v: 0s to %v allowed", v, hi)
		}
	}
	const year = 365 * 24 * time.Hour
	duration("MaxWait", c.MaxWait, time.Minute)
	duration("IdleTimeout", c.IdleTimeout, year)
	duration("ShutdownDelay", c.ShutdownDelay, time.Hour)
	duration("DrainTimeout", c.DrainTimeout, time.Hour)
	within("UDPPort", c.UDPPort, 0, 65535)
	within("Loops", c.Loops, 1, 1024)
	within("MaxConnections", c.MaxConnections, 1, 1<<30)
	if c.MaxBufferMemory != 0 && (c.MaxBufferMemory < MinBufferMemory || c.MaxBufferMemory > maxBufferMemory) {
		wrong("MaxBufferMemory", "%d bytes: %d MiB to %d GiB allowed, or 0 for no limit", c.MaxBufferMemory,
			MinBufferMemory>>20, maxBufferMemory>>30)
	}
}

func (c *Config) validateTLS(wrong func(field, format string, args ...any)) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		wrong(map[bool]string{true: "TLSCert", false: "TLSKey"}[c.TLSCert == ""], "a certificate and its key go together")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		wrong("TLSClientCA", "clients show certificates only to a server that has one: set the certificate and its key too")
	}
}
