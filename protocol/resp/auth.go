package resp

import (
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// With Config.Auth set, a connection may do nothing but log in until it has sent a user and the
// password, with AUTH or in HELLO.

const (
	// defaultUser is the user of an AUTH without one, and of clients where no client needs to log in.
	defaultUser = "default"

	errWrongPass  = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword = "ERR AUTH <password> called without any password configured for the default user. Are you sure " +
		"your configuration is correct?"
	errHelloAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> " +
		"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)

// locked reports whether the client must authenticate first.
func (s *Session) locked() bool { return s.config.Auth != nil && s.is&trusted == 0 }

// auth answers AUTH.
func (s *Session) auth(t *turn, a arguments) error {
	user := []byte(defaultUser)
	switch {
	case a.n > 2:
		t.Add(protocol.CmdOther, 1)
		t.blame(errSyntax)
		return nil
	case a.n == 1 && s.config.Auth == nil:
		t.Add(protocol.CmdOther, 1)
		t.blame(errNoPassword)
		return nil
	case a.n == 2:
		user = a.next()
	}
	ok, err := s.logIn(t, user, a.next())
	if ok {
		t.ok()
	}
	return err
}

// logIn decides an attempt to authenticate and replies if it fails; a login before it then stays. The
// error is one of Feed.
func (s *Session) logIn(t *turn, user, password []byte) (ok bool, err error) {
	config := s.config
	if config.Auth != nil {
		config, err = config.Auth(user, password)
	} else if string(user) != defaultUser {
		config = nil
	}
	if err == id.ErrWait {
		return false, err
	}
	t.Add(protocol.CmdAuth, 1)
	switch {
	case err != nil:
		s.refuse(t, err)
		return false, nil
	case config == nil:
		t.Add(protocol.AuthErrors, 1)
		t.fail(errWrongPass, "")
		s.guesses++
		return false, s.guessed()
	}
	s.config = config
	s.is |= trusted
	if string(user) != s.user() {
		s.about().user = string(user)
	}
	return true, nil
}

// guessed closes the connection after too many failures, so that an attacker needs a new connection
// every few guesses.
func (s *Session) guessed() error {
	if s.guesses >= protocol.MaxGuesses {
		return s.hangUp()
	}
	return nil
}

// hello answers HELLO, which chooses the version of the protocol, and may log in and name the
// connection at once.
func (s *Session) hello(t *turn, a arguments) error {
	version := int64(0)
	if a.n > 0 {
		var ok bool
		version, ok = parseInt(a.next())
		complaint := ""
		if !ok {
			complaint = "ERR Protocol version is not an integer or out of range"
		} else if version != 2 && version != 3 {
			complaint = "NOPROTO unsupported protocol version"
		}
		if complaint != "" {
			t.Add(protocol.CmdOther, 1)
			t.blame(complaint)
			return nil
		}
	}
	kind := protocol.CmdOther // unless it tries to authenticate
	for a.n > 0 {
		switch option := a.next(); {
		case isWord(option, "auth") && a.n >= 2:
			kind = protocol.CmdAuth
			user := a.next()
			if ok, err := s.logIn(t, user, a.next()); !ok {
				return err
			}
		case isWord(option, "setname") && a.n >= 1:
			if !s.setName(t, a.next()) {
				return nil
			}
		default:
			t.Add(protocol.Malformed, 1)
			t.Say("-ERR Syntax error in HELLO option '")
			t.quote(option, len(option))
			t.Say("'\r\n")
			return nil
		}
	}
	if kind == protocol.CmdOther {
		t.Add(kind, 1)
	}
	if s.locked() {
		t.Add(protocol.Unauthenticated, 1)
		t.fail(errHelloAuth, "")
		return nil
	}
	switch version {
	case 2:
		s.is &^= resp3
	case 3:
		s.is |= resp3
	}
	s.greet(t)
	return nil
}

// redisVersion is the version of Redis whose commands and errors these are. Clients choose by it
// what they send.
const redisVersion = "7.0.15"

// greet answers HELLO.
func (s *Session) greet(t *turn) {
	s.pairs(t, 7)
	t.text("server")
	t.text("redis")
	t.text("version")
	t.text(redisVersion)
	t.text("proto")
	t.integer(s.version())
	t.text("id")
	t.integer(s.id())
	t.text("mode")
	mode, _, _ := s.clusterMode()
	t.text(mode)
	t.text("role")
	t.text("master")
	t.text("modules")
	t.array(0)
}

// version returns the version of the protocol.
func (s *Session) version() int64 {
	if s.is&resp3 != 0 {
		return 3
	}
	return 2
}
