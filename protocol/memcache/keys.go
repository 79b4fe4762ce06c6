package memcache

import (
	"encoding/binary"
	"math/bits"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// appendKey appends "VALUE " and the next key at or after from to out, which must have room for them
// and 8 bytes more. It returns where the key ends. Copying while looking for the end is cheaper than
// doing one after the other.
func appendKey(out, text []byte, from int) ([]byte, int) {
	for from < len(text) && text[from] == ' ' {
		from++
	}
	const value = 'V' | 'A'<<8 | 'L'<<16 | 'U'<<24 | 'E'<<32 | ' '<<40
	n := len(out)
	binary.LittleEndian.PutUint64(out[n:n+8], value)
	n += len("VALUE ")
	for ; from+8 <= len(text); from += 8 {
		w := binary.LittleEndian.Uint64(text[from:])
		binary.LittleEndian.PutUint64(out[n:n+8], w)
		if i := indexSpace(w); i < 8 {
			return out[:n+i], from + i
		}
		n += 8
	}
	out = out[:n]
	for ; from < len(text) && text[from] != ' '; from++ {
		out = append(out, text[from])
	}
	return out, from
}

// nextKey finds the key at or after from; it returns an empty one if there is none.
func nextKey(text []byte, from int) (begin, end int) {
	for from < len(text) && text[from] == ' ' {
		from++
	}
	for end = from; end+8 <= len(text); end += 8 {
		if i := indexSpace(binary.LittleEndian.Uint64(text[end:])); i < 8 {
			return from, end + i
		}
	}
	for end < len(text) && text[end] != ' ' {
		end++
	}
	return from, end
}

// indexSpace returns the index of the first space in eight bytes, or 8 if there is none.
func indexSpace(w uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= ' ' * ones // now a space is a zero byte
	return bits.TrailingZeros64((w-ones)&^w&highs) / 8
}

func countKeys(text []byte) (n int) {
	for from, to := nextKey(text, 0); from < to; from, to = nextKey(text, to) {
		n++
	}
	return n
}

func validKeys(text []byte) bool {
	for from, to := nextKey(text, 0); from < to; from, to = nextKey(text, to) {
		if to-from > protocol.MaxKey {
			return false
		}
	}
	return true
}
