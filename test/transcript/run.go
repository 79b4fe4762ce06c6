package transcript

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A Client is a fresh session.
type Client struct {
	Session
	Counted func() protocol.Counts
	Wait    func(r *rand.Rand) // lets its sources wait at random
}

// A Grammar is what Run needs of one.
type Grammar struct {
	Update bool                               // rewrite the answers in the files with what is answered now
	Most   int                                // bytes that a session may leave unconsumed
	New    func(t testing.TB, b *Talk) Client // sets up what a conversation is held with
	Lines  func(reply []byte) []string        // writes a reply as lines of a file
	Seen   func(answer []byte) []byte         // what must be there whenever sources wait; nil = all
}

// Files reads the conversations of testdata, by file.
func Files(t testing.TB) map[string]*File {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	files := map[string]*File{}
	for _, path := range paths {
		files[strings.TrimSuffix(filepath.Base(path), ".txt")] = Read(t, path)
	}
	return files
}

// Run holds all conversations of testdata: each is answered alike, counts included, however its bytes are cut and
// whenever its sources wait.
func Run(t *testing.T, g Grammar) {
	if g.Seen == nil {
		g.Seen = func(answer []byte) []byte { return answer }
	}
	seed := uint64(time.Now().UnixNano())
	for name, f := range Files(t) {
		t.Run(name, func(t *testing.T) {
			if g.Update {
				g.rewrite(t, f)
				return
			}
			for _, b := range f.Talks {
				g.hold(t, &b, seed)
			}
		})
	}
}

// hold reports the first difference alone.
func (g *Grammar) hold(t *testing.T, b *Talk, seed uint64) {
	in := bytes.Join(b.Sent, nil)
	straight := g.New(t, b)
	Answer(t, straight, g.Most, in)
	bad := false
	check := func(how string, c Client, seen func([]byte) []byte, pieces ...[]byte) {
		if bad {
			return
		}
		if got, want := seen(Answer(t, c, g.Most, pieces...)), seen(b.Want); !bytes.Equal(got, want) {
			bad = true
			t.Errorf("%s, %s: %s", b.Name, how, Difference(got, want))
		}
		if got, want := c.Counted(), straight.Counted(); got != want {
			bad = true
			t.Errorf("%s, %s: counted %v, want %v", b.Name, how, got, want)
		}
	}
	all := func(answer []byte) []byte { return answer }
	check("line by line", g.New(t, b), all, b.Sent...)
	check("whole", g.New(t, b), all, in)
	if len(in) < 10000 {
		check("byte by byte", g.New(t, b), all, InBytes(in)...)
	}
	for i := range uint64(20) {
		check(fmt.Sprintf("split with seed %d+%d", seed, i), g.New(t, b), all, SplitAtRandom(in, seed+i)...)
		c := g.New(t, b)
		c.Wait(rand.New(rand.NewPCG(seed, i)))
		check(fmt.Sprintf("waiting with seed %d+%d", seed, i), c, g.Seen, SplitAtRandom(in, seed+i)...)
	}
}

// rewrite answers every C line again.
func (g *Grammar) rewrite(t *testing.T, f *File) {
	f.Rewrite(t, func(b *Talk) func(sent []byte) []string {
		c := Conversation{T: t, Session: g.New(t, b), Most: g.Most}
		return func(sent []byte) []string {
			said, wasClosed := len(c.Reply), c.Closed
			c.Feed(sent)
			lines := g.Lines(c.Reply[said:])
			if c.Closed && !wasClosed {
				lines = append(lines, "S! closed")
			}
			return lines
		}
	})
}
