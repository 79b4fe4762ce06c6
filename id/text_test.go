package id

import (
	"fmt"
	"math"
	"math/rand/v2"
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

// written returns what all ways to write an id agree on. The bytes behind it are not overwritten
// beyond Room.
func written(t testing.TB, text *Text) string {
	t.Helper()
	buf := make([]byte, 3+Room+8)
	for i := range buf {
		buf[i] = '!'
	}
	line := text.AppendLine(buf[:3])
	if tail := string(buf[3+Room:]); tail != "!!!!!!!!" || string(line[:3]) != "!!!" {
		t.Fatalf("%q is written before or after its room", line)
	}
	got := string(line[3:])
	alone := string(text.Append(make([]byte, 0, Room)))
	if got != alone+"\r\n" || len(alone) != text.Len() {
		t.Fatalf("a line is %q, the text alone %q, its length %d", got, alone, text.Len())
	}
	return alone
}

func checkNumber(t testing.TB, text *Text, v uint64) {
	t.Helper()
	want := strconv.FormatUint(v, 10)
	if got, number := written(t, text), string(text.AppendNumber(make([]byte, 0, Room))); got != want || number != want ||
		text.Number() != v {
		t.Fatalf("%d is written %q, its number %q and %d", v, got, number, text.Number())
	}
}

// borders returns numbers around which the number of digits or their fields change.
func borders() (all []uint64) {
	for p := uint64(1); ; p *= 10 {
		for _, around := range []uint64{p, 5 * p, p - p/10000} {
			for d := range uint64(5) {
				all = append(all, around+d, around-d)
			}
		}
		if p > math.MaxUint64/10 {
			return append(all, math.MaxUint64, math.MaxUint64-1, 1<<63, 1<<63-1)
		}
	}
}

func TestNumbersAreWrittenInDecimal(t *testing.T) {
	var text Text // used again, so that nothing of the number before is left
	for _, v := range borders() {
		r := Run{First: v, Stride: 1, N: 1}
		text.Start(r)
		checkNumber(t, &text, v)
		if got := string(r.Append([]byte("x"), 0)); got != "x"+strconv.FormatUint(v, 10) {
			t.Errorf("%d is appended as %q", v, got)
		}
	}
}

func TestTheIDsOfARun(t *testing.T) {
	for _, stride := range []uint64{1, 2, 3, 10, 99, 9999, 10000, 1 << 16, 1e9 + 7, 1e18, 1<<63 - 1} {
		for _, v := range borders() {
			checkRun(t, Run{First: v, Stride: stride, N: 12})
		}
	}
}

// checkRun checks the ids of a run, as far as 64 bits reach.
func checkRun(t testing.TB, r Run) {
	var text Text
	text.Start(r)
	for i, v := 0, r.First; i < r.N; i++ {
		checkNumber(t, &text, v)
		if got := string(r.Append(nil, i)); got != strconv.FormatUint(v, 10) {
			t.Fatalf("%d is appended as %q: id %d of %+v", v, got, i, r)
		}
		if v > math.MaxUint64-r.Stride {
			return
		}
		v += r.Stride
		text.Next()
	}
}

// Long runs, so that each field overflows into the next, and the number of digits grows.
func TestTheNumbersOfARun(t *testing.T) {
	for n := range 11 {
		run := Run{First: 1<<63 - 5, Stride: 1 << 40, N: n}
		ids := make([]uint64, n+1)
		run.Fill(ids)
		for i, v := range ids[:n] {
			if v != run.First+uint64(i)*run.Stride {
				t.Errorf("%d of %d is %d", i, n, v)
			}
		}
		if ids[n] != 0 {
			t.Errorf("behind %d there is %d", n, ids[n])
		}
	}
}

func TestLongRuns(t *testing.T) {
	checkRun(t, Run{First: 0, Stride: 1, N: 120_000})
	checkRun(t, Run{First: 99_990_000, Stride: 1, N: 30_000})
	checkRun(t, Run{First: 1e16 - 20_000, Stride: 7, N: 30_000})
}

func FuzzNumbers(f *testing.F) {
	f.Add(uint64(999), uint64(1))
	f.Add(uint64(99_999_999), uint64(10_000))
	f.Add(uint64(9_999_999_999_999_999), uint64(3))
	f.Fuzz(func(t *testing.T, v, stride uint64) {
		stride %= 1 << 63
		for digits := range 20 { // of all lengths
			checkRun(t, Run{First: v, Stride: stride, N: 3})
			if digits%3 == 2 {
				stride /= 10
			}
			v /= 10
		}
	})
}

func TestFormsOfRuns(t *testing.T) {
	for _, f := range []Form{UUID, ULID, ObjectID} {
		if r := TextRun(f, math.MaxUint64, math.MaxUint64); r.Form() != f || r.N != 1 {
			t.Errorf("%+v has form %d, want %d", r, r.Form(), f)
		}
	}
	if f := (Run{First: math.MaxUint64, Stride: 1<<63 - 1, N: 1}).Form(); f != Decimal {
		t.Errorf("a number has form %d", f)
	}
}

// The same digits, made in the plainest way.
func plain(f Form, high, low uint64) string {
	switch f {
	case UUID:
		return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1))
	case ObjectID:
		return fmt.Sprintf("%08x%016x", high, low)
	}
	var b [26]byte
	for i := range b {
		b[25-i] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(b[:])
}

func checkForm(t testing.TB, text *Text, f Form, high, low uint64) {
	t.Helper()
	if f == ObjectID {
		high &= 1<<32 - 1
	}
	r := TextRun(f, high, low)
	text.Start(r)
	want := plain(f, high, low)
	if got, once := written(t, text), string(r.Append([]byte("x"), 0)); got != want || once != "x"+want {
		t.Fatalf("%x %x is written %q and %q, want %q", high, low, got, once, want)
	}
	if number := string(text.AppendNumber(make([]byte, 0, Room))); number != "0" || text.Number() != 0 {
		t.Fatalf("the number of a text is %q and %d", number, text.Number())
	}
}

func TestOtherForms(t *testing.T) {
	var text Text
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		for _, f := range []Form{UUID, ULID, ObjectID} {
			checkForm(t, &text, f, r.Uint64(), r.Uint64())
		}
		text.Start(Run{First: 1e15, Stride: 1, N: 2}) // nothing of the text is left
		checkNumber(t, &text, 1e15)
	}
	for _, f := range []Form{UUID, ULID, ObjectID} {
		for bit := range 128 {
			high, low := uint64(0), uint64(1)<<(bit%64)
			if bit >= 64 {
				high, low = low, 0
			}
			checkForm(t, &text, f, high, low)
			checkForm(t, &text, f, ^high, ^low)
		}
	}
}

// ns/op is per id, in runs of 100.
func BenchmarkText(b *testing.B) {
	uuid := TextRun(UUID, 1<<63, 1<<62)
	for name, r := range map[string]Run{
		"wide": {First: 1_500_000_000_000_000_000, Stride: 1, N: 100}, "narrow": {First: 123_456_789, Stride: 1, N: 100},
		"small": {First: 5, Stride: 1, N: 100},
		"uuid":  uuid, "ulid": TextRun(ULID, uuid.High, uuid.First), "objectid": TextRun(ObjectID, 1<<31, 1<<62),
	} {
		b.Run(name, func(b *testing.B) {
			out := make([]byte, 0, 8192)
			for n := 0; n < b.N; n += r.N {
				var t Text
				t.Start(r)
				out = t.AppendLine(out[:0])
				for range r.N - 1 {
					t.Next()
					out = t.AppendLine(out)
				}
			}
		})
	}
}
