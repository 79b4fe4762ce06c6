package protocol

import (
	"math"
	"strconv"
	"testing"
	"unsafe"
)

func sizeof(s Session) uintptr { return unsafe.Sizeof(s) }

func TestDecimal(t *testing.T) {
	var d decimal
	for _, v := range []uint64{0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 99999999, 1e8, 1<<63 - 1, 1e19, math.MaxUint64} {
		if d.set(v); string(d.appendTo(make([]byte, 0, decimalRoom))) != strconv.FormatUint(v, 10) {
			t.Errorf("%d is written %q", v, d.appendTo(make([]byte, 0, decimalRoom)))
		}
	}
	for _, stride := range []uint64{1, 3, 10, 99, 1 << 16, 1e9 + 7, 1e18} {
		for _, v := range []uint64{0, 5, 95, 9999, 123456789, 1e18 - 1, 1e19 - 2} {
			d.set(v)
			for n := range 10 {
				if n > 0 {
					v += stride
					if !d.add(stride) {
						d.set(v)
					}
				}
				if string(d.appendTo(make([]byte, 0, decimalRoom))) != strconv.FormatUint(v, 10) {
					t.Fatalf("%d is written %q, strides of %d", v, d.appendTo(make([]byte, 0, decimalRoom)), stride)
				}
				if v > math.MaxUint64-stride {
					break
				}
			}
		}
	}
}
