package resp

import (
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A client is what a connection has said about itself, and what it has been told.
type client struct {
	id   int64  // 0 = it has not asked
	name string // at most maxName bytes
	user string // empty = defaultUser
	kept uint32 // after READONLY: the moment of the request that waits, see protocol.Turn.Keep
}

// about returns the client, to change it.
func (s *Session) about() *client {
	if s.client == nil {
		s.client = new(client)
	}
	return s.client
}

// user returns the name of the user.
func (s *Session) user() string {
	if s.client == nil || s.client.user == "" {
		return defaultUser
	}
	return s.client.user
}

// name returns the connection's name.
func (s *Session) name() string {
	if s.client == nil {
		return ""
	}
	return s.client.name
}

// id returns the connection's number: those that ask for one are counted.
func (s *Session) id() int64 {
	c := s.about()
	if c.id == 0 {
		c.id = 1
		if s.config.Clients != nil {
			c.id = s.config.Clients.Add(1)
		}
	}
	return c.id
}

// reset makes the session a new one. Its number stays.
func (s *Session) reset() {
	if s.client != nil {
		s.client.name, s.client.user = "", ""
	}
	s.is &= inline | skip // a reply that is to be skipped is this one
}

// clientCommand answers the subcommands of CLIENT.
func (s *Session) clientCommand(t *turn, e *entry, sub string, a arguments) {
	switch sub {
	case "id":
		t.integer(s.id())
	case "getname":
		if s.name() == "" {
			s.null(t)
		} else {
			t.text(s.name())
		}
	case "setname":
		if s.setName(t, a.next()) {
			t.ok()
		}
	case "setinfo":
		t.setInfo(a)
	case "info":
		s.verbatim(t, s.info1(e))
	case "list":
		s.listClients(t, e, a)
	case "no-evict", "no-touch":
		if on := a.next(); isWord(on, "on") || isWord(on, "off") {
			t.ok()
		} else {
			t.blame(errSyntax)
		}
	case "tracking":
		t.tracking(a)
	case "reply":
		s.switchReplies(t, a.next())
	}
}

// isClean reports whether a word is made of letters, digits and signs alone.
func isClean(word []byte) bool {
	for _, c := range word {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

// setName names the connection, or replies why not.
func (s *Session) setName(t *turn, name []byte) bool {
	switch {
	case !isClean(name):
		t.blame("ERR Client names cannot contain spaces, newlines or special characters.")
	case len(name) > maxName:
		t.blame("ERR client name is longer than 256 bytes")
	default:
		if string(name) != s.name() {
			s.about().name = string(name)
		}
		return true
	}
	return false
}

// setInfo answers CLIENT SETINFO. Nothing looks at what it says, so it is not kept.
func (t *turn) setInfo(a arguments) {
	option, value := a.next(), a.next()
	switch name := isWord(option, "lib-name"); {
	case !name && !isWord(option, "lib-ver"):
		t.Add(protocol.Malformed, 1)
		t.Say("-ERR Unrecognized option '")
		t.quote(option, maxQuoted)
		t.Say("'\r\n")
	case !isClean(value) && name:
		t.blame("ERR lib-name cannot contain spaces, newlines or special characters.")
	case !isClean(value):
		t.blame("ERR lib-ver cannot contain spaces, newlines or special characters.")
	default:
		t.ok()
	}
}

// info1 describes this connection in a line, as far as the session knows it: not its addresses, nor
// its age.
func (s *Session) info1(e *entry) string {
	var b strings.Builder
	b.WriteString("id=" + strconv.FormatInt(s.id(), 10) + " addr= laddr= fd=-1 name=" + s.name())
	b.WriteString(" age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0")
	// redis-py fails without these, though it looks at none of them.
	b.WriteString(" qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0")
	b.WriteString(" events=r cmd=" + e.name + " user=" + s.user())
	b.WriteString(" redir=-1 resp=" + strconv.FormatInt(s.version(), 10) + "\n")
	return b.String()
}

// listClients answers CLIENT LIST with this connection, if it is one of those asked for.
func (s *Session) listClients(t *turn, e *entry, a arguments) {
	listed := true
	if a.n > 0 {
		switch option := a.next(); {
		case isWord(option, "type") && a.n == 1:
			kind := a.next()
			listed = isWord(kind, "normal")
			if !listed && !isWord(kind, "master") && !isWord(kind, "replica") && !isWord(kind, "slave") &&
				!isWord(kind, "pubsub") {
				t.Add(protocol.Malformed, 1)
				t.Say("-ERR Unknown client type '")
				t.quote(kind, len(kind))
				t.Say("'\r\n")
				return
			}
		case isWord(option, "id") && a.n > 0:
			listed = false
			for a.n > 0 {
				id, ok := parseInt(a.next())
				if !ok {
					t.blame("ERR Invalid client ID")
					return
				}
				listed = listed || id == s.id()
			}
		default:
			t.blame(errSyntax)
			return
		}
	}
	line := ""
	if listed {
		line = s.info1(e)
	}
	s.verbatim(t, line)
}

// tracking answers CLIENT TRACKING. Clients that get OK keep the answers to GET, and hand the same id out
// again; no other answer has them go on without their cache.
func (t *turn) tracking(a arguments) {
	if isWord(a.next(), "off") && a.n == 0 {
		t.ok()
	} else {
		t.blame("ERR a client that caches would hand out an id twice: switch its client-side cache off")
	}
}

// switchReplies answers CLIENT REPLY; Feed takes the replies back.
func (s *Session) switchReplies(t *turn, how []byte) {
	switch {
	case isWord(how, "on"):
		s.is &^= mute | skip
		t.ok()
	case isWord(how, "off"):
		s.is |= mute
	case isWord(how, "skip") && s.is&mute != 0: // nothing is to be replied anyway
	case isWord(how, "skip"):
		s.is |= skipNext
	default:
		t.blame(errSyntax)
	}
}
