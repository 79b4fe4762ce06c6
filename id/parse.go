package id

import (
	"errors"
	"strconv"
	"strings"
)

// ErrSyntax: the text is not an id of any form.
var ErrSyntax = errors.New("not an id: a decimal number of at most 64 bits is one, and so are a UUID (36 " +
	"characters), a ULID (26, the first at most 7) and an ObjectID (24 hexadecimal digits)")

// Parse reads an id of any form; the length tells which. Letters may be upper- or lower-case. The only
// error is ErrSyntax.
func Parse(s string) (Run, error) {
	var high, low uint64
	var ok bool
	switch len(s) {
	case 36:
		if s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
			high, low, ok = parseDigits(s[0:8]+s[9:13]+s[14:18]+s[19:23]+s[24:], hexadecimal)
		}
		if ok {
			return TextRun(UUID, high, low), nil
		}
	case 26:
		if high, low, ok = parseDigits(s, crockford); ok && s[0] <= '7' {
			return TextRun(ULID, high, low), nil
		}
	case 24:
		if high, low, ok = parseDigits(s, hexadecimal); ok {
			return TextRun(ObjectID, high, low), nil
		}
	default:
		if v, err := strconv.ParseUint(s, 10, 64); err == nil {
			return Run{First: v, Stride: 1, N: 1}, nil
		}
	}
	return Run{}, ErrSyntax
}

const hexadecimal = "0123456789ABCDEF"

// parseDigits reads a number in base 16 or 32, of which it keeps the lower 128 bits.
func parseDigits(s, digits string) (high, low uint64, ok bool) {
	bits := 4
	if len(digits) == 32 {
		bits = 5
	}
	for _, c := range []byte(s) {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		d := strings.IndexByte(digits, c)
		if d < 0 {
			return 0, 0, false
		}
		high, low = high<<bits|low>>(64-bits), low<<bits|uint64(d)
	}
	return high, low, true
}
