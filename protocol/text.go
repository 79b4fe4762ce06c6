package protocol

import "bytes"

// The sentences of the text grammar, line ends included. Other grammars borrow their reasons from here.
const (
	errUnknown    = "ERROR\r\n"
	errFormat     = "CLIENT_ERROR bad command line format\r\n"
	errTooLong    = "CLIENT_ERROR line too long\r\n"
	errExptime    = "CLIENT_ERROR invalid exptime argument\r\n"
	errDelta      = "CLIENT_ERROR invalid numeric delta argument\r\n"
	errDelete     = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	errStatsUsage = "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
	errChunk      = "CLIENT_ERROR bad data chunk\r\n"
	errTooLarge   = "SERVER_ERROR object too large for cache\r\n"
	errReadOnly   = "SERVER_ERROR " + readOnly + "\r\n"
	errShutdown   = "ERROR: shutdown not enabled\r\n"

	readOnly = "read-only: ids are not stored"
)

// line answers the command line that in begins with, once its LF is there.
func (s *Session) line(t *turn, in []byte) (int, error) {
	window := in[:min(len(in), MaxGetLine)]
	i := bytes.IndexByte(window[s.scanned:], '\n')
	if i < 0 {
		s.scanned = uint32(len(window))
		if len(window) < MaxLine || len(window) < MaxGetLine && s.mayBeLong(in) {
			return 0, nil
		}
		return s.tooLong(t, in)
	}
	n := int(s.scanned) + i + 1
	if n > MaxLine && !s.mayBeLong(in) {
		return s.tooLong(t, in)
	}
	s.scanned, s.long = 0, false
	text := trim(in[:n])
	var left int
	var err error
	if len(text) > 4 && string(text[:4]) == "get " { // the request that matters
		left, err = s.get(t, text[4:], form{kind: CmdGet})
	} else {
		left, err = s.execute(t, text)
	}
	if left > 0 {
		n = s.done(in[:n], text, left)
	}
	return n, err
}

func (s *Session) tooLong(t *turn, in []byte) (int, error) {
	t.add(TooLong, 1)
	t.say(errTooLong)
	return len(in), s.hangUp()
}

// mayBeLong tells whether the line, of which MaxLine bytes are there, is a get's. Whatever came in those bytes decides, so the answer
// does not depend on how much has come since.
func (s *Session) mayBeLong(in []byte) bool {
	if !s.long {
		verb, _, complete := cut(in[:MaxLine])
		switch string(lower(make([]byte, 0, longestVerb), verb)) {
		case "get", "gets", "gat", "gats":
			s.long = complete
		}
	}
	return s.long
}

// done leaves the last bytes of a get line's text to the next step.
func (s *Session) done(whole, text []byte, left int) int {
	if left == 0 {
		return len(whole)
	}
	s.state, s.left = keys, int64(left+len(whole)-len(text))
	return len(whole) - int(s.left)
}

// execute answers a trimmed line. left is how many bytes of keys at its end are still to be answered.
func (s *Session) execute(t *turn, text []byte) (left int, err error) {
	if isHTTP(lastWord(text)) {
		t.add(CmdOther, 1)
		t.add(Malformed, 1)
		return 0, s.hangUp()
	}
	verb, rest, _ := cut(text)
	if string(verb) == "GETS" { // kayac's own client asks in upper case, and wants no cas
		return s.get(t, rest, form{kind: CmdGets})
	}
	switch string(lower(make([]byte, 0, longestVerb), verb)) {
	case "get":
		return s.get(t, rest, form{kind: CmdGet})
	case "gets":
		return s.get(t, rest, form{kind: CmdGets, cas: true})
	case "gat":
		return s.getAndTouch(t, rest, form{kind: CmdGat})
	case "gats":
		return s.getAndTouch(t, rest, form{kind: CmdGat, cas: true})
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
	case "incr", "decr":
		t.incr(rest)
	case "flush_all":
		t.flushAll(rest)
	case "config":
		s.configure(t, rest)
	case "verbosity":
		t.verbosity(rest)
	case "stats":
		s.stats(t, rest)
	case "mg":
		s.metaGet(t, rest)
	case "mn":
		t.add(CmdMeta, 1)
		t.say("MN\r\n")
	case "me":
		s.metaDebug(t, rest)
	case "ms":
		s.metaSet(t, rest)
	case "md":
		t.metaMiss(CmdDelete, rest)
	case "ma":
		t.metaMiss(CmdIncr, rest)
	case "version":
		t.add(CmdVersion, 1)
		t.say("VERSION ")
		t.say(s.config.Version)
		t.say("\r\n")
	case "quit":
		t.add(CmdOther, 1)
		return 0, s.hangUp()
	case "shutdown":
		t.add(CmdOther, 1)
		t.say(errShutdown)
	default:
		t.add(CmdOther, 1)
		t.blame(errUnknown)
	}
	return 0, nil
}

// say appends to the reply.
func (t *turn) say(s string) { t.out = append(t.out, s...) }

// blame answers a command that the client got wrong.
func (t *turn) blame(s string) {
	t.add(Malformed, 1)
	t.say(s)
}

// refuse is SERVER_ERROR with a reason that the program behind gave.
func (t *turn) refuse(reason error) {
	t.say("SERVER_ERROR ")
	t.out = appendLine(t.out, reason.Error(), MaxReason)
	t.say("\r\n")
}

// appendLine appends at most limit bytes of s, with nothing in it that could end the line it stands on.
func appendLine(dst []byte, s string, limit int) []byte {
	for _, c := range []byte(s[:min(len(s), limit)]) {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

const longestVerb = len("verbosity")

// lower appends a word in lower case to dst, or nothing if it does not fit.
func lower(dst, word []byte) []byte {
	if len(word) > cap(dst)-len(dst) {
		return dst
	}
	for _, c := range word {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// trim takes the line's end off, LF or CR LF, and the spaces before it.
func trim(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	for n := len(line); n > 0 && line[n-1] == ' '; n-- {
		line = line[:n-1]
	}
	return line
}

// cut splits the first token off; only spaces separate. found tells whether a space follows it.
func cut(b []byte) (token, rest []byte, found bool) {
	i := 0
	for i < len(b) && b[i] == ' ' {
		i++
	}
	for j := i; j < len(b); j++ {
		if b[j] == ' ' {
			return b[i:j], b[j+1:], true
		}
	}
	return b[i:], nil, false
}

// isHTTP tells whether the last word of a line is an HTTP version: a browser, or somebody who uses one against us. It gets no answer.
func isHTTP(word []byte) bool { return len(word) >= 5 && string(word[:5]) == "HTTP/" }

func lastWord(text []byte) []byte { return text[bytes.LastIndexByte(text, ' ')+1:] }
