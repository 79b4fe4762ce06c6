package id

import (
	"math"
	"reflect"
	"strconv"
	"testing"
)

func TestARunFitsIntoRegisters(t *testing.T) {
	run := reflect.TypeFor[Run]()
	if run.NumField() > 4 || run.Size() > 32 {
		t.Errorf("a Run has %d fields and %d bytes: the compiler hands it on through memory", run.NumField(), run.Size())
	}
}

func written(t *Text) string { return string(t.Append(make([]byte, 0, Room))) }

func TestNumbersAreWrittenInDecimal(t *testing.T) {
	var text Text
	for _, v := range []uint64{0, 1, 9, 10, 99, 100, 999, 1000, 9999, 10000, 99999999, 1e8, 1<<63 - 1, 1e19, math.MaxUint64} {
		r, want := Run{First: v, N: 1}, strconv.FormatUint(v, 10)
		text.Start(r)
		for _, got := range []string{written(&text), string(text.AppendNumber(make([]byte, 0, Room))), string(r.Append(nil, 0))} {
			if got != want {
				t.Errorf("%d is written %q", v, got)
			}
		}
		if text.Len() != len(want) || text.Number() != v {
			t.Errorf("%d: %d bytes, number %d", v, text.Len(), text.Number())
		}
	}
}

func TestTheIDsOfARun(t *testing.T) {
	var text Text
	for _, stride := range []uint64{1, 3, 10, 99, 1 << 16, 1e9 + 7, 1e18} {
		for _, v := range []uint64{0, 5, 95, 9999, 123456789, 1e18 - 1, 1e19 - 2} {
			r := Run{First: v, Stride: stride, N: 10}
			text.Start(r)
			for i := range r.N {
				want := strconv.FormatUint(v, 10)
				if got, once := written(&text), string(r.Append(nil, i)); got != want || once != want || text.Len() != len(want) {
					t.Fatalf("%d is written %q and %q, strides of %d", v, got, once, stride)
				}
				if v > math.MaxUint64-stride {
					break
				}
				v += stride
				text.Next()
			}
		}
	}
}
