package daemon

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/authfile"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// Config is everything that a Daemon is told. A field that is zero is taken at its word, not for a default, unless its comment says otherwise.
type Config struct {
	Version string // N.N.N, the first not 0: memcached's clients parse it
	Log     *slog.Logger
	// LogDropped counts the lines that Log has lost so far; nil = it loses none. It is called from any goroutine.
	LogDropped func() uint64

	WorkerIDs   []uint64         // given by hand, one lane each, each within the layout, none twice; none with a Store
	Store       stores.Settings  // where worker ids are leased if its URL is set; its Layout, Now and Log are filled in
	Lanes       int              // how many are leased: 1 to 64
	Layout      generator.Layout // must pass Check
	RandomStart bool             // see generator.Options
	StateDir    string           // where the windows are recorded; empty = nowhere, see README on what is then not promised
	AnyDisk     bool             // accept a StateDir on a file system that may forget what it has synced
	RuntimeDir  string           // on tmpfs, kept between two runs: how far the ids of StateDir's windows were issued; empty = /dev/shm
	Claim       bool             // refuse to start beside another daemon of this host that has one of the worker ids; Linux only
	MaxRunAhead time.Duration    // how far ahead of the clock ids may be issued: 0 to 1 minute

	// StateDirByDefault: nobody has named the StateDir. If no record can be kept there, the daemon runs without, and warns of it.
	StateDirByDefault bool

	Bind     string      // address of the TCP port; empty = all, IPv6 and IPv4
	Port     int         // 0 = any free one, which the log names
	UDPPort  int         // of memcached's UDP protocol; 0 = off
	Sock     string      // path of a unix socket, used instead of TCP; empty = TCP
	SockMode fs.FileMode // permissions of the socket

	Advertise string // host:port at which clients reach the TCP port, see advertise.go; empty = Bind, or this host's address, and Port

	TLSCert, TLSKey string // PEM files: the TCP port speaks TLS and nothing else; both or neither
	TLSClientCA     string // PEM file of the authorities that sign clients' certificates; empty = every client
	AuthFile        string // users that may ask, see package authfile; empty = everybody may

	Engine          string        // auto, uring, epoll or net
	Loops           int           // event loops, each with a listener and a home lane: 1 to 1024
	MaxConnections  int           // more are told so and closed; those of the HTTP port have a limit of their own, see HTTPConnections
	MaxBufferMemory int64         // bytes of unfinished input and unsent output of all connections together, from MinBufferMemory; 0 = no limit
	IdleTimeout     time.Duration // 0 = never
	ShutdownDelay   time.Duration // from un-ready to the end of accepting, for load balancers to notice
	DrainTimeout    time.Duration // for clients to take their last answers

	HTTPPort    int    // 0 = off
	HTTPBind    string // its address; empty = Bind
	DebugPort   int    // on loopback, when one of the next two is set
	EnablePprof bool
	EnableStats bool

	secrets secrets // what ReadSecrets has read
}

// secrets are what the files of a Config say. They are read once at a start: they may be pipes.
type secrets struct {
	tls   *server.TLS    // nil = plain
	users *authfile.File // nil = everybody
}

// ReadSecrets reads the files of secrets that the fields name, and says what is wrong with them: one of Validate's errors. What it could
// read, New does not read again.
func (c *Config) ReadSecrets() error {
	var problems problem.List
	if c.TLSCert != "" && c.TLSKey != "" && c.secrets.tls == nil {
		t, err := server.NewTLS(c.TLSCert, c.TLSKey, c.TLSClientCA)
		c.secrets.tls = t
		problems.Include("TLS", err)
	}
	if c.AuthFile != "" && c.secrets.users == nil {
		users, err := authfile.Load(c.AuthFile)
		if err == nil {
			c.secrets.users = users
		} else {
			problems.Add("AuthFile", "%w", err)
		}
	}
	if c.leased() {
		problems.Include("Store.", c.storeSettings().ReadSecrets())
	}
	return problems.Err()
}

// httpBind is the address of the HTTP port.
func (c *Config) httpBind() string {
	if c.HTTPBind != "" {
		return c.HTTPBind
	}
	return c.Bind
}

// overlap says whether two addresses to listen on have one in common.
func overlap(a, b string) bool {
	all := func(s string) bool { ip := net.ParseIP(s); return s == "" || ip != nil && ip.IsUnspecified() }
	return a == b || all(a) || all(b)
}

// leased says whether worker ids are leased, not given by hand.
func (c *Config) leased() bool { return c.Store.URL != "" }

// storeSettings are those of the store, but for its clock.
func (c *Config) storeSettings() stores.Settings {
	s := c.Store
	s.Layout, s.Log = c.Layout.Fingerprint(), c.Log
	return s
}

// tick is the length of the layout's.
func (c *Config) tick() time.Duration { return time.Duration(c.Layout.Unit) * time.Millisecond }

func (c *Config) validateLeases(problems *problem.List) {
	wrong := problems.Add
	if len(c.WorkerIDs) > 0 {
		wrong("WorkerIDs", "with %s worker ids are leased, not given", c.Store.Flag())
	}
	if c.Store.Max > c.Layout.MaxWorker() {
		wrong("Store.Max", "%d: at most %d in this layout", c.Store.Max, c.Layout.MaxWorker())
	}
	if c.Lanes < 1 || c.Lanes > 64 {
		wrong("Lanes", "%d: 1 to 64 allowed", c.Lanes)
	} else if c.Store.Min <= c.Store.Max && uint64(c.Lanes) > c.Store.Max-c.Store.Min+1 {
		wrong("Lanes", "%d: more than there are worker ids from %d to %d", c.Lanes, c.Store.Min, c.Store.Max)
	}
	// A window has whole ticks only: the one that is to be issued from next must be in it until the next two extensions.
	if least := c.tick() + c.MaxRunAhead + 2*c.Store.Interval(); c.Layout.Unit > 1 && c.Store.Lease < least {
		wrong("Store.Lease", "%v: with ticks of %v it must be at least %v", c.Store.Lease, c.tick(), least)
	}
	problems.Include("Store.", c.storeSettings().Validate())
}

