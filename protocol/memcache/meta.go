package memcache

import (
	"encoding/base64"
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// The meta commands are part of the text grammar: two letters, a key, then one-letter flags, some
// of them followed by a token. Flags that ask for something come back in the order of the request.

const (
	errMetaFlags     = "CLIENT_ERROR options flags are too long\r\n"
	errMetaDuplicate = "CLIENT_ERROR duplicate flag\r\n"
	errMetaInvalid   = "CLIENT_ERROR invalid flag\r\n"
	errMetaToken     = "CLIENT_ERROR bad token in command line format\r\n"
	errMetaInitial   = "CLIENT_ERROR invalid numeric initial value\r\n"
	errMetaDelta     = "CLIENT_ERROR invalid numeric delta value\r\n"
	errMetaKey       = "CLIENT_ERROR error decoding key\r\n"
	errMetaMode      = "CLIENT_ERROR invalid mode for ma M token\r\n"
	errMetaOpaque    = "CLIENT_ERROR opaque token too long\r\n"

	// md and ma reply this to any mistake in a flag except a long opaque, and to too many flags.
	errMissFlag  = "CLIENT_ERROR invalid or duplicate flag\r\n"
	errMissFlags = "CLIENT_ERROR options flags too long\r\n"

	maxMetaFlags = 18 // flags of one command
	maxOpaque    = 32 // bytes of an opaque flag, its letter included

	// metaRoom is the most that the answer to a meta command takes besides the key: an id up to
	// three times, an opaque, and a few bytes more.
	metaRoom = 256
)

// A meta is a parsed meta command.
type meta struct {
	key    []byte // as it was sent
	flags  []byte // the rest of the line
	value  bool   // v: the id is wanted
	base64 bool   // b: the key is base64
}

// parseMeta parses the arguments of a meta command; skip is how many tokens stand between the key
// and the flags. complaint says what is wrong, "" when nothing is. Of several mistakes it names the one
// that memcached does: the first duplicate or unknown flag, else the last wrong token but F's, else F's,
// else a long opaque.
func parseMeta(rest []byte, skip int) (m meta, complaint string) {
	m.key, m.flags, _ = cut(rest)
	for range skip {
		_, m.flags, _ = cut(m.flags)
	}
	if n := len(m.key); n == 0 || n > protocol.MaxKey {
		return m, errFormat
	}
	var seen [2]uint64 // one bit per letter
	n, ended := 0, false
	for flag, more, _ := cut(m.flags); len(flag) > 0; flag, more, _ = cut(more) {
		letter := flag[0]
		if n++; n > maxMetaFlags { // this error comes first
			return m, errMetaFlags
		}
		if ended {
			continue
		}
		wrong := errMetaDuplicate
		if letter < 127 && seen[letter/64]>>(letter%64)&1 == 0 {
			wrong = m.checkFlag(letter, flag[1:])
		}
		if wrong != "" && (complaint == "" || complaint == errMetaOpaque || wrong != errMetaOpaque && wrong != errFormat) {
			complaint, ended = wrong, wrong == errMetaDuplicate || wrong == errMetaInvalid
		}
		seen[letter/64%2] |= 1 << (letter % 64)
		m.value = m.value || letter == 'v'
		m.base64 = m.base64 || letter == 'b'
	}
	return m, complaint
}

// checkFlag accepts all flags of all meta commands, as memcached does. Each command decides what a
// flag means.
func (m *meta) checkFlag(letter byte, token []byte) (complaint string) {
	ok := true
	switch letter {
	case 'N', 'T', 'R':
		_, ok = parseInt(token, 32)
		complaint = errMetaToken
	case 'C', 'E':
		_, ok = parseUint(token, 64)
		complaint = errMetaToken
	case 'F':
		_, ok = parseUint(token, 32)
		complaint = errFormat
	case 'J':
		_, ok = parseUint(token, 64)
		complaint = errMetaInitial
	case 'D':
		_, ok = parseUint(token, 64)
		complaint = errMetaDelta
	case 'O':
		ok = len(token) < maxOpaque
		complaint = errMetaOpaque
	case 'b':
		ok = isBase64(m.key)
		complaint = errMetaKey
	case 'c', 'f', 'h', 'k', 'l', 'q', 's', 't', 'u', 'v', 'x', 'I', 'L', 'M', 'P':
	default:
		return errMetaInvalid
	}
	if ok {
		return ""
	}
	return complaint
}

func isBase64(key []byte) bool {
	var b [protocol.MaxKey]byte
	n, err := base64.StdEncoding.Decode(b[:], key)
	return err == nil && n > 0
}

// name returns the key as a Handler expects it. out is scratch space: decoding uses the room behind
// its end, so it allocates nothing.
func (m *meta) name(out []byte) []byte {
	if !m.base64 {
		return m.key
	}
	name := out[len(out) : len(out)+len(m.key)]
	n, _ := base64.StdEncoding.Decode(name, m.key)
	return name[:n]
}

// metaGet answers mg: with v, the id and what the flags ask about it; without v, only the latter.
// The q flag silences misses, and there are none.
func (s *Session) metaGet(t *turn, rest []byte) error {
	t.Add(protocol.CmdMetaGet, 1)
	m, complaint := parseMeta(rest, 0)
	if complaint != "" {
		t.blame(complaint)
		return nil
	}
	out := slices.Grow(t.Out, metaRoom+len(m.key))
	run, err := t.Issue(s.config.Handler, m.name(out))
	if err != nil {
		return t.refuseOrWait(protocol.CmdMetaGet, err)
	}
	var text id.Text
	text.Start(run)
	if m.value {
		out = appendLen(append(out, "VA "...), &text)
	} else {
		out = append(out, "HD"...)
	}
	for flag, more, _ := cut(m.flags); len(flag) > 0; flag, more, _ = cut(more) {
		switch flag[0] {
		case 's':
			out = appendLen(append(out, " s"...), &text)
		case 'c':
			out = text.AppendNumber(append(out, " c"...))
		case 'f', 'h', 'l': // no flags, not fetched before, made just now
			out = append(out, ' ', flag[0], '0')
		case 't':
			out = append(out, " t-1"...)
		default:
			out = m.echo(out, flag)
		}
	}
	if out = append(out, "\r\n"...); m.value {
		out = text.AppendLine(out)
	}
	t.Out = out
	return nil
}

// echo appends the flags that come back unchanged with every answer.
func (m *meta) echo(out, flag []byte) []byte {
	switch {
	case flag[0] == 'O':
		out = append(append(out, ' '), flag...)
	case flag[0] == 'k' && m.base64:
		out = append(append(append(out, " k"...), m.key...), " b"...)
	case flag[0] == 'k':
		out = append(append(out, " k"...), m.key...)
	}
	return out
}

// parseMiss is parseMeta for md and ma, which have errors of their own.
func parseMiss(rest []byte) (m meta, complaint string) {
	m, complaint = parseMeta(rest, 0)
	switch {
	case complaint == errMetaFlags:
		complaint = errMissFlags
	case complaint != "" && complaint != errMetaOpaque && 0 < len(m.key) && len(m.key) <= protocol.MaxKey:
		complaint = errMissFlag
	}
	return m, complaint
}

// metaDelete answers md, which never finds a key.
func (t *turn) metaDelete(rest []byte) {
	t.Add(protocol.CmdDelete, 1)
	m, complaint := parseMiss(rest)
	if complaint != "" {
		t.blame(complaint)
		return
	}
	t.metaAnswer("NF", &m)
}

// metaAnswer appends a code and the flags that come back with every answer.
func (t *turn) metaAnswer(code string, m *meta) {
	out := append(t.Out, code...)
	for flag, more, _ := cut(m.flags); len(flag) > 0; flag, more, _ = cut(more) {
		out = m.echo(out, flag)
	}
	t.Out = append(out, "\r\n"...)
}

// metaSet answers ms once its data block has been discarded. q does not silence errors.
func (s *Session) metaSet(t *turn, rest []byte) {
	t.Add(protocol.CmdSet, 1)
	f := split(rest)
	size, ok := parseSize(f.at(1))
	if !ok {
		t.blame(errFormat)
		return
	}
	switch _, complaint := parseMeta(rest, 1); {
	case complaint != "":
		t.blame(complaint)
		s.swallow(size + 2)
	case size > MaxBody:
		t.Add(protocol.TooLong, 1)
		t.Say(errTooLarge)
		s.swallow(size + 2)
	default:
		s.state, s.answer, s.left = body, sayReadOnly, uint32(size)
	}
}

// metaDebug answers me, which describes an item: the id that a get of the key would return.
func (s *Session) metaDebug(t *turn, rest []byte) error {
	t.Add(protocol.CmdMeta, 1)
	f := split(rest)
	m := meta{key: f.at(0), base64: string(f.at(1)) == "b"}
	if n := len(m.key); n == 0 || n > protocol.MaxKey || m.base64 && !isBase64(m.key) {
		t.blame(errFormat)
		return nil
	}
	out := slices.Grow(t.Out, metaRoom+len(m.key))
	run, err := t.Issue(s.config.Handler, m.name(out))
	if err != nil {
		return t.refuseOrWait(protocol.CmdMeta, err)
	}
	var text id.Text
	text.Start(run)
	out = append(append(append(out, "ME "...), m.key...), " exp=-1 la=0 cas="...)
	out = append(text.AppendNumber(out), " fetch=yes cls=1 size="...)
	t.Out = append(appendLen(out, &text), "\r\n"...)
	return nil
}
