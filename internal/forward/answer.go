package forward

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

// An answer is one of those that INCRBY and AUTH have. Nothing else is understood: what it says is not
// trusted, and a longer line is not waited for.
type answer struct {
	kind   kind
	number uint64 // of an integer: 1 to 2^63-1
	text   string // of the others, without the first character
}

type kind byte

const (
	integer kind = ':'
	failure kind = '-'
	status  kind = '+'
)

// maxLine is how many bytes the line of an answer may have. The longest of ours is that of a refusal,
// some 300.
const maxLine = 1024

var errAnswer = errors.New("the answer is not one that a katsubushi gives")

// parse reads the first answer in b, which took n bytes; n = 0 means that it has not come whole.
func parse(b []byte) (a answer, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	switch {
	case end < 0 && len(b) >= maxLine:
		return a, 0, errAnswer
	case end < 0:
		return a, 0, nil
	case end < 2 || b[end-1] != '\r':
		return a, 0, errAnswer
	}
	a.kind = kind(b[0])
	switch line := b[1 : end-1]; a.kind {
	case integer:
		if !isNumber(line) {
			return a, 0, errAnswer
		}
		v, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			return a, 0, errAnswer
		}
		a.number = uint64(v)
	case failure, status:
		a.text = string(line)
	default:
		return a, 0, errAnswer
	}
	return a, end + 1, nil
}

// isNumber reports whether b is digits, as a number above 0 is written.
func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0 && b[0] != '0'
}

// An input is what was read and not yet understood.
type input struct {
	buffer   [4 * maxLine]byte
	from, to int // the part of it
}

// next returns the next answer, for which it reads as much as it needs.
func (in *input) next(from io.Reader) (answer, error) {
	for {
		a, n, err := parse(in.buffer[in.from:in.to])
		if err != nil || n > 0 {
			in.from += n
			return a, err
		}
		in.from, in.to = 0, copy(in.buffer[:], in.buffer[in.from:in.to]) // less than maxLine
		n, err = from.Read(in.buffer[in.to:])
		in.to += n
		if n == 0 && err != nil {
			return answer{}, err
		}
	}
}

// appendCommand appends a command with its words.
func appendCommand(b []byte, words ...string) []byte {
	b = append(strconv.AppendInt(append(b, '*'), int64(len(words)), 10), "\r\n"...)
	for _, w := range words {
		b = append(strconv.AppendInt(append(b, '$'), int64(len(w)), 10), "\r\n"...)
		b = append(append(b, w...), "\r\n"...)
	}
	return b
}