// validateUDP refuses what datagrams would get round.
func (c *Config) validateUDP(wrong func(field, format string, args ...any)) {
	if c.AuthFile != "" {
		wrong("UDPPort", "datagrams carry no login: not together with -auth-file")
	}
	if c.TLSCert != "" {
		wrong("UDPPort", "datagrams are not encrypted and show no certificate: not together with -tls-cert")
	}
	if c.Sock != "" {
		wrong("UDPPort", "a unix socket is listened on instead of ports: not together with -sock")
	}
}

// validateTimeField refuses a layout in which no id can carry the present, whatever that is. This host's clock is no witness: after a boot it
// may be years behind, and be set right any moment. But the present lies after this was written, and no more than a lifetime.
func (c *Config) validateTimeField(wrong func(field, format string, args ...any)) {
	const written, lifetime = 1767225600000, 100 * 365 * 24 * 3600 * 1000 // 2026; ms
	date := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	if end := c.Layout.End(); end <= written {
		wrong("Layout", "no id can be issued: the time field ended at %s", date(end))
	} else if c.Layout.Epoch > written+lifetime {
		wrong("Layout", "no id can be issued: the time field begins at %s", date(c.Layout.Epoch))
	}
}

// checkTime says why no id can carry this Unix ms, and what may be the cause.
func (c *Config) checkTime(ms int64) error {
	if err := c.Layout.CheckTime(ms); err != nil {
		return fmt.Errorf("%w: this host's clock is wrong, or -epoch", err)
	}
	return nil
}

// Validate finds everything that is wrong with the fields and between them. The error is of package problem. No file is read; see ReadSecrets.
func (c *Config) Validate() error {
	var problems problem.List
	wrong := problems.Add
	within := func(field string, v, lo, hi int) {
		if v < lo || v > hi {
			wrong(field, "%d: %d to %d allowed", v, lo, hi)
		}
	}
	host := func(field, v string) {
		if _, err := netip.ParseAddr(v); err != nil && strings.ContainsAny(v, ":/ ") {
			wrong(field, "%q: an address or a name without a port is allowed", v)
		}
	}
	duration := func(field string, v, hi time.Duration) {
		if v < 0 || v > hi {
			wrong(field, "%v: 0s to %v allowed", v, hi)
		}
	}
	if err := c.Layout.Check(); err != nil {
		wrong("Layout", "%w", err)
	} else if c.validateTimeField(wrong); len(c.WorkerIDs) > 0 {
		for i, id := range c.WorkerIDs {
			if id > c.Layout.MaxWorker() {
				wrong("WorkerIDs", "%d: 0 to %d allowed", id, c.Layout.MaxWorker())
			}
			if slices.Contains(c.WorkerIDs[:i], id) {
				wrong("WorkerIDs", "%d is there twice", id)
			}
		}
	}
	switch {
	case c.leased():
		c.validateLeases(&problems)
	case len(c.WorkerIDs) == 0:
		wrong("WorkerIDs", "none given: 0 to %d, a different one for every daemon of the fleet; or -store, to lease one", c.Layout.MaxWorker())
	}
	const year = 365 * 24 * time.Hour
	duration("MaxRunAhead", c.MaxRunAhead, time.Minute)
	duration("IdleTimeout", c.IdleTimeout, year)
	duration("ShutdownDelay", c.ShutdownDelay, time.Hour)
	duration("DrainTimeout", c.DrainTimeout, time.Hour)
	within("Port", c.Port, 0, 65535)
	within("UDPPort", c.UDPPort, 0, 65535)
	within("HTTPPort", c.HTTPPort, 0, 65535)
	within("DebugPort", c.DebugPort, 0, 65535)
	within("Loops", c.Loops, 1, 1024)
	within("MaxConnections", c.MaxConnections, 1, 1<<30)
	if c.MaxBufferMemory != 0 && (c.MaxBufferMemory < MinBufferMemory || c.MaxBufferMemory > maxBufferMemory) {
		wrong("MaxBufferMemory", "%d bytes: %d MiB to %d GiB allowed, or 0 for no limit", c.MaxBufferMemory, MinBufferMemory>>20, maxBufferMemory>>30)
	}
	if c.UDPPort != 0 {
		c.validateUDP(wrong)
	}
	if c.Advertise != "" {
		if err := checkAdvertise(c.Advertise); err != nil {
			wrong("Advertise", "%w", err)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		wrong(map[bool]string{true: "TLSCert", false: "TLSKey"}[c.TLSCert == ""], "a certificate and its key go together")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		wrong("TLSClientCA", "clients show certificates only to a server that has one: set the certificate and its key too")
	}
	if _, _, err := engines.Choose(c.Engine); err != nil {
		wrong("Engine", "%w", err)
	}
	if c.SockMode&^fs.ModePerm != 0 {
		wrong("SockMode", "%#o: 0 to 0777 allowed", uint32(c.SockMode))
	}
	host("Bind", c.Bind)
	host("HTTPBind", c.HTTPBind)
	if c.Sock == "" && c.HTTPPort != 0 && c.HTTPPort == c.Port && overlap(c.Bind, c.httpBind()) {
		wrong("HTTPPort", "%d is the memcached port too", c.HTTPPort)
	}
	return problems.Err()
}
