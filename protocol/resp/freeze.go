package resp

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A frozen session is a line of words: r1, what the next byte is, flags, failed logins, bytes and keys
// left of an MGET, bytes and commands of a transaction, the number and the name of the client; the rest
// of the line is its user. The letters are not to change: the other side may be an older or a newer
// program.
const (
	frozenTag   = "r1"
	frozenWords = 11
	startLetter = "s" // also for a command that has not arrived whole: it is searched again
	keysLetter  = "k"
	// longestUser limits the name of a user that is believed, in bytes.
	longestUser = 1024
)

// flagLetters stand for modes. The others are those of a port, or found again.
var flagLetters = []struct {
	letter string
	mode   mode
}{
	{"3", resp3}, {"t", trusted}, {"i", inlineKeys}, {"m", multi}, {"b", broken}, {"x", executing}, {"o", mute},
	{"s", skip}, {"n", skipNext},
	{"r", reads},
}

// Freeze returns what Resume needs to go on with the session elsewhere, between two Feeds. Input that
// Feed has not consumed must go with it. ok = false: the conversation is at its end.
func (s *Session) Freeze() (line []byte, ok bool) {
	at, left, args := startLetter, uint32(0), uint16(0)
	switch s.state {
	case keys:
		at, left, args = keysLetter, s.scanned, s.args
	case closed:
		return nil, false
	}
	flags := "-"
	for _, f := range flagLetters {
		if s.is&f.mode != 0 {
			flags += f.letter
		}
	}
	c := client{}
	if s.client != nil {
		c = *s.client
	}
	return fmt.Appendf(nil, "%s %s %s %d %d %d %d %d %d =%s =%s", frozenTag, at, flags, s.guesses, left, args, s.queued,
		s.commands, c.id, c.name, c.user), true
}

// Resume makes the session that Freeze described, perhaps in another process. It trusts nothing of it,
// except that the client has logged in if LoggedIn says so: that the caller must check.
func Resume(c *protocol.Config, allowInline bool, line []byte) (*Session, error) {
	s := NewSession(c, allowInline)
	if !s.thaw(strings.SplitN(string(line), " ", frozenWords)) || !s.makesSense() {
		return nil, fmt.Errorf("resp: %.100q is no session", line)
	}
	if s.client != nil && c.Clients != nil {
		for n := c.Clients.Load(); n < s.client.id && !c.Clients.CompareAndSwap(n, s.client.id); n = c.Clients.Load() {
		}
	}
	return s, nil
}

// IsFrozen reports whether a session of this package, of whatever version, has described itself so.
func IsFrozen(state []byte) bool { return len(state) > 0 && state[0] == frozenTag[0] }

// LoggedIn reports whether the client has authenticated.
func (s *Session) LoggedIn() bool { return s.is&trusted != 0 }

func (s *Session) thaw(words []string) (ok bool) {
	if len(words) != frozenWords || words[0] != frozenTag || !strings.HasPrefix(words[2], "-") {
		return false
	}
	letters := 1
	for _, f := range flagLetters {
		if n := strings.Count(words[2], f.letter); n > 0 {
			letters += n
			s.is |= f.mode
		}
	}
	bits := [...]int{8, 32, 16, 32, 16, 63}
	var n [len(bits)]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(words[3+i], 10, bits[i]); err != nil {
			return false
		}
	}
	s.guesses, s.queued, s.commands = uint8(n[0]), uint32(n[3]), uint16(n[4])
	name, named := strings.CutPrefix(words[9], "=")
	user, used := strings.CutPrefix(words[10], "=")
	if n[5] > 0 || name != "" || user != "" {
		s.client = &client{id: int64(n[5]), name: name, user: user}
	}
	switch {
	case letters != len(words[2]) || !named || !used:
		return false
	case words[1] == keysLetter:
		s.state, s.scanned, s.args = keys, uint32(n[1]), uint16(n[2])
		s.is |= unproven
		return true
	}
	return words[1] == startLetter && n[1] == 0 && n[2] == 0
}

// makesSense reports whether a session can be in such a state, with this Config.
func (s *Session) makesSense() bool {
	inMGet := s.state == keys
	switch {
	case s.guesses >= protocol.MaxGuesses || len(s.name()) > maxName || !isClean([]byte(s.name())) ||
		len(s.user()) > longestUser:
		return false
	case s.locked() && (s.is&(multi|executing) != 0 || inMGet):
		return false
	case s.is&multi != 0 && inMGet || s.is&inlineKeys != 0 && s.is&inline == 0:
		return false
	case inMGet && (s.scanned == 0 || s.scanned > maxCommand || s.args == 0 || s.args > maxKeys):
		return false
	}
	return s.transactionMakesSense()
}

func (s *Session) transactionMakesSense() bool {
	queues, runs := s.is&multi != 0, s.is&executing != 0
	switch {
	case queues && runs || s.is&broken != 0 && !queues:
		return false
	case !queues && !runs:
		return s.queued == 0 && s.commands == 0
	}
	return s.queued <= 2*maxCommand+maxCommand && s.commands <= maxTransaction && (queues || s.queued > 0)
}

// proven reports whether the keys of an MGET that was frozen half-way are what the state said.
func (a arguments) proven() bool {
	for ; a.n > 0; a.n-- {
		if a.inline {
			word, rest, ok := cutWord(a.rest)
			if word == nil || !ok {
				return false
			}
			a.rest = rest
			continue
		}
		size, k, ok := parseLength(a.rest)
		if !ok || k == 0 || a.rest[0] != '$' || size < 0 || size > int64(len(a.rest)-k-2) {
			return false
		}
		a.rest = a.rest[k+int(size)+2:]
	}
	return a.inline || len(a.rest) == 0
}
