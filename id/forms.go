package id

import (
	"encoding/binary"
	"math/bits"
)

// lengths of the forms that are not decimal.
var lengths = [...]uint32{UUID: 36, ULID: 26, ObjectID: 24}

// setForm is set for an id that is not a number. The lower half is kept in high, the upper half in
// head and mid.
func (t *Text) setForm(high, low uint64) {
	t.base, t.low = none, spilled // so Number is 0
	t.high, t.head, t.mid = low, uint32(high>>32), uint32(high)
	t.n = lengths[Form(t.stride)]
}

// putForm writes what setForm has set.
func (t *Text) putForm(b *[Room]byte) {
	high, low := uint64(t.head)<<32|uint64(t.mid), t.high
	switch Form(t.stride) {
	case UUID:
		putUUID(b, high, low)
	case ULID:
		putULID(b, high, low)
	case ObjectID:
		binary.LittleEndian.PutUint64(b[0:], hex(uint32(high)))
		binary.LittleEndian.PutUint64(b[8:], hex(uint32(low>>32)))
		binary.LittleEndian.PutUint64(b[16:], hex(uint32(low)))
	}
}

func putUUID(b *[Room]byte, high, low uint64) {
	binary.LittleEndian.PutUint64(b[0:], hex(uint32(high>>32)))
	h := hex(uint32(high))
	binary.LittleEndian.PutUint64(b[8:], '-'|h<<8)
	binary.LittleEndian.PutUint64(b[13:], '-'|h>>32<<8)
	h = hex(uint32(low >> 32))
	binary.LittleEndian.PutUint64(b[18:], '-'|h<<8)
	binary.LittleEndian.PutUint64(b[23:], '-'|h>>32<<8)
	binary.LittleEndian.PutUint64(b[28:], hex(uint32(low)))
}

// hex returns the eight lower-case hexadecimal digits of x as a little-endian word.
func hex(x uint32) uint64 {
	const ones = 0x0101010101010101
	v := uint64(bits.ReverseBytes32(x))
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v>>4 | v<<8) & (0x0f * ones) // a digit's value in each byte
	letters := (v + 6*ones) >> 4 & ones
	return v + '0'*ones + letters*('a'-'9'-1)
}

// crockford is the alphabet of ULID: no I, L, O, U.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// pairs holds the text of 0..1023 in base 32, two digits each, as little-endian words.
var pairs = func() (p [1024]uint16) {
	for i := range p {
		p[i] = uint16(crockford[i/32]) | uint16(crockford[i%32])<<8
	}
	return p
}()

// putULID writes 26 digits of 5 bits. They hold 130 bits, so the first digit is at most 7.
func putULID(b *[Room]byte, high, low uint64) {
	for i := 24; i >= 14; i -= 2 { // 60 bits
		binary.LittleEndian.PutUint16(b[i:], pairs[low%1024])
		low >>= 10
	}
	low |= high << 4 // the next 64 bits, of which 60 are written now
	for i := 12; i >= 2; i -= 2 {
		binary.LittleEndian.PutUint16(b[i:], pairs[low%1024])
		low >>= 10
	}
	binary.LittleEndian.PutUint16(b[0:], pairs[low|high>>60<<4])
}
