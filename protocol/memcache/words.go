package memcache

import (
	"bytes"
	"math"
)

// Parsing of command lines.

const longestVerb = len("verbosity")

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

// trim removes the line's end, LF or CR LF, and the spaces before it.
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

// cut splits off the first token; only spaces separate tokens. found reports whether a space
// follows it.
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

// isHTTP reports whether the last word of a line is an HTTP version. Then the client is a browser,
// perhaps one that an attacker directs at this port. It gets no reply.
func isHTTP(word []byte) bool { return len(word) >= 5 && string(word[:5]) == "HTTP/" }

func lastWord(text []byte) []byte { return text[bytes.LastIndexByte(text, ' ')+1:] }

// fields are the arguments of a line that takes few.
type fields struct {
	f [6][]byte
	n int // how many there are; f may hold fewer
}

func split(rest []byte) (f fields) {
	for {
		var token []byte
		if token, rest, _ = cut(rest); len(token) == 0 {
			return f
		}
		if f.n < len(f.f) {
			f.f[f.n] = token
		}
		f.n++
	}
}

// at returns field i, or nil.
func (f *fields) at(i int) []byte {
	if i < 0 || i >= min(f.n, len(f.f)) {
		return nil
	}
	return f.f[i]
}

// noreply reports whether the last field is noreply.
func (f *fields) noreply() bool { return string(f.at(f.n-1)) == "noreply" }

// parseUint reads a number of at most the given bits.
func parseUint(b []byte, bits int) (v uint64, ok bool) {
	limit := uint64(math.MaxUint64) >> (64 - bits)
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || v > (limit-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, len(b) > 0
}

// parseInt is parseUint with a sign.
func parseInt(b []byte, bits int) (v int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	u, ok := parseUint(b, bits-1)
	if negative {
		return -int64(u), ok
	}
	return int64(u), ok
}
