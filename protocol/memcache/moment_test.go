package memcache

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// A punctual issues the ids of keys that begin with "strict". It waits as often as its script says: w
// means wait, e that another server issues the ids, everything else that it has one.
type punctual struct {
	*fake
	transcript.Numbers
	clock  int64     // ns; each look at it takes a second
	script string    // of the Mints and Reserves to come that have a moment
	asked  []id.When // all that have one
	reads  int       // of the clock
}

func (p *punctual) Source(key []byte) id.Source {
	if strings.HasPrefix(string(key), "strict") {
		return p
	}
	return p.fake.Source(key)
}

func (p *punctual) Named(key []byte) id.Source {
	if s := p.Source(key); s == id.Source(p) {
		return s
	}
	return p.fake.Named(key)
}

func (p *punctual) Where() (id.Elsewhere, bool) { return id.Elsewhere{}, false }
func (p *punctual) Moment() int64 {
	p.reads++
	p.clock += 1e9
	return p.clock
}
func (p *punctual) Stats(g []byte, e func(_, _ string)) bool { return p.fake.Stats(g, e) }

func (p *punctual) Mint(when id.When, n int, _ bool) (id.Run, error) {
	if err := p.ask(when); err != nil {
		return id.Run{}, err
	}
	return p.Numbers.Mint(id.At(0), min(n, 2), false)
}

func (p *punctual) Reserve(when id.When, n int) (id.Run, error) {
	if err := p.ask(when); err != nil {
		return id.Run{}, err
	}
	return p.Numbers.Reserve(id.At(0), n)
}

func (p *punctual) ask(when id.When) error {
	if when.Moment == 0 {
		return id.ErrMoment
	}
	p.asked = append(p.asked, when)
	next := byte('i')
	if p.script != "" {
		next, p.script = p.script[0], p.script[1:]
	}
	switch {
	case next == 'e' && when.Redirect:
		return id.Elsewhere{Slot: 7, Address: "h:1"}
	case next == 'w' || next == 'e':
		return id.ErrWait
	}
	return nil
}

func newPunctual(script string) (*punctual, *Session) {
	f := newFake()
	p := &punctual{fake: f, Numbers: f.Named([]byte("orders")).(transcript.Numbers), script: script,
		clock: 1 << 52} // up for 52 days
	s := newSession(f)
	s.config.Handler = p
	p.clock -= p.clock % 1e9
	return p, s
}

// A moment comes back as it was if a request waits for at most two minutes, and later otherwise. It is
// never earlier than the clock was.
func TestMomentsThatWereKeptForLong(t *testing.T) {
	for _, start := range []int64{1, 63, 64, 1 << 36, 1<<37 - 1, 1<<53 + 12345} {
		for _, wait := range []int64{1, 1e9, 120e9, 137438953472, 1000e9, 5000000e9} {
			p, s := newPunctual("w")
			p.clock = start - 1e9
			in := []byte("get strict\r\n")
			s.Feed(0, in, nil)
			p.clock += wait - 1e9
			s.Feed(0, in, nil)
			if len(p.asked) != 2 {
				t.Fatalf("from %d, for %d ns: asked %v", start, wait, p.asked)
			}
			first, again := p.asked[0].Moment, p.asked[1].Moment
			if first < start || first >= start+64 || again < first || again > start+wait+63 ||
				wait <= 120e9 && again != first {
				t.Errorf("from %d, for %d ns: %d, then %d", start, wait, first, again)
			}
		}
	}
}

var _ protocol.Handler = (*punctual)(nil)
