package resp

import (
	"bytes"
	"math"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A command is an array of strings:
//
//	*2\r\n $3\r\nGET\r\n $2\r\nid\r\n
//
// Redis looks at the CR of a line and takes the byte behind it for the LF, whatever it is. The same
// goes for the two bytes behind a string. So does this package.

// redisBulk is the longest string that Redis takes, in bytes.
const redisBulk = 512 << 20

// What a client may send before it has logged in, as in Redis: arguments, and bytes of one.
const (
	strangersArgs = 10
	strangersBulk = 16 << 10
)

// maxNumber is how many bytes a line with a length may have. The longest number is shorter.
const maxNumber = 32

// arguments walks through the arguments of a command, which has arrived whole.
type arguments struct {
	rest   []byte
	n      int // arguments left
	inline bool
	end    int // of an inline command: bytes of the line's end
}

// next returns the next argument; there must be one. An argument in quotes is a copy, all others are
// parts of the input.
func (a *arguments) next() (arg []byte) {
	a.n--
	if a.inline {
		arg, a.rest, _ = cutWord(a.rest)
		return arg
	}
	size, k, _ := parseLength(a.rest)
	arg, a.rest = a.rest[k:k+int(size)], a.rest[k+int(size)+2:]
	return arg
}

// parseLength parses the line at the start of in: a type, a number, CR and another byte. n is the
// line's length, 0 if it has not arrived. ok reports whether the number is one.
func parseLength(in []byte) (v int64, n int, ok bool) {
	if len(in) > 3 && in[2] == '\r' && in[1]-'0' < 10 { // nearly always
		return int64(in[1] - '0'), 4, true
	}
	return parseLongLength(in)
}

// parseLongLength is parseLength for any number.
func parseLongLength(in []byte) (v int64, n int, ok bool) {
	for i := 1; i < min(len(in), maxNumber); i++ {
		if in[i] == '\r' {
			if i+1 == len(in) {
				return 0, 0, false
			}
			v, ok = parseInt(in[1:i])
			return v, i + 2, ok
		}
	}
	if len(in) < maxNumber {
		return 0, 0, false
	}
	return 0, maxNumber, false
}

// next finds the command behind those that are queued. n = 0 means that it has not arrived whole; a
// command without arguments is to be ignored. ErrClose means that it cannot be one; the reply is
// sent.
func (s *Session) next(t *turn, in []byte) (a arguments, n int, err error) {
	if s.state == start {
		if in[0] != firstByte {
			return s.nextLine(t, in)
		}
		count, k, ok := parseLength(in)
		if ok && 0 < count && count <= strangersArgs {
			s.state = command
		} else if a, n, err = s.begin(t, in, count, k, ok); s.state != command {
			return a, n, err
		}
		s.args, s.scanned = uint16(count), uint32(k)
	}
	for s.args > 0 {
		rest := in[s.scanned:]
		size, k, ok := parseLength(rest)
		if !ok || rest[0] != '$' || uint64(size) > strangersBulk {
			if k == 0 && (len(rest) < 2 || rest[0] != '\r') { // an empty line ends where a '$' should be
				return a, 0, nil
			}
			if wrong := s.wrongBulk(rest, size, ok); wrong != "" {
				return s.malformed(t, in, wrong)
			}
		}
		switch end := k + int(size) + 2; {
		case int(s.scanned)+end > maxCommand:
			return s.tooLong(t, in, "too big command")
		case len(rest) < end:
			return a, 0, nil
		case s.is&long != 0 && !isWord(rest[k:k+int(size)], "mget"):
			return s.malformed(t, in, "invalid multibulk length")
		}
		s.is &^= long
		s.args--
		s.scanned += uint32(k + int(size) + 2)
	}
	n = int(s.scanned)
	s.state, s.scanned = start, 0
	count, k, _ := parseLength(in)
	return arguments{rest: in[k:n], n: int(count)}, n, nil
}

// begin is for a command that has not arrived, is none, or has many arguments. s.state is command behind it if next
// goes on.
func (s *Session) begin(t *turn, in []byte, count int64, k int, ok bool) (a arguments, n int, err error) {
	switch {
	case k == 0:
		return a, 0, nil
	case ok && count > strangersArgs && count <= math.MaxInt32 && s.locked():
		return s.malformed(t, in, "unauthenticated multibulk length")
	case !ok || count > maxKeys+1:
		return s.malformed(t, in, "invalid multibulk length")
	case count <= 0:
		return a, k, nil
	case count > maxArgs:
		s.is |= long
	}
	s.state = command
	return a, 0, nil
}

// wrongBulk says what is wrong with the length of an argument at the start of rest, if anything is.
func (s *Session) wrongBulk(rest []byte, size int64, ok bool) string {
	switch {
	case rest[0] != '$':
		return "expected '$', got '" + string(rest[:1]) + "'"
	case ok && strangersBulk < size && size <= redisBulk && s.locked():
		return "unauthenticated bulk length"
	case !ok || size < 0 || size > maxCommand:
		return "invalid bulk length"
	}
	return ""
}

// nextLine is next for an inline command: words in a line, as in a shell.
func (s *Session) nextLine(t *turn, in []byte) (a arguments, n int, err error) {
	if s.is&inline == 0 {
		return s.malformed(t, in, "expected '*', got '"+string(in[:1])+"'")
	}
	window := in[:min(len(in), maxInline)]
	i := bytes.IndexByte(window[s.scanned:], '\n')
	if i < 0 {
		s.scanned = uint32(len(window))
		if len(window) < maxInline {
			return a, 0, nil
		}
		return s.tooLong(t, in, "too big inline request")
	}
	n = int(s.scanned) + i + 1
	s.scanned = 0
	a = arguments{rest: trim(in[:n]), inline: true}
	a.end = n - len(a.rest)
	for rest := a.rest; ; a.n++ {
		var word []byte
		var ok bool
		if word, rest, ok = cutWord(rest); !ok {
			return s.malformed(t, in, "unbalanced quotes in request")
		}
		if word == nil {
			break
		}
	}
	if a.n > maxArgs {
		return s.tooLong(t, in, "too big inline request")
	}
	return a, n, nil
}

// malformed answers input that is no command. What follows cannot be understood either.
func (s *Session) malformed(t *turn, in []byte, what string) (arguments, int, error) {
	t.Add(protocol.Malformed, 1)
	t.fail("ERR Protocol error: ", what)
	return arguments{}, len(in), s.hangUp()
}

// tooLong answers a command over a limit.
func (s *Session) tooLong(t *turn, in []byte, what string) (arguments, int, error) {
	t.Add(protocol.TooLong, 1)
	t.fail("ERR Protocol error: ", what)
	return arguments{}, len(in), s.hangUp()
}

// trim removes the line's end, LF or CR LF.
func trim(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// cutWord splits off the first word of an inline command; it returns nil if there is none. ok
// reports whether its quotes are balanced.
func cutWord(line []byte) (word, rest []byte, ok bool) {
	i := 0
	for i < len(line) && isSpace(line[i]) {
		i++
	}
	line = line[i:]
	for i, c := range line {
		switch c {
		case ' ', '\t', '\r':
			return line[:i], line[i:], true
		case '"', '\'':
			return unquote(line)
		}
	}
	if len(line) == 0 {
		line = nil
	}
	return line, nil, true
}

// unquote is cutWord for a word with a quote in it. In "..." backslashes stand for bytes; in '...'
// only \' does.
func unquote(line []byte) (word, rest []byte, ok bool) {
	word = []byte{}
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r'):
			return word, line[i:], true
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			if i+1 < len(line) && !isSpace(line[i+1]) {
				return nil, nil, false
			}
			return word, line[i+1:], true
		case quote == '"' && c == '\\' && i+1 < len(line):
			var k int
			word, k = unescape(word, line[i+1:])
			i += k
		case quote == '\'' && c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			word, i = append(word, '\''), i+1
		default:
			word = append(word, c)
		}
	}
	return word, nil, quote == 0
}

// unescape appends what a backslash with text behind it stands for. n is how many bytes of text
// belong to it.
func unescape(word, text []byte) (_ []byte, n int) {
	if text[0] == 'x' && len(text) > 2 {
		high, low := fromHex(text[1]), fromHex(text[2])
		if high < 16 && low < 16 {
			return append(word, high<<4|low), 3
		}
	}
	c := text[0]
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'a':
		c = '\a'
	}
	return append(word, c), 1
}

// fromHex returns the value of a hexadecimal digit, or 16.
func fromHex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}
