package daemon

import (
	"context"
	"slices"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// Inherited is what another process has opened for this one.
type Inherited struct {
	Sockets sockets.Passed
	// From is the process that gives them away, and its worker ids, see takeOver; nil = a supervisor.
	From *upgrade.Origin
	Died bool // From ended before it had passed all
}

// SocketNames returns the names that a Socket may have.
func SocketNames() []string {
	names := []string{sockets.Unix, front.PortFlag, front.RedisFlag, front.UDPFlag}
	for _, l := range listeners() {
		names = append(names, l.flag)
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

// passed returns the sockets that another process has opened.
func (c *Config) passed() sockets.Passed {
	if c.Inherited == nil {
		return nil
	}
	return c.Inherited.Sockets
}

// checkInherited returns everything that is wrong with the passed sockets. A process that this one succeeds
// must have passed all.
func (d *Daemon) checkInherited() error {
	c := &d.c
	if c.Inherited == nil {
		return nil
	}
	return c.passed().Check(c.places(), SocketNames(), c.origin() != nil && !c.Inherited.Died)
}

// openServices opens the services' listeners.
func (d *Daemon) openServices() error {
	for i := range d.services {
		s := &d.services[i]
		err := d.binder.Bind(context.Background(), func() (err error) {
			s.ln, err = d.c.passed().Listener(s.line.place(&d.c))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
