package sockets

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// A Socket is one that another process has opened. Name is that of a Place; there may be several for one.
type Socket struct {
	Name string
	FD   int
	Lent bool // a supervisor keeps it, and passes it to the next run too
}

// Passed is what another process has opened for this one, or what this one has copied for another. Its owner
// closes it.
type Passed []Socket

// Named returns the descriptors of the sockets with a name.
func (p Passed) Named(name string) (fds []int) {
	for _, s := range p {
		if s.Name == name {
			fds = append(fds, s.FD)
		}
	}
	return fds
}

// Lent reports whether a supervisor keeps the sockets with a name.
func (p Passed) Lent(name string) bool {
	return slices.ContainsFunc(p, func(s Socket) bool { return s.Name == name && s.Lent })
}

// Check returns everything that is wrong with the sockets for these places: each must be what its place
// needs. names are those of all places that there can be. all = every place must have one, but for those that are
// optional.
func (p Passed) Check(places []Place, names []string, all bool) error {
	var problems problem.List
	wanted := map[string]Place{}
	for _, at := range places {
		wanted[at.Name()] = at
	}
	for _, s := range p {
		at, ok := wanted[s.Name]
		if !ok {
			problems.Add("passed socket "+s.Name, "no port of these settings: names are %s, and the port must be on",
				strings.Join(names, ", "))
			continue
		}
		addr, err := server.PassedAddr(s.FD)
		if err == nil {
			err = at.fits(addr, s.Lent)
		}
		if err != nil {
			problems.Add("passed socket "+s.Name, "%w", err)
		}
	}
	var missing []string
	for name, at := range wanted {
		if all && !at.Optional && p.Named(name) == nil {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		problems.Add("port "+name, "the process that runs did not pass it: a port is added by a restart")
	}
	return problems.Err()
}

// Listeners returns listeners for a place: those that were passed, or else up to n that it opens.
func (p Passed) Listeners(at Place, n int) ([]net.Listener, error) {
	if fds := p.Named(at.Name()); fds != nil {
		return server.PassedListeners(fds, n)
	}
	return at.Listen(n)
}

// Listener returns the one listener of a place that has no event loops.
func (p Passed) Listener(at Place) (net.Listener, error) {
	lns, err := p.Listeners(at, 1)
	if err != nil {
		return nil, err
	}
	server.Close([]server.Port{{Listeners: lns[1:]}})
	return lns[0], nil
}

// UDP returns the socket of a place for UDP.
func (p Passed) UDP(at Place) (*net.UDPConn, error) {
	if fds := p.Named(at.Name()); fds != nil {
		return server.PassedUDP(fds[0])
	}
	var conn *net.UDPConn
	err := at.onAddress(func(addr string) (err error) {
		conn, err = server.ListenUDP(addr)
		return err
	})
	return conn, err
}

// Add appends a copy of an open socket. lent = a supervisor keeps it.
func (p *Passed) Add(name string, socket any, lent bool) error {
	fd, err := server.Descriptor(socket)
	if err == nil {
		*p = append(*p, Socket{name, fd, lent})
	}
	return err
}

// Copies returns copies of all, also those made before an error.
func (p Passed) Copies() (all Passed, err error) {
	for _, s := range p {
		fd, e := server.CopyDescriptor(s.FD)
		if e == nil {
			all = append(all, Socket{s.Name, fd, s.Lent})
		}
		err = errors.Join(err, e)
	}
	return all, err
}

// Descriptors returns all descriptors.
func (p Passed) Descriptors() (fds []int) {
	for _, s := range p {
		fds = append(fds, s.FD)
	}
	return fds
}

// Close closes all.
func (p Passed) Close() { server.CloseDescriptors(p.Descriptors()) }
