package memcache

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt with what is answered now")

// encode returns a reply as transcript lines.
func encode(reply []byte) (lines []string) {
	for len(reply) > 0 {
		if reply[0] == magicResponse && len(reply) >= headerLen {
			h := parseHeader(reply)
			b := reply[:min(headerLen+h.body, len(reply))]
			line := fmt.Sprintf("S# %x %x %x %x %x %x %x %x %x", b[:1], b[1:2], b[2:4], b[4:5], b[5:6], b[6:8], b[8:12],
				b[12:16], b[16:24])
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
		n := len(reply)
		if i := bytes.Index(reply, []byte("\r\n")); i >= 0 {
			n = i + 2
		}
		lines, reply = append(lines, transcript.Lines(reply[:n])...), reply[n:]
	}
	return lines
}

// session sets up what a conversation is held with: "budget 3" gives its fake 3 ids of each source,
// "most 2" no more than 2 at once; "auth" switches authentication on; with "cluster", config get
// cluster has an answer; "reason" refuses with a very long reason.
func session(t *testing.T, b *transcript.Talk) *Session {
	f := newFake()
	s := newSession(f)
	for _, w := range b.With {
		what, value, _ := strings.Cut(w, " ")
		n, err := strconv.Atoi(value)
		switch {
		case what == "auth":
			s.config.Auth = s.logins(func(user, password []byte) bool {
				return string(user) == "katsu" && string(password) == "bushi 1"
			})
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
func rewrite(t *testing.T, f *transcript.File) {
	f.Rewrite(t, func(b *transcript.Talk) func(sent []byte) []string {
		c := transcript.Conversation{T: t, Session: session(t, b), Most: most}
		return func(sent []byte) []string {
			said, wasClosed := len(c.Reply), c.Closed
			c.Feed(sent)
			lines := encode(c.Reply[said:])
			if c.Closed && !wasClosed {
				lines = append(lines, "S! closed")
			}
			return lines
		}
	})
}

func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	seed := uint64(time.Now().UnixNano())
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			f := transcript.Read(t, path)
			if *update {
				rewrite(t, f)
				return
			}
			for _, b := range f.Talks {
				in := bytes.Join(b.Sent, nil)
				check := func(how string, pieces ...[]byte) {
					if got := answerTo(t, session(t, &b), pieces...); !bytes.Equal(got, b.Want) {
						t.Errorf("%s, %s\n got %.2000q\nwant %.2000q", b.Name, how, got, b.Want)
					}
				}
				check("line by line", b.Sent...)
				check("whole", in)
				if len(in) < 10000 {
					check("byte by byte", transcript.InBytes(in)...)
				}
				for i := range 20 {
					check(fmt.Sprintf("split with seed %d+%d", seed, i), transcript.SplitAtRandom(in, seed+uint64(i))...)
				}
				sifted := session(t, &b)
				sifted.config.Handler = &sifting{fake: sifted.config.Handler.(*fake)}
				if got := answerTo(t, sifted, in); !bytes.Equal(got, b.Want) {
					t.Errorf("%s, with a sieve\n got %.2000q\nwant %.2000q", b.Name, got, b.Want)
				}
				straight := session(t, &b)
				answerTo(t, straight, in)
				for i := range uint64(20) {
					s := session(t, &b)
					s.config.Handler.(*fake).waits = rand.New(rand.NewPCG(seed, i))
					got := answerTo(t, s, transcript.SplitAtRandom(in, seed+i)...)
					if !bytes.Equal(withoutLost(got), withoutLost(b.Want)) {
						t.Errorf("%s, waiting with seed %d+%d\n got %.2000q\nwant %.2000q", b.Name, seed, i, got, b.Want)
					}
					if got, want := countedAsked(s), countedAsked(straight); got != want {
						t.Errorf("%s, waiting with seed %d+%d: counted %v, want %v", b.Name, seed, i, got, want)
					}
				}
			}
		})
	}
}
