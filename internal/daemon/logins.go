package daemon

import (
	"net/netip"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// newSession makes the session of a new connection.
func (d *Daemon) newSession(loop int) server.Session {
	if d.logins == nil {
		return protocol.NewSession(&d.sessions[loop])
	}
	s := &loginSession{config: d.sessions[loop]}
	s.config.Auth = func(user, password []byte) bool { return d.logins.Allow(s.peer, user, password) }
	s.Session = protocol.NewSession(&s.config)
	return s
}

// A loginSession is one whose client must log in, which is limited by where the client is.
type loginSession struct {
	*protocol.Session
	config protocol.Config
	peer   netip.Addr
}

// Peer implements server.PeerSession.
func (s *loginSession) Peer(a netip.Addr) { s.peer = a }
