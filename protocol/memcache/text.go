package memcache

import (
	"bytes"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// line answers the command line at the start of in, once its LF has arrived.
func (s *Session) line(t *turn, in []byte) (int, error) {
	window := in[:min(len(in), maxGetLine)]
	i := bytes.IndexByte(window[s.scanned:], '\n')
	if i < 0 {
		s.scanned = uint32(len(window))
		if len(window) < maxLine || len(window) < maxGetLine && s.mayBeLong(in) {
			return 0, nil
		}
		return s.tooLong(t, in)
	}
	n := int(s.scanned) + i + 1
	if n > maxLine && !s.mayBeLong(in) {
		return s.tooLong(t, in)
	}
	s.scanned, s.state = 0, line
	text := trim(in[:n])
	var left int
	var err error
	if len(text) > 4 && string(text[:4]) == "get " { // the fast path
		left, err = s.get(t, text[4:], form{kind: protocol.CmdGet})
	} else {
		left, err = s.execute(t, text)
	}
	if left > 0 {
		n = s.done(in[:n], text, left)
	} else if err == id.ErrWait { // nothing of the line is answered
		n = 0
	}
	return n, err
}

func (s *Session) tooLong(t *turn, in []byte) (int, error) {
	t.Add(protocol.TooLong, 1)
	t.Say(errTooLong)
	return len(in), s.hangUp()
}

// mayBeLong reports whether the line, whose first maxLine bytes have arrived, is a get or ids line. It
// looks only at those bytes, so the answer does not depend on how much has arrived since.
func (s *Session) mayBeLong(in []byte) bool {
	if s.state != longLine {
		verb, _, complete := cut(in[:maxLine])
		switch string(lower(make([]byte, 0, longestVerb), verb)) {
		case "get", "gets", "gat", "gats", "ids":
			if complete {
				s.state = longLine
			}
		}
	}
	return s.state == longLine
}

// done leaves the last bytes of a get or ids line's text to the next step.
func (s *Session) done(whole, text []byte, left int) int {
	if left == 0 {
		return len(whole)
	}
	left += len(whole) - len(text)
	if s.state != runs {
		s.state, s.left = keys, uint32(left)
	}
	return len(whole) - left
}

// execute answers a trimmed line. left is how many bytes at its end remain to be answered.
func (s *Session) execute(t *turn, text []byte) (left int, err error) {
	if isHTTP(lastWord(text)) {
		t.Add(protocol.CmdOther, 1)
		t.Add(protocol.Malformed, 1)
		return 0, s.hangUp()
	}
	verb, rest, _ := cut(text)
	if string(verb) == "GETS" { // kayac's own client sends upper case and expects no cas
		return s.get(t, rest, form{kind: protocol.CmdGets})
	}
	verb = lower(make([]byte, 0, longestVerb), verb)
	switch string(verb) {
	case "get":
		return s.get(t, rest, form{kind: protocol.CmdGet})
	case "gets":
		return s.get(t, rest, form{kind: protocol.CmdGets, cas: true})
	case "gat":
		return s.getAndTouch(t, rest, form{kind: protocol.CmdGat})
	case "gats":
		return s.getAndTouch(t, rest, form{kind: protocol.CmdGat, cas: true})
	case "ids":
		return s.ids(t, rest)
	case "incr":
		return 0, s.incr(t, rest)
	case "mg":
		return 0, s.metaGet(t, rest)
	case "me":
		return 0, s.metaDebug(t, rest)
	case "ma":
		return 0, s.metaArithmetic(t, rest)
	case "quit":
		t.Add(protocol.CmdOther, 1)
		return 0, s.hangUp()
	}
	s.executeAtOnce(t, verb, rest)
	return 0, nil
}

// executeAtOnce answers a line whose verb, in lower case, asks for no id: it neither waits nor hangs up.
func (s *Session) executeAtOnce(t *turn, verb, rest []byte) {
	switch string(verb) {
	case "set", "replace", "append", "prepend":
		s.store(t, rest, 4, sayReadOnly)
	case "add":
		s.store(t, rest, 4, sayNotStored)
	case "cas":
		s.store(t, rest, 5, sayReadOnly)
	case "delete":
		t.delete(rest)
	case "touch":
		t.touch(rest)
	case "decr":
		t.decr(rest)
	case "flush_all":
		t.flushAll(rest)
	case "config":
		s.configure(t, rest)
	case "verbosity":
		t.verbosity(rest)
	case "stats":
		s.stats(t, rest)
	case "mn":
		t.Add(protocol.CmdMeta, 1)
		t.Say("MN\r\n")
	case "ms":
		s.metaSet(t, rest)
	case "md":
		t.metaDelete(rest)
	case "version":
		t.Add(protocol.CmdVersion, 1)
		t.Say("VERSION ")
		t.Say(s.config.Version)
		t.Say("\r\n")
	case "shutdown":
		t.Add(protocol.CmdOther, 1)
		t.Say(errShutdown)
	default:
		t.Add(protocol.CmdOther, 1)
		t.blame(errUnknown)
	}
}
