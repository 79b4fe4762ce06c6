package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/server"
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

var errNotLoggedIn = errors.New("a session says that its client has logged in, but not as whom")

// resumer returns a function that makes the session of a connection that moved to a port.
func (d *Daemon) resumer(p *enginePort) func(loop int, state []byte) (server.Session, error) {
	if d.logins == nil {
		return func(loop int, state []byte) (server.Session, error) {
			return p.resume(&p.sessions[loop], state)
		}
	}
	return func(loop int, state []byte) (server.Session, error) {
		s := d.newLoginSession(p, loop)
		if err := s.resume(state, p.resume); err != nil {
			return nil, err
		}
		return s, nil
	}
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
