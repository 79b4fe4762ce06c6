package memcache

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/protocol"
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
func session(t testing.TB, b *transcript.Talk) *Session {
	f := newFake()
	s := newSession(f)
	for _, w := range b.With {
		what, value, _ := strings.Cut(w, " ")
		n, err := strconv.Atoi(value)
		switch {
		case what == "auth":
			s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool {
				return string(user) == "katsu" && string(password) == "bushi 1"
			})
		case what == "reason":
			f.Refusal = errors.New(strings.Repeat("a long reason; ", 30))
		case what == "cluster":
			s.config.Cluster = "ids.example|192.0.2.7|11212"
		case what == "budget" && err == nil:
			f.Budget = n
		case what == "most" && err == nil:
			f.Most = n
		default:
			t.Fatalf("with %s is not understood", w)
		}
	}
	return s
}

// grammar is this one.
var grammar = transcript.Grammar{Most: most, Lines: encode, Seen: withoutLost,
	New: func(t testing.TB, b *transcript.Talk) transcript.Client { return clientOf(session(t, b)) }}

func clientOf(s *Session) transcript.Client {
	return transcript.Client{Session: s, Counted: func() protocol.Counts { return countedAsked(s) },
		Wait:   func(r *rand.Rand) { s.config.Handler.(*fake).Waits = r },
		Resume: func(state []byte) (transcript.Session, error) { return Resume(s.config, state) }}
}

func TestTranscripts(t *testing.T) { transcript.Run(t, grammar, *update) }

// What a Handler sifts is answered as what it does not.
func TestTranscriptsWithASieve(t *testing.T) {
	for name, f := range transcript.Files(t) {
		for _, b := range f.Talks {
			s := session(t, &b)
			s.config.Handler = &sifting{fake: s.config.Handler.(*fake)}
			if got := answerTo(t, s, b.Sent...); !bytes.Equal(got, b.Want) {
				t.Errorf("%s: %s: %s", name, b.Name, transcript.Difference(got, b.Want))
			}
		}
	}
}
