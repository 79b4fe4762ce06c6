package forward

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// Whatever comes, what is understood is written back as the same bytes, nothing is read beyond its
// line, and it does not matter how the bytes are cut.
func FuzzParse(f *testing.F) {
	for _, s := range []string{":1\r\n", ":9223372036854775807\r\n", "-ERR no\r\n+OK\r\n", "+\r\n", ":0\r\n", "\n", ":12",
		"-" + strings.Repeat("x", maxLine), "-" + strings.Repeat("x", maxLine) + "\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in input
		from := iotest.OneByteReader(bytes.NewReader(b))
		for rest := b; ; {
			a, n, err := parse(rest)
			got, e := in.next(from)
			if n == 0 {
				if e == nil || err != nil && e != err {
					t.Fatalf("%q: %v, and in pieces %+v, %v", rest, err, got, e)
				}
				return
			}
			if e != nil || got != a {
				t.Fatalf("%q: %+v, and in pieces %+v, %v", rest, a, got, e)
			}
			again := string(a.kind) + a.text
			if a.kind == integer {
				if a.number == 0 || a.number > math.MaxInt64 {
					t.Fatalf("%q is %d", rest[:n], a.number)
				}
				again = ":" + strconv.FormatUint(a.number, 10)
			}
			if again += "\r\n"; again != string(rest[:n]) || n > maxLine {
				t.Fatalf("%q is read as %q", rest[:n], again)
			}
			rest = rest[n:]
		}
	})
}

// TestTheLongestLine: one of exactly maxLine bytes is read, and one that is longer is not waited for.
func TestTheLongestLine(t *testing.T) {
	for length, want := range map[int]error{maxLine - 1: nil, maxLine: nil, maxLine + 1: errAnswer} {
		line := []byte("-" + strings.Repeat("x", length-3) + "\r\n")
		a, n, err := parse(line)
		if err != want || err == nil && (n != length || len(a.text) != length-3) {
			t.Errorf("%d bytes: %d read, %v", length, n, err)
		}
		if _, n, err := parse(line[:length-1]); n != 0 || err != want { // its end has not come
			t.Errorf("%d of %d bytes: %d read, %v", length-1, length, n, err)
		}
	}
}
