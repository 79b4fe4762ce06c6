// Package visible makes texts from elsewhere fit to be shown: whatever answers at the address of a store
// can put control characters into an error or a record, and a terminal would obey them. It escapes those,
// and what turns the direction of a text, as JSON and Go do: \u001b, and \xff for a byte that is no UTF-8.
// Everything else, in any script, stays as it is; and JSON stays JSON.
package visible

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as a terminal may show it. Line ends and tabs stay.
func Text(s string) string { return string(appendText(nil, s)) }

// AppendLine appends s to dst as a part of a line: at most limit bytes, and no part of a character or of an
// escape. A line end becomes a space; tabs stay.
func AppendLine(dst []byte, s string, limit int) []byte {
	for end := len(dst) + limit; len(s) > 0; {
		before := len(dst)
		c, n := utf8.DecodeRuneInString(s)
		if c == '\r' || c == '\n' {
			dst = append(dst, ' ')
		} else {
			dst = appendShown(dst, s[:n], c)
		}
		if len(dst) > end {
			return dst[:before]
		}
		s = s[n:]
	}
	return dst
}

// A Writer makes visible what is written to it, whole characters each time. Line ends and tabs stay.
type Writer struct{ To io.Writer }

// Write implements io.Writer. It makes one write of each.
func (w Writer) Write(text []byte) (int, error) {
	if _, err := w.To.Write(appendText(make([]byte, 0, len(text)), string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

func appendText(dst []byte, s string) []byte {
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if c == '\n' {
			dst = append(dst, '\n')
		} else {
			dst = appendShown(dst, s[:n], c)
		}
		s = s[n:]
	}
	return dst
}

// appendShown appends the character c, which is encoded as s.
func appendShown(dst []byte, s string, c rune) []byte {
	switch high, low := utf16.EncodeRune(c); {
	case c == utf8.RuneError && len(s) == 1:
		return fmt.Appendf(dst, `\x%02x`, s[0])
	case c == '\t' || unicode.IsGraphic(c):
		return append(dst, s...)
	case high != utf8.RuneError:
		return fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(dst, `\u%04x`, c)
}
