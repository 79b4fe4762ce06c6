package resp

import (
	"bytes"
	"strings"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// execute answers a command of n bytes and returns how many of them are consumed: all, the first keys
// of an MGET, or none with id.ErrWait.
func (s *Session) execute(t *turn, a arguments, n int) (k int, err error) {
	if a.n == 2 && !s.locked() { // the fast paths
		args := a
		switch name := args.next(); {
		case isWord(name, "get"):
			k, err = s.get(t, args.next(), n)
			t.count(protocol.CmdGet, k)
			return k, err
		case isWord(name, "incr"):
			k, err = s.increment(t, args.next(), 1, n)
			t.count(protocol.CmdIncr, k)
			return k, err
		}
	}
	e, ok := s.admit(t, a)
	switch {
	case e == nil:
		return n, s.hangUp()
	case !ok:
		return n, nil
	}
	a.next()
	k, err = s.act(t, e, a, n)
	if e.name != "hello" && e.name != "auth" { // they count themselves
		t.count(e.kind, k)
	}
	return k, err
}

// count counts a command that consumed n bytes. One that consumed none must wait, and is counted
// when it comes again.
func (t *turn) count(kind protocol.Counter, n int) {
	if n > 0 {
		t.Add(kind, 1)
	}
}

// admit finds out what a command is. ok = false means that it must not be run; the reply is sent.
// Without an entry the connection is to be closed.
func (s *Session) admit(t *turn, a arguments) (e *entry, ok bool) {
	whole, n := a, a.n
	name := a.next()
	e = find(name)
	switch {
	case isWord(name, "post"), isWord(name, "host:"): // a browser, perhaps one that an attacker directs at this port
		t.Add(protocol.CmdOther, 1)
		t.Add(protocol.Malformed, 1)
		return nil, false
	case e == nil:
		t.Add(protocol.CmdOther, 1)
		t.unknown(whole)
		return &unknown, false
	case len(e.sub) > 0 && n > 1:
		top, sub := e, a.next()
		if e = top.findSub(sub); e == nil {
			t.Add(protocol.CmdOther, 1)
			t.unknownSubcommand(top, sub)
			return &unknown, false
		}
	}
	fits := e.fits(n)
	if fits && (e.open || !s.locked()) {
		return e, true
	}
	t.Say("-")
	if e.name == "exec" {
		t.Say(errAbortedBy)
	} else if !fits {
		t.Say("ERR ")
	}
	if fits {
		t.Add(protocol.Unauthenticated, 1)
		t.Say(errNoAuth)
	} else {
		t.Add(e.kind, 1)
		t.Add(protocol.Malformed, 1)
		t.Say("wrong number of arguments for '")
		t.Say(e.name)
		t.Say("' command")
	}
	t.Say("\r\n")
	return e, false
}

// unknown is the entry of a command that does not exist.
var unknown entry

// maxQuoted is how many bytes of a command, and of its arguments together, an error quotes.
const maxQuoted = 128

// unknown answers a command that does not exist.
func (t *turn) unknown(a arguments) {
	t.Add(protocol.Malformed, 1)
	t.Say("-ERR unknown command '")
	t.quote(a.next(), maxQuoted)
	t.Say("', with args beginning with: ")
	for begin := len(t.Out); a.n > 0 && len(t.Out)-begin < maxQuoted; {
		room := maxQuoted - (len(t.Out) - begin)
		t.Say("'")
		t.quote(a.next(), room)
		t.Say("' ")
	}
	t.Say("\r\n")
}

// unknownSubcommand answers a subcommand that does not exist.
func (t *turn) unknownSubcommand(e *entry, sub []byte) {
	t.Add(protocol.Malformed, 1)
	t.Say("-ERR unknown subcommand '")
	t.quote(sub, maxQuoted)
	t.Say("'. Try ")
	t.upper(e.name)
	t.Say(" HELP.\r\n")
}

// upper appends a command's name in upper case.
func (t *turn) upper(name string) {
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		t.Out = append(t.Out, c)
	}
}

// quote appends a client's word to an error, up to a NUL, as Redis does.
func (t *turn) quote(b []byte, limit int) {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	t.echo(b[:min(len(b), limit)])
}

// echo appends what the client has sent, without any byte that could end the line.
func (t *turn) echo(b []byte) {
	for _, c := range b {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		t.Out = append(t.Out, c)
	}
}

