package front

import (
	"context"
	"io/fs"
	"os/exec"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// SpinAuto is the value of Config.Spin with which each loop learns whether spinning pays.
const SpinAuto = server.SpinAuto

// maxSpin is the maximum of Config.Spin.
const maxSpin = time.Millisecond

// Config holds the settings of a Front. A zero field means zero, not a default, unless its comment says
// otherwise.
type Config struct {
	Port      int         // the memcached port; 0 = any free one, which the log names
	RedisPort int         // 0 = off
	UDPPort   int         // port of memcached's UDP protocol; 0 = off
	Bind      string      // address of the ports; empty = all, IPv6 and IPv4
	Sock      string      // path of a unix socket, used instead of the memcached port; empty = TCP
	SockMode  fs.FileMode // permissions of the socket

	TLSCert, TLSKey string // PEM files: the engine's TCP ports speak TLS and nothing else; both or neither
	// TLSClientCA is a PEM file of the authorities that sign clients' certificates. Empty = accept
	// every client.
	TLSClientCA string
	// AuthFile names the users that may log in, see package users. Empty = no login needed, unless Users
	// is set.
	AuthFile string
	Users    string // "counters" = the users are in the counter store; empty = they are in AuthFile
	// ComparePasswords returns what starts a process that calls users.CompareBeside; nil = passwords are
	// compared in this process.
	ComparePasswords func() *exec.Cmd

	Engine string // auto, uring, epoll or net
	Loops  int    // number of event loops, each with a listener and a home lane: 1 to 1024
	// Spin: for how long an event loop that has just answered looks for the next input before it sleeps, up to maxSpin;
	// 0 = not at all. SpinAuto = as long as that pays, and not under a quota of less than one CPU.
	Spin time.Duration
	// MaxConnections: connections above it get an error and are closed. The HTTP port has a limit of
	// its own.
	MaxConnections int
	// MaxBufferMemory limits unfinished input and unsent output of all connections, in bytes. At
	// least MinBufferMemory; 0 = no limit.
	MaxBufferMemory int64
	IdleTimeout     time.Duration // 0 = never
	DrainTimeout    time.Duration // for clients to read their last replies

	secrets secrets // what ReadSecrets has read
}

// secrets hold the contents of a Config's files. They are read only once at startup, because they
// may be pipes.
type secrets struct {
	tls   *server.TLS // nil = plain
	users *readUsers  // of AuthFile; nil = not read
}

// readUsers is what ReadSecrets has read of AuthFile.
type readUsers struct {
	from  users.Store
	since string
	list  []users.User
}

// ReadSecrets reads the files that the fields name. Its error describes what is wrong with them, like
// Validate's. It does not read again what it could read before.
func (c *Config) ReadSecrets() error {
	var problems problem.List
	if c.TLSCert != "" && c.TLSKey != "" && c.secrets.tls == nil {
		t, err := server.NewTLS(c.TLSCert, c.TLSKey, c.TLSClientCA)
		c.secrets.tls = t
		problems.Include("TLS", err)
	}
	for _, p := range problem.Of(c.readUsers()) {
		problems.Add("AuthFile", "%w", p)
	}
	return problems.Err()
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

// HasLogins reports whether clients must log in.
func (c *Config) HasLogins() bool { return c.AuthFile != "" || c.Users != "" }

// Validate finds everything that is wrong with the fields, alone and together. The error is of
// package problem. It reads no files; see ReadSecrets.
func (c *Config) Validate() error {
	var problems problem.List
	wrong := problems.Add
	c.validateLimits(wrong)
	if c.UDPPort != 0 {
		c.validateUDP(wrong)
	}
	if c.Users != "" && c.Users != "counters" {
		wrong("Users", "%q: counters allowed, which means the store of -counters", c.Users)
	}
	if c.Users != "" && c.AuthFile != "" {
		wrong("Users", "not together with -auth-file: one of the two says who may log in")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		wrong(map[bool]string{true: "TLSCert", false: "TLSKey"}[c.TLSCert == ""], "a certificate and its key go together")
	}
	if c.TLSClientCA != "" && c.TLSCert == "" {
		wrong("TLSClientCA", "clients show certificates only to a server that has one: set the certificate and its key too")
	}
	if _, _, err := engines.Choose(c.Engine, 1); err != nil {
		wrong("Engine", "%w", err)
	}
	if c.SockMode&^fs.ModePerm != 0 {
		wrong("SockMode", "%#o: 0 to 0777 allowed", uint32(c.SockMode))
	}
	check := func(field string, err error) {
		if err != nil {
			wrong(field, "%w", err)
		}
	}
	check("Bind", sockets.CheckHost(c.Bind))
	check("Sock", sockets.CheckPath(c.Sock))
	check(PortFlag, sockets.CheckNumber(c.Port))
	check(RedisFlag, sockets.CheckNumber(c.RedisPort))
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
	duration("IdleTimeout", c.IdleTimeout, 365*24*time.Hour)
	duration("DrainTimeout", c.DrainTimeout, time.Hour)
	if c.Spin != SpinAuto {
		duration("Spin", c.Spin, maxSpin)
	}
	within("UDPPort", c.UDPPort, 0, 65535)
	within("Loops", c.Loops, 1, 1024)
	within("MaxConnections", c.MaxConnections, 1, 1<<30)
	if c.MaxBufferMemory != 0 && (c.MaxBufferMemory < MinBufferMemory || c.MaxBufferMemory > maxBufferMemory) {
		wrong("MaxBufferMemory", "%d bytes: %d MiB to %d GiB allowed, or 0 for no limit", c.MaxBufferMemory,
			MinBufferMemory>>20, maxBufferMemory>>30)
	}
}

// validateUDP refuses settings that datagrams would bypass.
func (c *Config) validateUDP(wrong func(field, format string, args ...any)) {
	if c.AuthFile != "" {
		wrong("UDPPort", "datagrams carry no login: not together with -auth-file")
	} else if c.HasLogins() {
		wrong("UDPPort", "datagrams carry no login: not together with -auth-store")
	}
	if c.TLSCert != "" {
		wrong("UDPPort", "datagrams are not encrypted and show no certificate: not together with -tls-cert")
	}
	if c.Sock != "" {
		wrong("UDPPort", "a unix socket is listened on instead of ports: not together with -sock")
	}
}
