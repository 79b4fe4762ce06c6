package id

import (
	"encoding/binary"
	"strconv"
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
//	1502 3174 4821 6093 1204
//	head └─high──┘ mid  low
type Text struct {
	base   uint64 // the number minus low
	low    uint64 // the value of the last 4 digits; spilled if the number is not wide
	high   uint64 // the text of the 8 digits after head
	head   uint32 // the text of the first 1 to 4 digits, left-aligned
	mid    uint32 // the text of the 4 digits before low
	lead   uint32 // number of digits in head
	n      uint32 // number of digits in all
	stride uint64
}

const (
	// wide is the least number whose digits fill all fields. Ids are smaller only in the first days of
	// an epoch; strconv writes those.
	wide = 1e16

	spilled = 1e4 // more than four digits, so that Next always calls set

	maxDigits = 20 // of a 64-bit number
)

// Start moves to the first id of a run.
func (t *Text) Start(r Run) {
	t.stride = r.Stride
	t.set(r.First)
}

// Next moves to the next id.
func (t *Text) Next() {
	if low := t.low + t.stride; low < spilled {
		t.low = low
	} else {
		t.set(t.base + low)
	}
}

func (t *Text) set(v uint64) {
	const e4, e8 = 1e4, 1e8
	if v < wide {
		t.base, t.low, t.n = v-spilled, spilled, countDigits(v)
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
	t.lead = countDigits(head)
	t.head = quads[head] >> (32 - 8*t.lead)
	t.n = 16 + t.lead
}

// Len is the length of the text in bytes.
func (t *Text) Len() int { return int(t.n) }

// Number is the id as a number, for protocols that have a field for one.
func (t *Text) Number() uint64 { return t.base + t.low }

// AppendLine appends the text and CR LF to out, which must have Room left.
func (t *Text) AppendLine(out []byte) []byte {
	if t.low == spilled {
		return append(strconv.AppendUint(out, t.Number(), 10), "\r\n"...)
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

// Append appends only the text. out needs the same Room.
func (t *Text) Append(out []byte) []byte {
	out = t.AppendLine(out)
	return out[:len(out)-2]
}

// AppendNumber appends Number in decimal. out needs the same Room.
func (t *Text) AppendNumber(out []byte) []byte { return t.Append(out) }

func countDigits(v uint64) uint32 {
	n := uint32(1)
	for p := uint64(10); v >= p && n < maxDigits; p *= 10 {
		n++
	}
	return n
}
