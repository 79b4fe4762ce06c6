package resp

import "math"

// lower appends a word in lower case to dst, or nothing if the word does not fit.
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

// isWord reports whether b is this lower-case word, in any case.
func isWord(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// parseInt reads a number as Redis does: no sign but a minus, no spaces, no leading zeros.
func parseInt(b []byte) (v int64, ok bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	u := uint64(0)
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || u > (limit-d)/10 {
			return 0, false
		}
		u = u*10 + d
	}
	if negative {
		return -int64(u), true
	}
	return int64(u), true
}
