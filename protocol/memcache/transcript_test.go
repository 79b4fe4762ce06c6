package memcache

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt with what is answered now")

// A transcript is a file of conversations in testdata:
//
//	== name of a conversation: a new connection
//	with budget 3          its fake has 3 ids of each source; "most 2": no more than 2 at once; "auth": authentication is on;
//	                       "cluster": config get cluster has an answer; "reason": no ids, for a very long reason
//	# a comment
//	C: a line that the client sends; CR LF is added
//	C. the same without CR LF
//	C# hex, and "text", as bytes
//	S: S. S#               what the server says
//	S! closed              the server closes; nothing may follow
//
// \r \n \t \\ \xNN stand for bytes, and \{n*c} for n times c.
type transcript struct {
	path   string
	blocks []conversationText
}

type conversationText struct {
	name  string
	with  []string
	lines []string // all of them, in their order
	sent  [][]byte // one per C line
	want  []byte
}

func readTranscript(t testing.TB, path string) (tr transcript) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tr.path = path
	tr.blocks = []conversationText{{}} // what comes before the first conversation
	for i, l := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		if name, ok := strings.CutPrefix(l, "== "); ok {
			tr.blocks = append(tr.blocks, conversationText{name: name})
		}
		b := &tr.blocks[len(tr.blocks)-1]
		b.lines = append(b.lines, l)
		switch what, rest, _ := strings.Cut(l, " "); what {
		case "with":
			b.with = append(b.with, rest)
		case "C:", "C.", "C#":
			b.sent = append(b.sent, decodeLine(t, path, i, what[1], rest))
		case "S:", "S.", "S#":
			b.want = append(b.want, decodeLine(t, path, i, what[1], rest)...)
		case "S!":
			b.want = append(b.want, "<closed>"...)
		case "==", "#", "":
		default:
			t.Fatalf("%s:%d: %q is not understood", path, i+1, l)
		}
	}
	return tr
}

func decodeLine(t testing.TB, path string, i int, how byte, s string) []byte {
	if how == '#' {
		return decodeHex(t, path, i, s)
	}
	var b []byte
	for len(s) > 0 {
		if n, after, ok := strings.Cut(s, "*"); ok && strings.HasPrefix(n, `\{`) {
			times, err := strconv.Atoi(n[2:])
			what, rest, closed := strings.Cut(after, "}")
			if err != nil || !closed {
				t.Fatalf("%s:%d: repetition %q is not understood", path, i+1, s)
			}
			b, s = append(b, strings.Repeat(what, times)...), rest
			continue
		}
		if s[0] != '\\' {
			b, s = append(b, s[0]), s[1:]
			continue
		}
		c, _, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil {
			t.Fatalf("%s:%d: %q: %v", path, i+1, s, err)
		}
		b, s = append(b, byte(c)), rest
	}
	if how == ':' {
		b = append(b, "\r\n"...)
	}
	return b
}

func decodeHex(t testing.TB, path string, i int, s string) (b []byte) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			text, _ := strconv.Unquote(q)
			b, s = append(b, text...), s[len(q):]
			continue
		}
		word, rest, _ := strings.Cut(s, " ")
		bytes, err := hex.DecodeString(word)
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i+1, err)
		}
		b, s = append(b, bytes...), rest
	}
	return b
}