// act answers a command that is admitted; a is what follows its name. It returns what execute does.
func (s *Session) act(t *turn, e *entry, a arguments, n int) (int, error) {
	switch e.name {
	case "get":
		return s.get(t, a.next(), n)
	case "mget":
		return s.getMany(t, e, a, n)
	case "incr":
		return s.increment(t, a.next(), 1, n)
	case "incrby":
		key := a.next()
		by, ok := parseInt(a.next())
		if !ok || by < 1 || by > id.MaxReserve {
			t.blame(errNotInteger)
			return n, nil
		}
		return s.increment(t, key, int(by), n)
	case "multi":
		s.is |= multi
		t.ok()
	case "exec":
		t.blame("ERR EXEC without MULTI")
	case "discard":
		t.blame("ERR DISCARD without MULTI")
	case "quit":
		t.ok()
		return n, s.hangUp()
	case "hello":
		return unlessWaiting(n, s.hello(t, a))
	case "auth":
		return unlessWaiting(n, s.auth(t, a))
	default:
		begin := len(t.Out)
		t.Enough = e.slow
		s.reply(t, e, a)
		if len(t.Out)-begin > protocol.ReplyChunk && e.name != "info" {
			t.Out = t.Out[:begin]
			t.blame(errReply)
		}
	}
	return n, nil
}

// unlessWaiting returns what execute does for a login of n bytes.
func unlessWaiting(n int, err error) (int, error) {
	if err == id.ErrWait {
		n = 0
	}
	return n, err
}

// reply answers a command that has no other effect than on this session, and never waits.
func (s *Session) reply(t *turn, e *entry, a arguments) {
	if e.refused {
		t.fail(errReadOnly, "")
		return
	}
	switch e.name {
	case "asking", "watch", "unwatch":
		t.ok()
	case "ping", "echo":
		t.ping(e, a)
	case "select":
		t.selectDB(a.next())
	case "dbsize":
		t.integer(0)
	case "type":
		t.Say("+string\r\n")
	case "exists":
		t.integer(int64(a.n))
	case "ttl", "pttl":
		t.integer(-1)
	case "time":
		t.tellTime()
	case "role":
		t.array(3)
		t.text("master")
		t.integer(0)
		t.array(0)
	case "readonly":
		s.is |= reads
		t.Remote = s.remote()
		t.ok()
	case "readwrite":
		s.is &^= reads
		t.Remote = s.remote()
		t.ok()
	case "reset":
		s.reset()
		t.Remote = s.remote()
		t.Say("+RESET\r\n")
	case "info":
		s.info(t, a)
	case "command":
		t.array(len(entries))
		for _, e := range entries {
			s.describe(t, e)
		}
	default:
		a.next()
		s.subcommand(t, e, a)
	}
}

// subcommand is reply for the commands of containers; a is what follows both names.
func (s *Session) subcommand(t *turn, e *entry, a arguments) {
	switch container, sub, _ := strings.Cut(e.name, "|"); {
	case sub == "help":
		t.help(e)
	case container == "cluster":
		s.cluster(t, sub, a)
	case container == "client":
		s.clientCommand(t, e, sub, a)
	case container == "config":
		s.configGet(t, a)
	case container == "acl":
		t.text(s.user())
	case sub == "count":
		t.integer(int64(len(entries)))
	case sub == "docs":
		s.documentMany(t, a)
	case sub == "info":
		s.describeMany(t, a)
	case sub == "getkeys":
		t.keysOf(a)
	}
}

// ping answers PING and ECHO.
func (t *turn) ping(e *entry, a arguments) {
	switch {
	case a.n > 1:
		t.blame("ERR wrong number of arguments for 'ping' command")
	case a.n == 0:
		t.Say("+PONG\r\n")
	default:
		if message := a.next(); len(message) <= maxMessage {
			t.bulk(message)
		} else {
			t.blame(errMessage)
		}
	}
}

func (t *turn) selectDB(number []byte) {
	switch v, ok := parseInt(number); {
	case !ok:
		t.blame(errNotInteger)
	case v != int64(int32(v)):
		t.blame("ERR value is out of range, value must between -2147483648 and 2147483647")
	case v != 0:
		t.blame("ERR DB index is out of range")
	default:
		t.ok()
	}
}

// tellTime answers TIME: seconds, and microseconds of the second.
func (t *turn) tellTime() {
	var b [20]byte
	t.array(2)
	t.bulk(appendInt(b[:0], t.Now/1000))
	t.bulk(appendInt(b[:0], t.Now%1000*1000))
}
