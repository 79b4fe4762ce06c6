package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// Inherited is what another process has opened for this one.
type Inherited struct {
	Sockets []Socket
	// From is the process that gives them away, and its worker ids, see takeOver; nil = a supervisor.
	From *upgrade.Origin
	Died bool // From ended before it had passed all
}

// A Socket is one that another process has opened. Name is the flag of the port that it is for; there
// may be several for one port.
type Socket struct {
	Name string
	FD   int
	Lent bool // a supervisor keeps it, and passes it to the next run too
}

// udpFlag is the name of the UDP port's socket, sockFlag that of the unix socket.
const (
	udpFlag  = "udp-port"
	sockFlag = "sock"
)

// SocketNames returns the names that a Socket may have.
func SocketNames() []string {
	names := []string{sockFlag, udpFlag}
	for _, p := range PortSettings() {
		names = append(names, p.Flag)
	}
	slices.Sort(names)
	return names
}

// origin returns the process that this one is to succeed, or nil.
func (c *Config) origin() *upgrade.Origin {
	if c.Inherited == nil {
		return nil
	}
	return c.Inherited.From
}

// sockets returns the descriptors of the passed sockets with a name.
func (c *Config) sockets(name string) (fds []int) {
	if c.Inherited != nil {
		for _, s := range c.Inherited.Sockets {
			if s.Name == name {
				fds = append(fds, s.FD)
			}
		}
	}
	return fds
}

// lent reports whether a supervisor keeps the passed sockets with a name.
func (c *Config) lent(name string) bool {
	return slices.ContainsFunc(c.Inherited.Sockets, func(s Socket) bool { return s.Name == name && s.Lent })
}

// socketName returns the name of the socket that it listens on.
func (l *listener) socketName(c *Config) string {
	if !l.onTCP(c) {
		return sockFlag
	}
	return l.Flag
}

// checkInherited returns everything that is wrong with the passed sockets: each must be what its port
// needs. A process that this one succeeds must have passed all.
func (d *Daemon) checkInherited() error {
	c := &d.c
	if c.Inherited == nil {
		return nil
	}
	var problems problem.List
	wanted := map[string]func(net.Addr) error{}
	for _, l := range listeners() {
		if l.listens(c) {
			wanted[l.socketName(c)] = func(a net.Addr) error { return l.fits(c, a) }
		}
	}
	if c.UDPPort != 0 {
		wanted[udpFlag] = func(a net.Addr) error {
			udp, ok := a.(*net.UDPAddr)
			if !ok {
				return fmt.Errorf("it is a socket of %s, not of UDP", a.Network())
			}
			return numbered(c, udp.Port, c.UDPPort)
		}
	}
	for _, s := range c.Inherited.Sockets {
		fits := wanted[s.Name]
		if fits == nil {
			problems.Add("passed socket "+s.Name, "no port of these settings: names are %s, and the port must be on",
				strings.Join(SocketNames(), ", "))
			continue
		}
		addr, err := server.PassedAddr(s.FD)
		if err == nil {
			err = fits(addr)
		}
		if err != nil {
			problems.Add("passed socket "+s.Name, "%w", err)
		}
	}
	if c.origin() != nil && !c.Inherited.Died {
		for _, name := range sortedNames(wanted) {
			if c.sockets(name) == nil {
				problems.Add("port "+name, "the process that runs did not pass it: a port is added by a restart")
			}
		}
	}
	return problems.Err()
}

func sortedNames[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fits returns why a passed socket is not what it listens on.
func (l *listener) fits(c *Config, a net.Addr) error {
	switch a := a.(type) {
	case *net.TCPAddr:
		if !l.onTCP(c) {
			return fmt.Errorf("it is a TCP socket, not a unix one")
		}
		return numbered(c, a.Port, *l.Number(&c.Ports))
	case *net.UnixAddr:
		if l.onTCP(c) {
			return fmt.Errorf("it is a unix socket, not a TCP one")
		}
		if a.Name != c.Sock {
			return fmt.Errorf("its path is %s, that of these settings is %s", a.Name, c.Sock)
		}
		return nil
	}
	return fmt.Errorf("it is a socket of %s", a.Network())
}

// numbered returns why a socket is not that of a port with this number; 0 = any.
func numbered(c *Config, is, number int) error {
	if number != 0 && is != number {
		return fmt.Errorf("its port is %d, that of these settings is %d", is, number)
	}
	return nil
}

// keep keeps copies of the engine's listeners for a successor.
func (d *Daemon) keep(ports []server.Port) {
	for i, p := range ports {
		for _, ln := range p.Listeners {
			if fd, err := server.Descriptor(ln); err == nil {
				d.kept = append(d.kept, Socket{d.ports[i].socketName(&d.c), fd, p.Lent})
			}
		}
	}
}

// drop closes sockets.
func drop(sockets []Socket) {
	var fds []int
	for _, s := range sockets {
		fds = append(fds, s.FD)
	}
	server.CloseDescriptors(fds)
}

// inherit returns the service's listener, or nil if nobody passed one.
func (l *listener) inherit(c *Config) (net.Listener, error) {
	fds := c.sockets(l.socketName(c))
	if fds == nil {
		return nil, nil
	}
	lns, err := server.PassedListeners(fds, 1)
	if err != nil {
		return nil, err
	}
	server.Close([]server.Port{{Listeners: lns[1:]}}) // of a service there is one
	return lns[0], nil
}

// openServices opens the services' listeners.
func (d *Daemon) openServices() error {
	for i := range d.services {
		s := &d.services[i]
		err := d.binder.bind(context.Background(), func() (err error) {
			if s.ln, err = s.line.inherit(&d.c); s.ln == nil && err == nil {
				var lns []net.Listener
				if lns, err = s.line.listen(&d.c, 1); err == nil {
					s.ln = lns[0]
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
