package memcache

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/section"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// This server and a real memcached get the same inputs and must give the same answers, except for
// ids, cas values, times and statistics. Every other difference must be listed, and every listed
// one must show. DIFFERENCES.md has the list, for users.

var re = regexp.MustCompile

// storedKeys are stored in memcached first, so that its gets hit as ours do.
var storedKeys = []string{"id", "a", "b", "c", "k", "key", "x\ty", "r\rr", "\xe3\x81\x8b", "\xff\xfe", "-", "0", "id\r",
	strings.Repeat("k", 250)}

const storedValue = "1500000000000000000"

// storedCount is the value of the item count in memcached, and the last value of the counter count here.
const storedCount = 4999999999999999990

// The probe is the last request on each connection: its answer shows whether the server still
// listens and is in step.
var (
	textProbe, textProbed     = []byte("md nothing Oprobe\r\n"), []byte("NF Oprobe\r\n")
	binaryProbe, binaryProbed = noop(magicRequest), noop(magicResponse)
)

func noop(magic byte) []byte {
	h := header{opcode: 0x0a, opaque: 0x70726f62}
	b := h.appendResponse(nil, 0, 0, 0, 0, 0)
	b[0] = magic
	return b
}

func TestAgainstMemcached(t *testing.T) {
	m := startMemcached(t)
	var restore []byte
	for _, k := range storedKeys {
		restore = fmt.Appendf(restore, "set %s 0 0 %d noreply\r\n%s\r\n", k, len(storedValue), storedValue)
	}
	restore = fmt.Appendf(restore, "ms aGVsbG8= %d b q\r\n%s\r\n", len(storedValue), storedValue)
	restore = fmt.Appendf(restore, "set count 0 0 19 noreply\r\n%d\r\nset uuid 0 0 1 noreply\r\nx\r\n",
		uint64(storedCount))
	restore = append(restore, textProbe...)

	inputs, differences := corpus(t), transcript.Differences(t)
	seen := make([]int, len(differences))
	agreed := 0
	for _, c := range inputs {
		m.ask(t, restore, textProbed, false)
		in, probed := append([]byte(c.in), textProbe...), textProbed
		if c.in[0] == magicRequest {
			in, probed = append([]byte(c.in), binaryProbe...), binaryProbed
		}
		h := newFake()
		h.Next[""] = 1500000000000000000
		s := newSession(h)
		s.config.Cluster = "ids.example|192.0.2.7|11212"
		ours := describe(answerTo(t, s, in))
		var theirs string
		if c.waits {
			theirs = strings.TrimSuffix(describe(m.ask(t, in, nil, true)), "<closed>")
		} else {
			theirs = describe(m.ask(t, in, probed, false))
		}
		if ours == theirs {
			agreed++
		} else if i := transcript.Excuse(differences, describeInput(c.in), theirs, ours); i >= 0 {
			seen[i]++
		} else {
			t.Errorf("%.200s\n them %.200s\n us   %.200s", describeInput(c.in), theirs, ours)
		}
	}
	listed := 0
	for i, n := range seen {
		if listed += n; n == 0 {
			t.Errorf("listed, but does not show: %s", differences[i].What)
		}
	}
	t.Logf("%d inputs, %d agreements, %d differences of %d listed kinds", len(inputs), agreed, listed, len(differences))
}

// describe makes an answer comparable and printable. It quotes text, keeps only opcode, status and
// body of frames, and leaves out what always differs.
func describe(answer []byte) string {
	text, closed := bytes.CutSuffix(answer, []byte("<closed>"))
	var s strings.Builder
	for len(text) >= headerLen && text[0] == magicResponse {
		h := parseHeader(text)
		frame := text[:min(headerLen+h.body, len(text))]
		text = text[len(frame):]
		body := string(frame[headerLen:])
		switch {
		case h.opcode == 0x10 && h.key > 0:
			continue // a statistic
		case h.opcode == 0x0b && frame[7] == 0:
			body = "version"
		}
		fmt.Fprintf(&s, "[%02x %x %q]", h.opcode, frame[6:8], varying(body))
	}
	s.WriteString(varying(quoted(text)))
	if closed {
		s.WriteString("<closed>")
	}
	return s.String()
}

func quoted(b []byte) string {
	q := fmt.Sprintf("%q", b)
	return q[1 : len(q)-1]
}

// describeInput returns what differences match: the start of a text, the lengths of a frame.
func describeInput(in string) string {
	if in[0] != magicRequest {
		q := quoted([]byte(in[:min(len(in), 300)]))
		if len(in) > 300 {
			q += "..." + quoted([]byte(in[len(in)-10:]))
		}
		return q
	}
	h := parseHeader([]byte(in))
	return fmt.Sprintf("[%02x key=%d extras=%d value=%d]", h.opcode, h.key, h.extras, h.value())
}

// varying hides what differs between servers and moments. It gets quoted text.
func varying(s string) string {
	for _, v := range vary {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}

var vary = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{re(`(VALUE (?:[^\\]|\\[^n])* 0 \d+) \d+\\r\\n`), `$1 CAS\r\n`},
	{re(`15000000000\d{8}`), `ID`},
	{re(`VERSION [\d.]+`), `VERSION`},
	{re(`(STAT (?:[^\\]|\\[^n])*\\n)+`), `STAT...\r\n`},
	{re(`exp=-1 la=\d+ cas=\w+ fetch=\w+ cls=\d+ size=\d+`), `exp=-1 ...`},
	{re(`((?:HD|VA)[^\\]*) c\w+`), `$1 cCAS`},
	{re(`((?:HD|VA)[^\\]*) l\d`), `$1 l0`},
	{re(`((?:HD|VA)[^\\]*) h\d`), `$1 h0`},
}

func TestDifferencesAreDocumented(t *testing.T) {
	section.Check(t, "DIFFERENCES.md", "differences from memcached", transcript.Table(t, "memcached"), *update)
}
