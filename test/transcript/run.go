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
	Wait    func(r *rand.Rand)                  // lets its sources wait at random
	Resume  func(state []byte) (Session, error) // goes on from where it froze
}

// A mover freezes its session before each Feed, and goes on with another one that is made of it.
type mover struct {
	t testing.TB
	Client
}

func (m *mover) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	if state, ok := m.Session.(interface{ Freeze() ([]byte, bool) }).Freeze(); ok {
		next, err := m.Resume(state)
		if err != nil {
			m.t.Fatalf("frozen as %q: %v", state, err)
		}
		m.Session = next
	}
	return m.Session.Feed(now, in, out)
}

// A Grammar is what Run needs of one.
type Grammar struct {
	Most  int                                // bytes that a session may leave unconsumed
	New   func(t testing.TB, b *Talk) Client // sets up what a conversation is held with
	Lines func(reply []byte) []string        // writes a reply as lines of a file
	Seen  func(answer []byte) []byte         // what must be there whenever sources wait; nil = all
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
// whenever its sources wait. update rewrites the answers in the files with what is answered now.
func Run(t *testing.T, g Grammar, update bool) {
	seed := uint64(time.Now().UnixNano())
	for name, f := range Files(t) {
		t.Run(name, func(t *testing.T) {
			if update {
				g.rewrite(t, f)
				return
			}
			for _, b := range f.Talks {
				g.hold(t, &b, seed)
			}
		})
	}
}

// hold holds one of them.
func (g *Grammar) hold(t *testing.T, b *Talk, seed uint64) {
	in := bytes.Join(b.Sent, nil)
	straight := g.New(t, b)
	Answer(t, straight, g.Most, in)
	c := comparing{t, g, b.Name, b.Want, straight.Counted(), false}
	c.with("line by line", g.New(t, b), all, b.Sent...)
	c.with("whole", g.New(t, b), all, in)
	if len(in) < 10000 {
		c.with("byte by byte", g.New(t, b), all, InBytes(in)...)
	}
	for i := range uint64(20) {
		c.with(fmt.Sprintf("split with seed %d+%d", seed, i), g.New(t, b), all, SplitAtRandom(in, seed+i)...)
		waits := g.New(t, b)
		waits.Wait(rand.New(rand.NewPCG(seed, i)))
		c.with(fmt.Sprintf("waiting with seed %d+%d", seed, i), waits, g.Seen, SplitAtRandom(in, seed+i)...)
	}
}

// Alike returns what a client answers to in. Others answer alike, counts included, however the bytes are cut, whenever
// their sources wait, and wherever they move to another process.
func (g *Grammar) Alike(t testing.TB, client func() Client, in []byte, seed uint64) (whole []byte) {
	t.Helper()
	straight := client()
	whole = Answer(t, straight, g.Most, in)
	c := comparing{t, g, fmt.Sprint("seed ", seed), whole, straight.Counted(), false}
	if len(in) <= 2500 { // quadratic: every byte brings the unconsumed bytes again
		c.with("byte by byte", client(), all, InBytes(in)...)
	}
	pieces := SplitAtRandom(in, seed)
	c.with("split", client(), all, pieces...)
	moves := client()
	moves.Session = &mover{t, moves}
	c.with("moved", moves, all, pieces...)
	waits := client()
	waits.Wait(rand.New(rand.NewPCG(seed, 1)))
	c.with("waiting", waits, g.Seen, pieces...)
	both := client()
	both.Wait(rand.New(rand.NewPCG(seed, 1)))
	both.Session = &mover{t, both}
	c.with("moved while waiting", both, g.Seen, pieces...)
	return whole
}

// comparing reports the first difference alone.
type comparing struct {
	testing.TB
	*Grammar
	what   string
	want   []byte
	counts protocol.Counts
	bad    bool
}

func all(answer []byte) []byte { return answer }

func (c *comparing) with(how string, client Client, seen func([]byte) []byte, pieces ...[]byte) {
	c.Helper()
	if c.bad {
		return
	}
	if seen == nil {
		seen = all
	}
	if got, want := seen(Answer(c, client, c.Most, pieces...)), seen(c.want); !bytes.Equal(got, want) {
		c.bad = true
		c.Errorf("%s, %s: %s", c.what, how, Difference(got, want))
	}
	if got := client.Counted(); got != c.counts {
		c.bad = true
		c.Errorf("%s, %s: counted %v, want %v", c.what, how, got, c.counts)
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
