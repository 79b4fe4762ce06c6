package memcache

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A frozen session is a line of words: m1, what the next byte is, the answer at the end of a data
// block, flags, failed logins, bytes or ids left. The letters are not to change: the other side may be
// an older or a newer program.
const (
	frozenTag = "m1"
	// These stand for the states, in their order. A long line is searched again from its start, a
	// datagram and a closed connection do not move.
	stateLetters  = "sl__kibhcf"
	answerLetters = "-rn"
	binaryFlag    = "b"
	trustedFlag   = "t"
	begunFlag     = "s"
	casFlag       = "c"
)

// Freeze returns what Resume needs to go on with the session elsewhere, between two Feeds. Input that
// Feed has not consumed must go with it. ok = false: the conversation is at its end.
func (s *Session) Freeze() (state []byte, ok bool) {
	at := s.state
	if at == longLine {
		at = line
	}
	if at == closed || at == lineOverUDP {
		return nil, false
	}
	flags := "-"
	for _, f := range []struct {
		set  bool
		flag string
	}{{s.binary, binaryFlag}, {s.trusted, trustedFlag}, {s.begun, begunFlag}, {s.form.cas, casFlag}} {
		if f.set {
			flags += f.flag
		}
	}
	return fmt.Appendf(nil, "%s %c %c %s %d %d", frozenTag, stateLetters[at], answerLetters[s.answer], flags, s.guesses,
		s.left), true
}

// Resume makes the session that Freeze described, perhaps in another process. It trusts nothing of it,
// except that the client has logged in if LoggedIn says so: that the caller must check. A request that
// waited waits from now on.
func Resume(c *protocol.Config, state []byte) (*Session, error) {
	s := &Session{config: c}
	if !s.thaw(strings.Split(string(state), " ")) || !s.makesSense() {
		return nil, fmt.Errorf("memcache: %.100q is no session", state)
	}
	return s, nil
}

// LoggedIn reports whether the client has authenticated.
func (s *Session) LoggedIn() bool { return s.trusted }

func (s *Session) thaw(words []string) (ok bool) {
	if len(words) != 6 || words[0] != frozenTag || len(words[1]) != 1 || len(words[2]) != 1 || words[1] == "_" {
		return false
	}
	at, answers := strings.Index(stateLetters, words[1]), strings.Index(answerLetters, words[2])
	guesses, err1 := strconv.ParseUint(words[4], 10, 8)
	left, err2 := strconv.ParseUint(words[5], 10, 32)
	if at < 0 || answers < 0 || err1 != nil || err2 != nil ||
		strings.Trim(words[3], "-"+binaryFlag+trustedFlag+begunFlag+casFlag) != "" {
		return false
	}
	s.state, s.answer, s.guesses, s.left = state(at), answer(answers), uint8(guesses), uint32(left)
	has := func(flag string) bool { return strings.Contains(words[3], flag) }
	s.binary, s.trusted, s.begun, s.form.cas = has(binaryFlag), has(trustedFlag), has(begunFlag), has(casFlag)
	return true
}

// makesSense reports whether a session can be in such a state, with this Config.
func (s *Session) makesSense() bool {
	if s.guesses >= protocol.MaxGuesses {
		return false
	}
	asks, logsIn := !s.binary && !s.locked(), !s.binary && s.locked()
	switch s.state {
	case start:
		return true
	case line:
		return asks
	case keys:
		return asks && 0 < s.left && s.left <= maxGetLine
	case runs:
		return asks && 0 < s.left && s.left <= maxIDs
	case body:
		return s.answer == sayNothing && s.left > 0 || s.answer != sayNothing && asks && s.left <= MaxBody
	case handshake:
		return logsIn
	case credentials:
		return logsIn && s.left <= maxCredentials
	default:
		return s.binary
	}
}
