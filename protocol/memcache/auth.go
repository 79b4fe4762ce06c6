package memcache

import (
	"bytes"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// With Config.Auth set, a connection may do nothing until it has sent a user and the password: in
// text with memcached's handshake, a set whose data block is "user password"; in binary with SASL
// PLAIN.

const (
	errUnauthenticated = "CLIENT_ERROR unauthenticated\r\n"
	errAuthTooLong     = "CLIENT_ERROR auth token too long\r\n"
	errAuthEnd         = "CLIENT_ERROR bad command line termination\r\n"
	errAuthFormat      = "CLIENT_ERROR bad authentication token format\r\n"
	errAuthFailure     = "CLIENT_ERROR authentication failure\r\n"

	// maxCredentials limits a user name and a password together, in bytes: they are the only data
	// that is kept until it is complete.
	maxCredentials = 1024

	mechanismPlain = "plain" // in lower case: its name is case-insensitive
	maxMechanism   = 32      // bytes of a mechanism's name
)

// locked reports whether the client must authenticate first.
func (s *Session) locked() bool { return s.config.Auth != nil && !s.trusted }

// authenticate decides an attempt to authenticate; with ok = false it fails without looking at the
// credentials. The error is one of Config.Auth: then nothing is decided, and after id.ErrWait nothing
// counted.
func (s *Session) authenticate(t *turn, user, password []byte, ok bool) (bool, error) {
	var config *protocol.Config
	var err error
	if ok {
		config, err = s.config.Auth(user, password)
	}
	if err == id.ErrWait {
		return false, err
	}
	t.Add(protocol.CmdAuth, 1)
	s.trusted = config != nil
	switch {
	case s.trusted:
		s.config = config
	case err == nil:
		t.Add(protocol.AuthErrors, 1)
		s.guesses++
	}
	return s.trusted, err
}

// guessed closes the connection after too many failures, so that an attacker needs a new connection
// every few guesses.
func (s *Session) guessed() error {
	if s.guesses >= protocol.MaxGuesses {
		return s.hangUp()
	}
	return nil
}

// handshake answers a line from a client that has not authenticated. It accepts only the start of
// the handshake.
func (s *Session) handshake(t *turn, in []byte) (int, error) {
	window := in[:min(len(in), maxLine)]
	i := bytes.IndexByte(window[s.scanned:], '\n')
	if i < 0 {
		if s.scanned = uint32(len(window)); len(window) < maxLine {
			return 0, nil
		}
		return s.tooLong(t, in)
	}
	n := int(s.scanned) + i + 1
	s.scanned = 0
	text := trim(in[:n])
	if isHTTP(lastWord(text)) {
		t.Add(protocol.CmdOther, 1)
		t.Add(protocol.Malformed, 1)
		return n, s.hangUp()
	}
	verb, rest, _ := cut(text)
	f := split(rest)
	size, ok := parseSize(f.at(3))
	switch {
	case string(lower(make([]byte, 0, longestVerb), verb)) != "set" || !ok:
		t.Add(protocol.Unauthenticated, 1)
		t.Say(errUnauthenticated)
	case size > maxCredentials:
		t.blame(errAuthTooLong)
		s.swallow(size + 2)
	default:
		s.state, s.left = credentials, uint32(size)
	}
	return n, nil
}

// credentials answers the data block of the handshake once it is complete.
func (s *Session) credentials(t *turn, in []byte) (int, error) {
	n := int(s.left) + 2
	if len(in) < n {
		return 0, nil
	}
	user, password, found := bytes.Cut(in[:n-2], []byte(" "))
	switch {
	case in[n-2] != '\r' || in[n-1] != '\n':
		t.blame(errAuthEnd)
	case !found || len(user) == 0 || len(password) == 0:
		t.blame(errAuthFormat)
	default:
		switch ok, err := s.authenticate(t, user, password, true); {
		case err == id.ErrWait:
			return 0, err
		case err != nil:
			t.refuse(err)
		case ok:
			t.Say("STORED\r\n")
		default:
			t.Say(errAuthFailure)
		}
	}
	s.ready()
	return n, s.guessed()
}

// sasl answers SASL_AUTH and SASL_STEP. There is one mechanism, and its message may come with the
// second. As in memcached, each of them ends the previous login, and a step needs an AUTH without a
// message before it. A failed step may be repeated.
func (s *Session) sasl(t *turn, h *header, mechanism, message []byte) error {
	s.trusted = false
	ok := s.begun
	if h.opcode == opSASLAuth {
		ok = string(lower(make([]byte, 0, len(mechanismPlain)), mechanism)) == mechanismPlain
		if s.begun = ok && len(message) == 0; s.begun {
			t.Add(protocol.CmdOther, 1)
			t.respond(h, statusAuthContinue, "")
			return nil
		}
	}
	user, password, wellFormed := plain(message)
	ok, err := s.authenticate(t, user, password, ok && wellFormed)
	if err != nil {
		return t.respondError(h, err)
	}
	if ok {
		s.begun = false
		t.respond(h, statusOK, "Authenticated")
		return nil
	}
	t.fail(h, failAuth)
	return s.guessed()
}

// saslTooLong fails a login whose message is longer than any user and password, and discards the
// message.
func (s *Session) saslTooLong(t *turn, h *header) (int, error) {
	s.authenticate(t, nil, nil, false)
	s.begun = s.begun && h.opcode != opSASLAuth
	t.fail(h, failAuth)
	s.swallow(int64(h.body))
	return headerLen, s.guessed()
}

// plain parses a SASL PLAIN message: whom to act as, user, password, separated by NULs. No user may
// act as another one.
func plain(message []byte) (user, password []byte, ok bool) {
	as, rest, _ := bytes.Cut(message, []byte{0})
	user, password, found := bytes.Cut(rest, []byte{0})
	ok = found && len(user) > 0 && len(password) > 0 && bytes.IndexByte(password, 0) < 0 &&
		(len(as) == 0 || bytes.Equal(as, user))
	return user, password, ok
}
