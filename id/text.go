package id

import (
	"encoding/binary"
	"math/bits"
)

// quads holds the decimal text of 0..9999, four digits each, as little-endian words.
var quads = func() (q [10000]uint32) {
	for i := range q {
		q[i] = uint32('0'+i/1000) | uint32('0'+i/100%10)<<8 | uint32('0'+i/10%10)<<16 | uint32('0'+i%10)<<24
	}
	return q
}()

// MaxText is the maximum length of an id's text in bytes, for every kind. Room is how many bytes
// behind the end of the slice an append may overwrite: the caller must provide that much capacity.
const (
	MaxText = 36
	Room    = MaxText + 4
)

// A Text walks through a Run and writes its ids; call Start first. It holds a number in a form that is
// written with three stores straight from registers, because reading back digits that were just
// written costs more than making them. Within a run only the last four digits change, until they
// overflow.
//
//	1502 3174 4821 6093 1204	a wide number: 17 to 20 digits
//	head └─high──┘ mid  low
//
//	     317 4821 6093 1204	a narrow number: lead is 0, and high holds the digits before mid
//	     high     mid  low
//
// Of numbers below 1000, high holds all digits. How the fields hold other forms is in forms.go.
type Text struct {
	base   uint64 // the number minus low
	low    uint64 // the value of the last 4 digits; spilled if only high counts
	high   uint64 // text: of the 8 digits after head, or of all before mid, or of the whole number
	head   uint32 // the text of the first 1 to 4 digits, left-aligned
	mid    uint32 // the text of the 4 digits before low
	lead   uint32 // number of digits in head; 0 if the number is not wide
	n      uint32 // length of the text
	stride uint64 // of the run; other forms are marked there
}

const (
	wide    = 1e16 // the least number whose digits fill all fields
	spilled = 1e4  // more than four digits, so that Next always calls set

	none = 1<<64 - spilled // base + spilled is 0: the number is 0, or there is none
)

// Start moves to the first id of a run.
func (t *Text) Start(r Run) {
	t.stride, t.base = r.Stride, r.High
	t.set(r.First)
}

// Next moves to the next id. The caller must not go past the end of the run.
func (t *Text) Next() {
	if low := t.low + t.stride; low < spilled {
		t.low = low
	} else {
		t.set(t.base + low)
	}
}

func (t *Text) set(v uint64) {
	const e4, e8 = 1e4, 1e8
	if v < wide || t.stride >= notDecimal {
		t.setOther(v)
		return
	}
	rest := v / e8
	low := v - rest*e8
	head := rest / e8
	high := rest - head*e8
	t.low = low % e4
	t.base = v - t.low
	t.high = uint64(quads[high/e4]) | uint64(quads[high%e4])<<32
	t.mid = quads[low/e4]
	t.lead = 1
	for p := uint64(10); head >= p; p *= 10 { // predicted, so quicker than countDigits
		t.lead++
	}
	t.head = quads[head] >> (32 - 8*t.lead)
	t.n = 16 + t.lead
}

// setOther is set for everything but wide numbers.
func (t *Text) setOther(v uint64) {
	const e3, e4, e8 = 1e3, 1e4, 1e8
	t.lead = 0
	if t.stride >= notDecimal {
		t.setForm(t.base, v)
		return
	}
	t.n = countDigits(v)
	if v < e3 { // the length changes before the low four digits overflow
		t.base, t.low, t.high = v-spilled, spilled, uint64(quads[v]>>(32-8*t.n))
		return
	}
	rest := v / e8
	low := v - rest*e8
	t.low = low % e4
	t.base = v - t.low
	t.mid = quads[low/e4]
	if rest > 0 {
		t.high = (uint64(quads[rest/e4]) | uint64(quads[rest%e4])<<32) >> (128 - 8*t.n)
	}
}

// Len is the length of the text in bytes.
func (t *Text) Len() int { return int(t.n) }

// Number is the id as a number, for protocols that have a field for one; 0 if the text is not a
// number.
func (t *Text) Number() uint64 { return t.base + t.low }

// AppendLine appends the text and CR LF to out, which must have Room left.
func (t *Text) AppendLine(out []byte) []byte {
	if t.lead == 0 {
		return t.appendOther(out)
	}
	n := len(out)
	b := out[n : n+Room]
	binary.LittleEndian.PutUint32(b, t.head)
	b = b[t.lead:][:18]
	binary.LittleEndian.PutUint64(b, t.high)
	binary.LittleEndian.PutUint64(b[8:], uint64(t.mid)|uint64(quads[t.low])<<32)
	binary.LittleEndian.PutUint16(b[16:], '\r'|'\n'<<8)
	return out[:n+int(t.n)+2]
}

// appendOther is AppendLine for everything but wide numbers.
func (t *Text) appendOther(out []byte) []byte {
	n, size := len(out), t.n
	b := out[n : n+Room]
	switch {
	case t.low < spilled && size > 8:
		binary.LittleEndian.PutUint64(b, t.high)
		binary.LittleEndian.PutUint64(b[size-8:], uint64(t.mid)|uint64(quads[t.low])<<32)
	case t.low < spilled:
		binary.LittleEndian.PutUint64(b, (uint64(t.mid)|uint64(quads[t.low])<<32)>>(64-8*size))
	case t.stride < notDecimal:
		binary.LittleEndian.PutUint32(b, uint32(t.high))
	default:
		t.putForm((*[Room]byte)(b))
	}
	binary.LittleEndian.PutUint16(b[size:], '\r'|'\n'<<8)
	return out[:n+int(size)+2]
}

// Append appends only the text. out needs the same Room.
func (t *Text) Append(out []byte) []byte {
	out = t.AppendLine(out)
	return out[:len(out)-2]
}

// AppendNumber appends Number in decimal. out needs the same Room.
func (t *Text) AppendNumber(out []byte) []byte {
	if t.base == none {
		return append(out, '0')
	}
	out = t.AppendLine(out)
	return out[:len(out)-2]
}

// powers holds 10^i, but 0 for i = 0 so that 0 has one digit.
var powers = func() (p [20]uint64) {
	for i, v := 1, uint64(10); i < len(p); i, v = i+1, v*10 {
		p[i] = v
	}
	return p
}()

func countDigits(v uint64) uint32 {
	n := uint32(bits.Len64(v)) * 1233 >> 12 // log10(2) ≈ 1233/4096: right, or one too few
	if v >= powers[n] {
		n++
	}
	return n
}
