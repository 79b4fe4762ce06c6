package transcript

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Closed stands in a reply for the end of the connection.
const Closed = "<closed>"

// A File is a file of conversations.
type File struct {
	path  string
	Talks []Talk // the first is what comes before any name, and sends nothing
}

// A Talk is one conversation.
type Talk struct {
	Name string
	With []string
	Sent [][]byte // one for each C line
	Want []byte   // all replies

	lines []string // all of them, in their order
}

// Read reads a file.
func Read(t testing.TB, path string) *File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{path: path, Talks: []Talk{{}}}
	for i, l := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		if name, ok := strings.CutPrefix(l, "== "); ok {
			f.Talks = append(f.Talks, Talk{Name: name})
		}
		b := &f.Talks[len(f.Talks)-1]
		b.lines = append(b.lines, l)
		what, rest, _ := strings.Cut(l, " ")
		var line []byte
		switch what {
		case "C:", "C.", "C#", "S:", "S.", "S#":
			if line, err = decode(what[1], rest); err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
		case "with", "S!", "==", "#", "":
		default:
			t.Fatalf("%s:%d: %q is not understood", path, i+1, l)
		}
		switch {
		case what == "with":
			b.With = append(b.With, rest)
		case what == "S!":
			b.Want = append(b.Want, Closed...)
		case what != "" && what[0] == 'C':
			b.Sent = append(b.Sent, line)
		default:
			b.Want = append(b.Want, line...)
		}
	}
	return f
}

// Bytes are what a text of a file stands for.
func Bytes(text string) ([]byte, error) { return decode('.', text) }

func decode(how byte, s string) (b []byte, err error) {
	if how == '#' {
		return decodeHex(s)
	}
	for len(s) > 0 {
		if n, after, ok := strings.Cut(s, "*"); ok && strings.HasPrefix(n, `\{`) {
			times, err := strconv.Atoi(n[2:])
			what, rest, closed := strings.Cut(after, "}")
			if err != nil || !closed {
				return nil, fmt.Errorf("repetition %q is not understood", s)
			}
			unit, err := decode('.', what)
			if err != nil {
				return nil, err
			}
			b, s = append(b, bytes.Repeat(unit, times)...), rest
			continue
		}
		if s[0] != '\\' {
			b, s = append(b, s[0]), s[1:]
			continue
		}
		c, _, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		b, s = append(b, byte(c)), rest
	}
	if how == ':' {
		b = append(b, "\r\n"...)
	}
	return b, nil
}

func decodeHex(s string) (b []byte, err error) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, err
			}
			text, _ := strconv.Unquote(q)
			b, s = append(b, text...), s[len(q):]
			continue
		}
		word, rest, _ := strings.Cut(s, " ")
		bytes, err := hex.DecodeString(word)
		if err != nil {
			return nil, err
		}
		b, s = append(b, bytes...), rest
	}
	return b, nil
}

// Lines returns a reply as S lines.
func Lines(reply []byte) (lines []string) {
	reply, closed := bytes.CutSuffix(reply, []byte(Closed))
	for len(reply) > 0 {
		text, rest, found := bytes.Cut(reply, []byte("\r\n"))
		mark := "S: "
		if !found {
			mark = "S. "
		}
		lines, reply = append(lines, mark+escape(text)), rest
	}
	if closed {
		lines = append(lines, "S! closed")
	}
	return lines
}

func escape(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); {
		n := 1
		for i+n < len(b) && b[i+n] == b[i] {
			n++
		}
		c := fmt.Sprintf("%c", b[i])
		if b[i] < ' ' || b[i] > '~' {
			c = fmt.Sprintf(`\x%02x`, b[i])
		} else if b[i] == '\\' {
			c = `\\`
		}
		if n >= 16 && len(c) == 1 {
			fmt.Fprintf(&s, `\{%d*%s}`, n, c)
			i += n
			continue
		}
		s.WriteString(c)
		i++
	}
	return s.String()
}

// Rewrite puts what is answered now after every C line of the file. begin returns the function that
// answers the C lines of a conversation with S lines.
func (f *File) Rewrite(t testing.TB, begin func(b *Talk) func(sent []byte) []string) {
	t.Helper()
	var out []string
	for i := range f.Talks {
		b := &f.Talks[i]
		answer, n := begin(b), 0
		for _, l := range b.lines {
			if !strings.HasPrefix(l, "S") {
				out = append(out, l)
			}
			if strings.HasPrefix(l, "C") {
				out = append(out, answer(b.Sent[n])...)
				n++
			}
		}
	}
	if err := os.WriteFile(f.path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
