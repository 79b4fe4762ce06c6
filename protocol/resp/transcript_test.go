package resp

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

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt with what is answered now")

// session sets up what a conversation is held with: "budget 3" gives its fake 3 ids of each source,
// "most 2" no more than 2 at once; "auth" switches authentication on; "port" makes it the port that
// memcached's clients use too, without inline commands; "reason" refuses with a very long reason,
// "hostile" with one that a terminal would obey,
// "not yet" with the one of the start, "ended" with one that stays; "cluster 5" makes it
// a member of a cluster, in which 5 slots have no owner; "no address" takes away the cluster's
// address.
func session(t testing.TB, b *transcript.Talk) *Session {
	f := newFake()
	s := newSession(f)
	for _, w := range b.With {
		what, value, _ := strings.Cut(w, " ")
		n, err := strconv.Atoi(value)
		switch {
		case what == "auth":
			s.config.Auth = s.logins(func(user, password []byte) bool {
				return string(user) != "nobody" && string(password) == "sesame"
			})
		case what == "reason":
			f.refusal = errors.New(strings.Repeat("a long reason; ", 30))
		case w == "not yet":
			f.refusal = notYet{errors.New("no worker id yet")}
		case what == "hostile":
			f.refusal = errors.New("ERR \x1b]0;x\a\u202e\r é")
		case what == "ended":
			f.refusal = final{errors.New("sequence orders has ended at 9")}
		case what == "port":
			s.is = 0
		case what == "cluster":
			s.config.Topology = func() protocol.Topology { return clusterOf(n) }
		case w == "no address":
			s.config.Cluster = ""
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

// clusterOf returns a cluster in which n slots have no owner.
func clusterOf(n int) protocol.Topology {
	return protocol.Topology{Self: strings.Repeat("0a", 20), Epoch: 9, Nodes: []protocol.Node{
		{ID: strings.Repeat("0a", 20), Host: "192.0.2.7", Port: 6379,
			Slots: []protocol.Slots{{First: 0, Last: 1023}, {First: 2048, Last: 4095}}},
		{ID: strings.Repeat("0b", 20), Host: "ids.example", Port: 11212,
			Slots: []protocol.Slots{{First: 1024, Last: 2047}, {First: 4096, Last: id.Slots - 1 - n}}},
		{ID: strings.Repeat("0c", 20), Host: "2001:db8::7", Port: 6379},
		{ID: strings.Repeat("0d", 20)}, // clients cannot reach it
	}}
}

// transcripts reads all files.
func transcripts(t testing.TB) (files map[string]*transcript.File) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	files = make(map[string]*transcript.File)
	for _, path := range paths {
		files[strings.TrimSuffix(filepath.Base(path), ".txt")] = transcript.Read(t, path)
	}
	return files
}

func rewrite(t *testing.T, f *transcript.File) {
	f.Rewrite(t, func(b *transcript.Talk) func(sent []byte) []string {
		c := transcript.Conversation{T: t, Session: session(t, b), Most: most}
		return func(sent []byte) []string {
			said, wasClosed := len(c.Reply), c.Closed
			c.Feed(sent)
			lines := transcript.Lines(c.Reply[said:])
			if c.Closed && !wasClosed {
				lines = append(lines, "S! closed")
			}
			return lines
		}
	})
}

// Every conversation is answered alike, counts included, however its bytes are cut and whenever its
// sources wait.
func TestTranscripts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for name, f := range transcripts(t) {
		t.Run(name, func(t *testing.T) {
			if *update {
				rewrite(t, f)
				return
			}
			for _, b := range f.Talks {
				in := bytes.Join(b.Sent, nil)
				straight := session(t, &b)
				answerTo(t, straight, in)
				bad := false // one report is enough
				check := func(how string, s *Session, pieces ...[]byte) {
					if bad {
						return
					}
					if got := answerTo(t, s, pieces...); !bytes.Equal(got, b.Want) {
						bad = true
						t.Errorf("%s, %s: %s", b.Name, how, transcript.Difference(got, b.Want))
					}
					if got, want := counted(s), counted(straight); got != want {
						bad = true
						t.Errorf("%s, %s: counted %v, want %v", b.Name, how, got, want)
					}
				}
				check("line by line", session(t, &b), b.Sent...)
				check("whole", session(t, &b), in)
				if len(in) < 10000 {
					check("byte by byte", session(t, &b), transcript.InBytes(in)...)
				}
				for i := range uint64(20) {
					check(fmt.Sprintf("split with seed %d+%d", seed, i), session(t, &b), transcript.SplitAtRandom(in, seed+i)...)
					s := session(t, &b)
					s.config.Handler.(*fake).waits = rand.New(rand.NewPCG(seed, i))
					check(fmt.Sprintf("waiting with seed %d+%d", seed, i), s, transcript.SplitAtRandom(in, seed+i)...)
				}
			}
		})
	}
}
