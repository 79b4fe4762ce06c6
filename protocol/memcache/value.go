package memcache

import (
	"encoding/binary"
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A span is a run of neighbouring keys of one source, so that one Mint may answer them.
type span struct {
	n      int // number of keys
	end    int // length of the keys in the text, in bytes
	size   int // bytes of the answer, at most
	source id.Source
}

// span measures the span at the start of text, up to an answer of about room bytes, and reports
// whether all its keys are valid.
func (s *Session) span(text []byte, room int) (k span, valid bool) {
	sifter, ok := s.config.Handler.(protocol.Sifter)
	if !ok {
		return s.spanAmong(text, room, nil, &allPass)
	}
	rest, sieve := sifter.Sieve()
	if sieve == nil {
		sieve = &nonePass
	}
	return s.spanAmong(text, room, rest, sieve)
}

var allPass, nonePass [256]uint64

func init() {
	for i := range allPass {
		allPass[i] = ^uint64(0)
	}
}

// spanAmong is span with the source of all keys that do not pass a sieve, see protocol.Sifter.
func (s *Session) spanAmong(text []byte, room int, rest id.Source, sieve *[256]uint64) (k span, valid bool) {
	k.source = rest
	n, end, size, longest := 0, 0, 0, 0 // in registers, unlike the fields of k
	sifted := true                      // k.source is rest, which needs no comparison
	for size < room {
		from, to := nextKey(text, end)
		if from == to {
			break
		}
		if sieve[text[from]]>>(uint(to-from)%64)&1 != 0 {
			source := s.config.Handler.Source(text[from:to])
			if n > 0 && source != k.source {
				break
			}
			k.source, sifted = source, false
		} else if !sifted && k.source != rest {
			break
		}
		n, end, size = n+1, to, size+to-from+valueRoom
		longest = max(longest, to-from)
	}
	k.n, k.end, k.size = n, end, size
	return k, longest <= protocol.MaxKey
}

// values issues ids and answers the keys of a span with them. sent is how many keys it answered:
// all, unless issuing failed; end is where the last of these ends in text. The keys are marked as
// bulk even if only one is left, because the line had several.
func (s *Session) values(t *turn, text []byte, k span) (sent, end int, err error) {
	out := slices.Grow(t.Out, k.size)
	v := value{cas: s.form.cas}
	for sent < k.n {
		run, err := t.Mint(k.source, k.n-sent, true)
		if err != nil {
			t.Out = out
			return sent, end, err
		}
		v.Start(run)
		for i := range run.N {
			if i > 0 {
				v.Next()
			}
			out, end = appendKey(out, text, end)
			out = v.appendTo(out)
		}
		sent += run.N
	}
	t.Out = out
	return sent, end, nil
}

// A value is what follows the key in its answer: flags, length, the cas if requested, and the id.
type value struct {
	id.Text
	cas      bool
	framed   int    // the length that frame states
	frame    uint64 // " 0 19" followed by CR LF or, with a cas, by a space
	frameLen int
}

// valueRoom is the most that the answer to a key takes besides the key, plus the spare room that
// appending needs behind it.
const valueRoom = len("VALUE ") + 8 + len("18446744073709551615\r\n") + id.Room

func (v *value) setFrame() {
	n := v.Len()
	digits, digitsLen := uint64('0'+n/10|('0'+n%10)<<8), 2
	if n < 10 {
		digits, digitsLen = digits>>8, 1
	}
	end, endLen := uint64('\r'|'\n'<<8), 2
	if v.cas {
		end, endLen = ' ', 1
	}
	v.frame = ' ' | '0'<<8 | ' '<<16 | digits<<24 | end<<(24+8*digitsLen)
	v.frameLen = 3 + digitsLen + endLen
	v.framed = n
}

// appendTo appends the value to out, which must have room for it.
func (v *value) appendTo(out []byte) []byte {
	if v.Len() != v.framed {
		v.setFrame()
	}
	n := len(out)
	binary.LittleEndian.PutUint64(out[n:n+8], v.frame)
	if out = out[:n+v.frameLen]; v.cas {
		out = append(v.AppendNumber(out), "\r\n"...)
	}
	return v.AppendLine(out)
}

// appendLen appends the length of an id's text, in bytes.
func appendLen(out []byte, text *id.Text) []byte {
	n := text.Len()
	if n >= 10 {
		return append(out, byte('0'+n/10), byte('0'+n%10))
	}
	return append(out, byte('0'+n))
}
