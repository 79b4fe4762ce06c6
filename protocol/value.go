package protocol

import (
	"encoding/binary"
	"slices"
)

// issue gets one id for a key. The error's text is for the client.
func (s *Session) issue(t *turn, key []byte) (id uint64, err error) {
	h := s.config.Handler
	t.singles++
	if id, _, _, err = h.Mint(t.now, h.Source(key), 1, t.singles > SingleGets); err != nil {
		t.add(Refused, 1)
	} else {
		t.add(IDs, 1)
	}
	return id, err
}

// A span is a stretch of neighbouring keys of one source: what one Mint may answer.
type span struct {
	n      int // keys
	end    int // bytes
	size   int // bytes of the answer, at most
	source int
}

// span measures the span at the head of text, as far as its answer takes about room bytes, and tells whether all keys in it are valid.
func (s *Session) span(text []byte, room int) (k span, valid bool) {
	valid = true
	for k.size < room {
		from, to := nextKey(text, k.end)
		if from == to {
			break
		}
		source := s.config.Handler.Source(text[from:to])
		if k.n > 0 && source != k.source {
			break
		}
		k.n, k.end, k.source = k.n+1, to, source
		k.size += to - from + valueRoom
		valid = valid && to-from <= MaxKey
	}
	return k, valid
}

// values issues ids and answers the keys of a span with them; sent says how many, all unless issuing failed. They are bulk even where
// one key is left: the line had several.
func (s *Session) values(t *turn, text []byte, k span, f form) (sent int, err error) {
	out := slices.Grow(t.out, k.size)
	end := 0
	for sent < k.n {
		first, stride, n, err := s.config.Handler.Mint(t.now, k.source, k.n-sent, true)
		if err != nil {
			t.out = out
			return sent, err
		}
		var v value
		v.set(first, f.cas)
		for i := range n {
			if i > 0 && !v.add(stride) {
				v.set(v.number()+stride, f.cas)
			}
			out, end = appendKey(append(out, "VALUE "...), text, end)
			out = v.appendTo(out)
		}
		sent += n
	}
	t.out = out
	return sent, nil
}

// A value is what follows the key in the answer to it: flags, length, cas if it is wanted, id.
type value struct {
	decimal
	cas      bool
	frame    uint64 // " 0 19" and CR LF, or with a cas a space
	frameLen int
}

// valueRoom is the most that the answer to a key takes besides the key, and the slack that appending wants behind it.
const valueRoom = len("VALUE ") + 8 + 2*decimalRoom

func (v *value) set(id uint64, cas bool) {
	v.decimal.set(id)
	v.cas = cas
	v.setFrame()
}

func (v *value) setFrame() {
	digits, digitsLen := uint64(quads[v.n]>>16), 2
	if v.n < 10 {
		digits, digitsLen = digits>>8, 1
	}
	end, endLen := uint64('\r'|'\n'<<8), 2
	if v.cas {
		end, endLen = ' ', 1
	}
	v.frame = ' ' | '0'<<8 | ' '<<16 | digits<<24 | end<<(24+8*digitsLen)
	v.frameLen = 3 + digitsLen + endLen
}

// appendTo appends the value to out, which must have room.
func (v *value) appendTo(out []byte) []byte {
	n := len(out)
	binary.LittleEndian.PutUint64(out[n:n+8], v.frame)
	if out = out[:n+v.frameLen]; v.cas {
		out = v.appendLine(out)
	}
	return v.appendLine(out)
}
