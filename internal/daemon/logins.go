package daemon

import (
	"net/netip"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// opener returns a function that makes the session for a new connection to a port.
func (d *Daemon) opener(p *enginePort) func(loop int) server.Session {
	if d.logins == nil {
		return func(loop int) server.Session { return p.session(&p.sessions[loop]) }
	}
	return func(loop int) server.Session {
		s := &loginSession{config: p.sessions[loop]}
		s.config.Auth = func(user, password []byte) *protocol.Config {
			if !d.logins.Allow(s.peer, user, password) {
				return nil
			}
			return &s.config // all users have the same rights
		}
		s.Session = p.session(&s.config)
		return s
	}
}

// A loginSession is a session whose client must log in. Failed logins are limited by the client's
// address.
type loginSession struct {
	server.Session
	config protocol.Config
	peer   netip.Addr
}

// Peer implements server.PeerSession.
func (s *loginSession) Peer(a netip.Addr) { s.peer = a }
