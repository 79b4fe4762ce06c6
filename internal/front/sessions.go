package front

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A conversation is a session of a grammar that was frozen in another engine, or another process.
type conversation interface {
	server.Session
	server.Movable
	LoggedIn() bool
}

// resumed makes a nil session a nil interface.
func resumed[S conversation](s S, err error) (conversation, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

var errNotLoggedIn = errors.New("a session says that its client has logged in, but not as which user")

// configFor returns what a session of a loop has in common with others: all of that loop, or none of those that
// note by themselves which names they are asked for.
func (p *port) configFor(loop int, asked *latency.Asked) *protocol.Config {
	shared := &p.sessions[loop]
	h, ok := shared.Handler.(*issuer.Handler)
	if asked == nil || !ok {
		return shared
	}
	own := *shared
	own.Handler = h.Noting(asked)
	return &own
}

// open makes the session of a new connection to a port.
func (f *Front) open(p *port, loop int, asked *latency.Asked) server.Session {
	c := p.configFor(loop, asked)
	if f.logins == nil {
		return p.session(c)
	}
	s := f.newLoginSession(c)
	s.Session = p.session(&s.config)
	return s
}

// resume makes the session of a connection that moved to a port.
func (f *Front) resume(p *port, loop int, asked *latency.Asked, state []byte) (server.Session, error) {
	c := p.configFor(loop, asked)
	if f.logins == nil {
		return p.resume(c, state)
	}
	s := f.newLoginSession(c)
	if err := s.resume(state, p.resume); err != nil {
		return nil, err
	}
	return s, nil
}

// newLoginSession makes a session around one that is still missing.
func (f *Front) newLoginSession(c *protocol.Config) *loginSession {
	s := &loginSession{logins: f.logins, config: *c}
	s.guard.Handler = s.config.Handler
	s.config.Auth = s.auth
	return s
}

// A loginSession is a session whose client must log in. Failed logins are limited by the client's
// address.
type loginSession struct {
	server.Session
	logins  *logins
	config  protocol.Config
	guard   guard
	account *users.Account // who logged in last; nil = nobody
	waiting wait
	peer    netip.Addr
}

// Peer implements server.PeerSession.
func (s *loginSession) Peer(a netip.Addr) { s.peer = a }

func (s *loginSession) auth(user, password []byte) (*protocol.Config, error) {
	a, err := s.logins.ask(&s.waiting, s.peer, user, password)
	if a == nil {
		return nil, err
	}
	s.account = a
	if !s.follow() {
		return nil, nil
	}
	return &s.config, nil
}

// Feed implements server.Session. What the user may do is what it was when the Feed began. The connection
// of a user that was removed is closed.
func (s *loginSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	if s.account != nil && !s.follow() {
		return len(in), out, protocol.ErrClose
	}
	for reply = out; ; {
		var k int
		k, reply, err = s.Session.Feed(now, in[n:], reply)
		n += k
		next, ok := err.(*server.Successor)
		if !ok {
			return n, reply, err
		}
		s.Session = next.Session // inside of this one
	}
}

// follow gives the session the rights that its user has now. ok = false: the user was removed.
func (s *loginSession) follow() (ok bool) {
	rights := s.account.Rights()
	switch {
	case rights == nil:
		return false
	case rights == s.guard.rights:
	case rights.All()&users.Issue == users.Issue:
		s.config.Handler = s.guard.Handler // which costs nothing
	default:
		s.config.Handler = &s.guard
	}
	s.guard.rights = rights
	return true
}

// loginTag begins the state of a session whose client has logged in. A user's name and the state of the
// session inside follow. It is no state of a grammar.
var loginTag = []byte("l1 ")

// Freeze implements server.Movable. A login that is being decided begins again.
func (s *loginSession) Freeze() (state []byte, ok bool) {
	inside, ok := s.Session.(server.Movable)
	if !ok {
		return nil, false
	}
	if state, ok = inside.Freeze(); !ok || s.account == nil {
		return state, ok
	}
	return append(fmt.Appendf(nil, "%s%q ", loginTag, s.account.Name), state...), true
}

// resume makes s what Freeze described. The user has the rights that the users have now; one who is gone
// is an error.
func (s *loginSession) resume(state []byte, inside func(*protocol.Config, []byte) (conversation, error)) error {
	if rest, ok := bytes.CutPrefix(state, loginTag); ok {
		quoted, err := strconv.QuotedPrefix(string(rest))
		if err != nil {
			return fmt.Errorf("a session's user: %w", err)
		}
		name, _ := strconv.Unquote(quoted)
		if state, ok = bytes.CutPrefix(rest[len(quoted):], []byte(" ")); !ok {
			return fmt.Errorf("%.100q is no session", rest)
		}
		if s.account = s.logins.directory.Account(name); s.account == nil || !s.follow() {
			return fmt.Errorf("there is no user %q any more", name)
		}
	}
	c, err := inside(&s.config, state)
	if err != nil {
		return err
	}
	if c.LoggedIn() && s.account == nil {
		return errNotLoggedIn
	}
	s.Session = c
	return nil
}
