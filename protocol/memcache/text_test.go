package memcache

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

func TestLongLines(t *testing.T) {
	const tooLong = "CLIENT_ERROR line too long\r\n<closed>"
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	get := func(total int) string { // a get line of so many bytes
		n := (total - len("get\r\n") - 51) / 200 // keys of 199 bytes, and one of what is left
		s := "get" + strings.Repeat(" "+strings.Repeat("k", 199), n)
		return s + " " + strings.Repeat("z", total-len(s)-3) + "\r\n"
	}
	version := func(total int) string { return "version" + spaces(total-9) + "\r\n" }
	ids := func(line string) string {
		var want []byte
		for i, key := range strings.Fields(line)[1:] {
			want = fmt.Appendf(want, "VALUE %s 0 %d\r\n%d\r\n", key, len(fmt.Sprint(100+i)), 100+i)
		}
		return string(want) + "END\r\n"
	}
	for _, c := range []struct{ name, in, want string }{
		{"line at the limit", version(maxLine), "VERSION 1.2.3\r\n"},
		{"line over the limit", version(maxLine + 1), tooLong},
		{"line without an end", strings.Repeat("x", maxLine), tooLong},
		{"one byte less without an end", strings.Repeat("x", maxLine-1), ""},
		{"300 KB line", strings.Repeat("x", 300<<10) + "\r\n", tooLong},
		{"get of 2049", get(maxLine + 1), ids(get(maxLine + 1))},
		{"get of 200 KB", get(200 << 10), ids(get(200 << 10))},
		{"get at the limit", get(maxGetLine), ids(get(maxGetLine))},
		{"get over the limit", get(maxGetLine + 1), tooLong},
		{"get with a bad key at its end", strings.TrimSpace(get(100<<10)) + strings.Repeat("k", 251) + "\r\n", errFormat},
		{"verb late in the line", spaces(2000) + get(3000), ids(get(3000))},
		{"verb too late in the line", spaces(maxLine-3) + get(3000), tooLong},
		{"get without an end", strings.TrimSpace(get(maxLine)), ""},
		{"verb alone", "get" + spaces(maxLine), "ERROR\r\n"},
	} {
		if c.want == "ERROR\r\n" {
			c.in += "\r\n"
		}
		splits := [][][]byte{{[]byte(c.in)}, {[]byte(c.in)[:1500], []byte(c.in)[1500:]}}
		if len(c.in) < 10000 {
			splits = append(splits, transcript.InBytes([]byte(c.in)))
		}
		for i, pieces := range splits {
			if got := answerTo(t, newSession(newFake()), pieces...); string(got) != c.want {
				t.Errorf("%s, split %d: got %d bytes %.80q, want %d %.80q", c.name, i, len(got), got, len(c.want), c.want)
			}
		}
	}
}

// In a run, each id is computed from the previous one.
func TestRunsOfIDs(t *testing.T) {
	for _, first := range []uint64{0, 95, 9990, 1e16 - 20, 1500000000000009990, 1 << 63, 1e19 - 100} {
		for _, stride := range []uint64{1, 3, 4096, 65536} {
			for _, verb := range []string{"get", "gets"} {
				var want []byte
				for i := range uint64(40) {
					id := fmt.Sprint(first + i*stride)
					cas := map[string]string{"get": "", "gets": " " + id}[verb]
					want = fmt.Appendf(want, "VALUE key%d 0 %d%s\r\n%s\r\n", i, len(id), cas, id)
				}
				s := countingSession()
				s.config.Handler = &counting{next: first, stride: stride}
				if got := answerTo(t, s, append([]byte(verb), manyKeys(40)[3:]...)); string(got) != string(want)+"END\r\n" {
					t.Errorf("%s from %d by %d: %s", verb, first, stride, transcript.Difference(got, want))
				}
			}
		}
	}
}

func TestSessionIsSmall(t *testing.T) {
	var s Session
	if n := unsafe.Sizeof(s); n > 24 {
		t.Errorf("%d bytes for each idle connection", n)
	}
}