// encode returns a reply as transcript lines.
func encode(reply []byte) (lines []string) {
	for len(reply) > 0 {
		if reply[0] == magicResponse && len(reply) >= headerLen {
			h := parseHeader(reply)
			b := reply[:min(headerLen+h.body, len(reply))]
			line := fmt.Sprintf("S# %x %x %x %x %x %x %x %x %x", b[:1], b[1:2], b[2:4], b[4:5], b[5:6], b[6:8], b[8:12], b[12:16], b[16:24])
			if h.extras > 0 {
				line += fmt.Sprintf(" %x", b[24:24+h.extras])
			}
			for _, text := range [][]byte{b[24+h.extras:][:h.key], b[24+h.extras+h.key:]} {
				if len(text) > 0 {
					line += " " + strconv.Quote(string(text))
				}
			}
			lines, reply = append(lines, line), reply[len(b):]
			continue
		}
		text, rest, found := bytes.Cut(reply, []byte("\r\n"))
		mark := "S: "
		if !found {
			mark = "S. "
		}
		lines, reply = append(lines, mark+escape(text)), rest
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

func (b *conversationText) session(t *testing.T) *Session {
	f := newFake()
	s := newSession(f)
	for _, w := range b.with {
		what, value, _ := strings.Cut(w, " ")
		n, err := strconv.Atoi(value)
		switch {
		case what == "auth":
			s.config.Auth = s.logins(func(user, password []byte) bool { return string(user) == "katsu" && string(password) == "bushi 1" })
		case what == "reason":
			f.refusal = errors.New(strings.Repeat("a long reason; ", 30))
		case what == "cluster":
			s.config.Cluster = "ids.example|192.0.2.7|11212"
		case what == "budget" && err == nil:
			f.budget = n
		case what == "most" && err == nil:
			f.most = n
		default:
			t.Fatalf("with %s is not understood", w)
		}
	}
	return s
}

// rewrite answers every C line again.
func (tr *transcript) rewrite(t *testing.T) {
	tr.rewriteWith(t, func(b *conversationText) func(sent []byte) []string {
		c := conversation{t: t, s: b.session(t)}
		return func(sent []byte) []string {
			said, wasClosed := len(c.reply), c.closed
			c.feed(sent)
			lines := encode(c.reply[said:])
			if c.closed && !wasClosed {
				lines = append(lines, "S! closed")
			}
			return lines
		}
	})
}

// rewriteWith puts the answer's lines after every C line. begin returns the function that answers
// the lines of a conversation.
func (tr *transcript) rewriteWith(t *testing.T, begin func(b *conversationText) func(sent []byte) []string) {
	var out []string
	for _, b := range tr.blocks {
		answer, i := begin(&b), 0
		for _, l := range b.lines {
			if !strings.HasPrefix(l, "S") {
				out = append(out, l)
			}
			if strings.HasPrefix(l, "C") {
				out = append(out, answer(b.sent[i])...)
				i++
			}
		}
	}
	if err := os.WriteFile(tr.path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	seed := uint64(time.Now().UnixNano())
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			tr := readTranscript(t, path)
			if *update {
				tr.rewrite(t)
				return
			}
			for _, b := range tr.blocks {
				in := bytes.Join(b.sent, nil)
				check := func(how string, pieces ...[]byte) {
					if got := answerTo(t, b.session(t), pieces...); !bytes.Equal(got, b.want) {
						t.Errorf("%s, %s\n got %.2000q\nwant %.2000q", b.name, how, got, b.want)
					}
				}
				check("line by line", b.sent...)
				check("whole", in)
				if len(in) < 10000 {
					check("byte by byte", inBytes(in)...)
				}
				for i := range 20 {
					check(fmt.Sprintf("split with seed %d+%d", seed, i), splitAtRandom(in, seed+uint64(i))...)
				}
				sifted := b.session(t)
				sifted.config.Handler = &sifting{fake: sifted.config.Handler.(*fake)}
				if got := answerTo(t, sifted, in); !bytes.Equal(got, b.want) {
					t.Errorf("%s, with a sieve\n got %.2000q\nwant %.2000q", b.name, got, b.want)
				}
				straight := b.session(t)
				answerTo(t, straight, in)
				for i := range uint64(20) {
					s := b.session(t)
					s.config.Handler.(*fake).waits = rand.New(rand.NewPCG(seed, i))
					got := answerTo(t, s, splitAtRandom(in, seed+i)...)
					if !bytes.Equal(withoutLost(got), withoutLost(b.want)) {
						t.Errorf("%s, waiting with seed %d+%d\n got %.2000q\nwant %.2000q", b.name, seed, i, got, b.want)
					}
					if got, want := countedAsked(s), countedAsked(straight); got != want {
						t.Errorf("%s, waiting with seed %d+%d: counted %v, want %v", b.name, seed, i, got, want)
					}
				}
			}
		})
	}
}

func splitAtRandom(in []byte, seed uint64) (pieces [][]byte) {
	r, longest := rand.New(rand.NewPCG(seed, 0)), 80+len(in)/100
	for len(in) > 0 {
		n := min(1+r.IntN(1+r.IntN(longest)), len(in))
		pieces, in = append(pieces, in[:n]), in[n:]
	}
	return pieces
}
