package protocol

import (
	"encoding/binary"
	"strconv"
)

// quads is the decimal text of 0..9999, four digits each, as they lie in memory read little-endian.
var quads = func() (q [10000]uint32) {
	for i := range q {
		q[i] = uint32('0'+i/1000) | uint32('0'+i/100%10)<<8 | uint32('0'+i/10%10)<<16 | uint32('0'+i%10)<<24
	}
	return q
}()

// A decimal is a number in a form whose text takes three stores to write, straight from registers: to read digits back that were just
// written costs more than to make them. Within a run of ids only the last four digits change, until they are full.
//
//	1502 3174 4821 6093 1204
//	head └─high──┘ mid  low
type decimal struct {
	base uint64 // the number less low
	low  uint64 // the value of the last 4 digits; spilled when the number is not wide
	high uint64 // the text of the 8 digits in the middle
	head uint32 // the text of the first 1 to 4, left-aligned
	mid  uint32 // the text of the 4 before the last
	lead int    // how many digits are in head
	n    int    // digits in all
}

const (
	// wide is the least number whose digits fill all fields. Lesser ones, which ids are only in the first days of an epoch, are left
	// to the standard library.
	wide = 1e16

	spilled = 1e4 // no value of four digits: whatever is added, set has to see it

	maxDigits   = 20            // of a 64-bit number
	decimalRoom = maxDigits + 4 // what may be overwritten behind the text's start
)

func (d *decimal) set(v uint64) {
	const e4, e8 = 1e4, 1e8
	if v < wide {
		d.base, d.low, d.n = v-spilled, spilled, countDigits(v)
		return
	}
	rest := v / e8
	low := v - rest*e8
	head := rest / e8
	high := rest - head*e8
	d.low = low % e4
	d.base = v - d.low
	d.high = uint64(quads[high/e4]) | uint64(quads[high%e4])<<32
	d.mid = quads[low/e4]
	d.lead = countDigits(head)
	d.head = quads[head] >> (32 - 8*d.lead)
	d.n = 16 + d.lead
}

// add moves the number on if that is done by its last digits; otherwise nothing happens, and it needs to be set.
func (d *decimal) add(stride uint64) bool {
	low := d.low + stride
	if low >= spilled {
		return false
	}
	d.low = low
	return true
}

func (d *decimal) number() uint64 { return d.base + d.low }

// appendLine appends the text and CR LF to out, which must have decimalRoom left.
func (d *decimal) appendLine(out []byte) []byte {
	if d.low == spilled {
		return append(strconv.AppendUint(out, d.number(), 10), "\r\n"...)
	}
	n := len(out)
	b := out[n : n+decimalRoom]
	binary.LittleEndian.PutUint32(b, d.head)
	b = b[d.lead:][:18]
	binary.LittleEndian.PutUint64(b, d.high)
	binary.LittleEndian.PutUint64(b[8:], uint64(d.mid)|uint64(quads[d.low])<<32)
	binary.LittleEndian.PutUint16(b[16:], '\r'|'\n'<<8)
	return out[:n+d.n+2]
}

// appendTo appends the text alone, and wants the same room.
func (d *decimal) appendTo(out []byte) []byte {
	out = d.appendLine(out)
	return out[:len(out)-2]
}

// appendLen appends how many digits there are.
func (d *decimal) appendLen(out []byte) []byte {
	if d.n >= 10 {
		return append(out, byte('0'+d.n/10), byte('0'+d.n%10))
	}
	return append(out, byte('0'+d.n))
}

func countDigits(v uint64) int {
	n := 1
	for p := uint64(10); v >= p && n < maxDigits; p *= 10 {
		n++
	}
	return n
}
