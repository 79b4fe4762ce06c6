package daemon

import (
	"net/netip"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

// newSession makes the session for a new connection.
func (d *Daemon) newSession(loop int) server.Session {
	if d.logins == nil {
		return memcache.NewSession(&d.sessions[loop])
	}
	s := &loginSession{config: d.sessions[loop]}
	s.config.Auth = func(user, password []byte) *protocol.Config {
		if !d.logins.Allow(s.peer, user, password) {
			return nil
		}
		return &s.config // all users have the same rights
	}
	s.Session = memcache.NewSession(&s.config)
	return s
}

// A loginSession is a session whose client must log in. Failed logins are limited by the client's
// address.
type loginSession struct {
	*memcache.Session
	config protocol.Config
	peer   netip.Addr
}

// Peer implements server.PeerSession.
func (s *loginSession) Peer(a netip.Addr) { s.peer = a }
