package resp

import (
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

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
			s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool {
				return string(user) != "nobody" && string(password) == "sesame"
			})
		case what == "reason":
			f.Refusal = errors.New(strings.Repeat("a long reason; ", 30))
		case w == "not yet":
			f.Refusal = notYet{errors.New("no worker id yet")}
		case what == "hostile":
			f.Refusal = errors.New("ERR \x1b]0;x\a\u202e\r é")
		case what == "ended":
			f.Refusal = final{errors.New("sequence orders has ended at 9")}
		case what == "port":
			s.is = 0
		case what == "cluster":
			s.config.Topology = func() protocol.Topology { return clusterOf(n) }
		case w == "no address":
			s.config.Cluster = ""
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

// grammar is this one.
var grammar = transcript.Grammar{Most: most, Lines: transcript.Lines,
	New: func(t testing.TB, b *transcript.Talk) transcript.Client { return clientOf(session(t, b)) }}

func clientOf(s *Session) transcript.Client {
	return transcript.Client{Session: s, Counted: func() protocol.Counts { return counted(s) },
		Wait:   func(r *rand.Rand) { s.config.Handler.(*fake).Waits = r },
		Resume: func(state []byte) (transcript.Session, error) { return Resume(s.config, true, state) }}
}

func TestTranscripts(t *testing.T) { transcript.Run(t, grammar, *update) }
