package daemon

import (
	"crypto/tls"
	"net"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
)

// unreachable reports whether there is no address to announce.
func (c *Config) unreachable() bool { return c.Sock != "" && c.Advertise == "" }

// ownAddress finds where clients reach the memcached port, for announcements; port 0 = not known before it is open.
// If no address is given, it is the only one that the daemon listens on, or the one from which it reaches the store.
// That must not be a loopback address, because what runs beside the daemon there may be a proxy.
func (c *Config) ownAddress() (host string, port int) {
	switch {
	case c.Advertise != "": // Validate has checked it
		host, number, _ := net.SplitHostPort(c.Advertise)
		port, _ := strconv.Atoi(number)
		return host, port
	case !c.onAllAddresses():
		return c.Bind, c.Port
	}
	return sockets.AddressTowards(c.Store.Hosts()).String(), c.Port
}

// peerAsker returns how the daemon asks its peers.
func (d *Daemon) peerAsker() announce.Asker {
	asker := announce.Asker{Secret: d.c.TLSCert != "", TLS: d.peerTLS}
	if d.c.ForwardUser != "" {
		asker.Login = func() (string, string, error) {
			password, err := d.c.forwardPassword()
			return d.c.ForwardUser, password, err
		}
	}
	return asker
}

// peerTLS returns the settings of connections to other daemons.
func (d *Daemon) peerTLS() (*tls.Config, error) {
	roots, err := endpoint.Roots(d.c.ForwardCA)
	if err != nil {
		return nil, err
	}
	if d.front.TLS == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
	}
	return d.front.TLS.Client(roots), nil
}
