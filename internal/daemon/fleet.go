package daemon

import (
	"net"
	"net/netip"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// How the daemons of a fleet reach each other where the store of sequences elects leaders: at which
// address, with which login and which certificate.

// forwardTimeout limits a connection to another daemon, and a look whether it answers.
const forwardTimeout = time.Second

// validateFleet checks what daemons need that lead sequences, and ask others that do.
func (c *Config) validateFleet(wrong func(field, format string, args ...any)) {
	announced := c.leased() && c.Store.Announces()
	if !c.Counters.Elects() && !announced {
		for _, f := range [][2]string{{"ForwardUser", c.ForwardUser}, {"ForwardPasswordFile", c.ForwardPasswordFile},
			{"ForwardCA", c.ForwardCA}} {
			if f[1] != "" {
				wrong(f[0], "belongs to -counters etcd://..., or to -store: elsewhere no daemon asks another one")
			}
		}
		return
	}
	n := c.names()
	if flag, _ := n.DeclaresStrict(); flag && c.Counters.Elects() {
		c.validateLeader(wrong)
	}
	switch {
	case c.ForwardUser == "" && c.ForwardPasswordFile != "":
		wrong("ForwardPasswordFile", "a password of nobody: -forward-user is not given")
	case c.ForwardUser != "" && c.ForwardPasswordFile == "":
		wrong("ForwardUser", "%s has no password: -forward-password-file is not given", c.ForwardUser)
	}
	if c.ForwardCA != "" && c.TLSCert == "" && !announced {
		wrong("ForwardCA", "the other daemons are asked over TLS only if this one has a certificate: -tls-cert is not given")
	}
}

// validateLeader checks what a daemon needs where a sequence with order=strict is defined. Where one only
// appears in the store later, the daemon does without what is missing; see election.takePart.
func (c *Config) validateLeader(wrong func(field, format string, args ...any)) {
	if c.nowhere() {
		wrong("Advertise", "a sequence with order=strict may be led from here, and this daemon listens on all addresses: "+
			"give the HOST:PORT at which clients and the other daemons reach it, or one address with -bind")
	}
	if c.ForwardUser == "" && c.ForwardPasswordFile == "" && c.AuthFile != "" {
		wrong("ForwardUser", "none given: with -auth-file the daemons of the fleet want a login from each other too")
	}
}

// nowhere reports whether there is a port for the other daemons, and no address to tell them.
func (c *Config) nowhere() bool {
	return c.Advertise == "" && c.onAllAddresses() && (c.Sock == "" || c.RedisPort != 0)
}

// onAllAddresses reports whether it is not one address that the TCP ports listen on.
func (c *Config) onAllAddresses() bool {
	ip, err := netip.ParseAddr(c.Bind)
	return c.Bind == "" || err == nil && ip.IsUnspecified()
}

// readForwarding reads the files of forwarding, only to find out what is wrong with them.
func (c *Config) readForwarding(wrong func(field, format string, args ...any)) {
	if c.ForwardPasswordFile != "" {
		if _, err := c.forwardPassword(); err != nil {
			wrong("ForwardPasswordFile", "%w", err)
		}
	}
	if _, err := endpoint.Roots(c.ForwardCA); err != nil {
		wrong("ForwardCA", "%w", err)
	}
}

// forwardPassword reads the password of forwarding.
func (c *Config) forwardPassword() (string, error) { return secretfile.Password(c.ForwardPasswordFile) }

// newForwarder makes the client of the other daemons. They encrypt if this one does.
func (d *Daemon) newForwarder() *forward.Client {
	c := forward.Config{User: d.c.ForwardUser, Timeout: forwardTimeout, Password: d.c.forwardPassword}
	if d.front.Encrypted() {
		c.TLS = d.peerTLS
	}
	return forward.New(c)
}

// ownNode returns the address at which the others reach this daemon's ports, or "" if they cannot.
func (d *Daemon) ownNode() string {
	if d.c.Advertise != "" {
		return d.c.Advertise
	}
	for _, p := range d.front.Addresses() {
		if tcp, ok := p.At.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
			return tcp.String()
		}
	}
	return ""
}
