package protocol

import "bytes"

// With Config.Auth set a connection may do nothing until it has named a user and the password: in text by memcached's handshake, a set
// whose data block is "user password", in binary by SASL PLAIN.

const (
	errUnauthenticated = "CLIENT_ERROR unauthenticated\r\n"
	errAuthTooLong     = "CLIENT_ERROR auth token too long\r\n"
	errAuthEnd         = "CLIENT_ERROR bad command line termination\r\n"
	errAuthFormat      = "CLIENT_ERROR bad authentication token format\r\n"
	errAuthFailure     = "CLIENT_ERROR authentication failure\r\n"

	// maxCredentials bounds a user name and a password together, in bytes: they are the only data that is held until it is complete.
	maxCredentials = 1024
)

// locked tells whether the client still has to say who it is.
func (s *Session) locked() bool { return s.config.Auth != nil && !s.trusted }

// authenticate checks credentials, and counts those that are wrong.
func (s *Session) authenticate(t *turn, user, password []byte) bool {
	if !s.config.Auth(user, password) {
		t.add(AuthErrors, 1)
		return false
	}
	s.trusted = true
	return true
}

// handshake answers a line of a client that has not authenticated. Only the start of the handshake is understood.
func (s *Session) handshake(t *turn, in []byte) (int, error) {
	window := in[:min(len(in), MaxLine)]
	i := bytes.IndexByte(window[s.scanned:], '\n')
	if i < 0 {
		if s.scanned = uint32(len(window)); len(window) < MaxLine {
			return 0, nil
		}
		return s.tooLong(t, in)
	}
	n := int(s.scanned) + i + 1
	s.scanned = 0
	text := trim(in[:n])
	if isHTTP(lastWord(text)) {
		t.add(CmdOther, 1)
		t.add(Malformed, 1)
		return n, s.hangUp()
	}
	verb, rest, _ := cut(text)
	f := split(rest)
	size, ok := parseSize(f.at(3))
	switch {
	case string(lower(make([]byte, 0, longestVerb), verb)) != "set" || !ok:
		t.add(Unauthenticated, 1)
		t.say(errUnauthenticated)
	case size > maxCredentials:
		t.blame(errAuthTooLong)
		s.swallow(size + 2)
	default:
		s.state, s.left = credentials, size
	}
	return n, nil
}

// credentials answers the data block of the handshake, once it is complete.
func (s *Session) credentials(t *turn, in []byte) (int, error) {
	n := int(s.left) + 2
	if len(in) < n {
		return 0, nil
	}
	t.add(CmdAuth, 1)
	user, password, found := bytes.Cut(in[:n-2], []byte(" "))
	switch {
	case in[n-2] != '\r' || in[n-1] != '\n':
		t.blame(errAuthEnd)
	case !found || len(user) == 0 || len(password) == 0:
		t.blame(errAuthFormat)
	case s.authenticate(t, user, password):
		t.say("STORED\r\n")
	default:
		t.say(errAuthFailure)
	}
	s.ready()
	return n, nil
}

// plain checks a SASL PLAIN message: whom to act as, which we ignore, user, password, with NULs between.
func (s *Session) plain(t *turn, message []byte) bool {
	_, rest, _ := bytes.Cut(message, []byte{0})
	user, password, found := bytes.Cut(rest, []byte{0})
	if !found {
		t.add(AuthErrors, 1)
		return false
	}
	return s.authenticate(t, user, password)
}
