package protocol

import "math"

// fields are the arguments of a line that takes few.
type fields struct {
	f [6][]byte
	n int // how many there are, which may be more than f holds
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

// at is field i, or nil.
func (f *fields) at(i int) []byte {
	if i < 0 || i >= min(f.n, len(f.f)) {
		return nil
	}
	return f.f[i]
}

// noreply tells whether the last field asks for silence.
func (f *fields) noreply() bool { return string(f.at(f.n-1)) == "noreply" }

// parseUint reads a number of so many bits.
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
