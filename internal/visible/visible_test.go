package visible

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const hostile = "ERR \x1b]0;x\a\x7f\u009b\u202e\xff\U000e0001 é 鰹節 \t."
const shown = `ERR \u001b]0;x\u0007\u007f\u009b\u202e\xff\udb40\udc01 é 鰹節 ` + "\t."

func TestText(t *testing.T) {
	if got := Text(hostile + "\nnext\r\n"); got != shown+"\nnext\\u000d\n" {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	n, err := Writer{&b}.Write([]byte(hostile + "\n"))
	if n != len(hostile)+1 || err != nil || b.String() != shown+"\n" {
		t.Errorf("%d, %v, %q", n, err, &b)
	}
}

// TestAppendLine: at the limit exactly, one byte below it, and one above.
func TestAppendLine(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"one\r\ntwo", 99, "one  two"}, {hostile, 99, shown}, {"", 0, ""}, {"abc", 0, ""},
		{"abc", 2, "ab"}, {"abc", 3, "abc"}, {"abc", 4, "abc"},
		{"a鰹b", 3, "a"}, {"a鰹b", 4, "a鰹"}, {"a鰹b", 5, "a鰹b"},
		{"a\x1bb", 6, "a"}, {"a\x1bb", 7, `a\u001b`}, {"a\x1bb", 8, `a\u001bb`},
	} {
		if got := string(AppendLine([]byte("-"), c.text, c.limit)); got != "-"+c.want {
			t.Errorf("%q, %d bytes: %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

func TestALineIsMadeWithoutAllocating(t *testing.T) {
	out, reason := make([]byte, 0, 300), strings.Repeat("rate limit exceeded, ", 10)
	if n := testing.AllocsPerRun(100, func() { out = AppendLine(out[:0], reason, 256) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzVisible: nothing that a terminal obeys is left, texts without that stay as they are, and JSON has the
// same value.
func FuzzVisible(f *testing.F) {
	f.Add(hostile, 20)
	f.Add("a\nb\r\n\tc", 3)
	f.Add("\xe9\xb0\xb9\xe9\xb0", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit%1000)
		text, line := Text(s), string(AppendLine(nil, s, limit))
		for _, got := range []string{strings.ReplaceAll(text, "\n", ""), line} {
			for _, c := range got {
				if c != '\t' && !unicode.IsGraphic(c) {
					t.Fatalf("%q has %q", got, c)
				}
			}
			if !utf8.ValidString(got) {
				t.Fatalf("%q is no UTF-8", got)
			}
		}
		if len(line) > limit || Text(text) != text {
			t.Fatalf("%q: %d bytes, and %q again as %q", line, len(line), text, Text(text))
		}
		value, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var was, is string
		if json.Unmarshal(value, &was) != nil || json.Unmarshal([]byte(Text(string(value))), &is) != nil || was != is {
			t.Fatalf("%q became %q", was, is)
		}
	})
}
