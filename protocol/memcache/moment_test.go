package memcache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A punctual issues the ids of keys that begin with "strict". It waits as often as its script says: w
// means wait, e that another server issues the ids, everything else that it has one.
type punctual struct {
	fakeCounter
	clock  int64    // ns; each look at it takes a second
	script string   // of the Mints and Reserves to come that have a moment
	asked  []string // the moments of all, in seconds
	reads  int      // of the clock
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
	return p.fakeSource.Mint(id.At(0), min(n, 2), false)
}

func (p *punctual) Reserve(when id.When, n int) (id.Run, error) {
	if err := p.ask(when); err != nil {
		return id.Run{}, err
	}
	return p.fakeCounter.Reserve(id.At(0), n)
}

func (p *punctual) ask(when id.When) error {
	if when.Moment == 0 {
		return id.ErrMoment
	}
	word := fmt.Sprint(when.Moment / 1e9)
	if when.Redirect {
		word += " or where"
	}
	p.asked = append(p.asked, word)
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
	p := &punctual{fakeCounter: fakeCounter{&f.sources[4]}, script: script, clock: 1 << 52} // up for 52 days
	s := newSession(f)
	s.config.Handler = p
	p.clock -= p.clock % 1e9
	return p, s
}

// One look at the clock serves all requests of a Feed; a request that waited is asked for with its own
// moment again, and those behind it with a later one. Requests for other ids cost no look.
func TestMoments(t *testing.T) {
	const binaryStrict = "\x80\x00\x00\x06" + "\x00\x00\x00\x00" + "\x00\x00\x00\x06" + "\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00" + "strict"
	for _, c := range []struct{ name, script, in, asked string }{
		{"none", "", "get a b\r\nget id\r\nincr orders 2\r\n", "0 reads:"},
		{"one", "", "get strict\r\n", "1 reads: 1"},
		{"a pipeline", "", "get strict\r\nget a\r\nincr strict 2\r\nmg strict v\r\nget a strict b strict1\r\nme strict\r\n",
			"1 reads: 1 1 1 1 1 1"},
		{"several Mints", "", "get strict1 strict2 strict3\r\n", "1 reads: 1 1"},
		{"a line waits", "ww", "get strict\r\n", "3 reads: 1 1 1"},
		{"behind it", "iwwii", "get strict\r\nget strict\r\nget strict\r\nget a\r\n", "3 reads: 1 1 1 1 3"},
		{"each in its turn", "wwiwwi", "get strict\r\nget strict\r\nget strict\r\n", "5 reads: 1 1 1 3 3 3 5"},
		{"the first key of a line", "w", "get strict a\r\nget strict\r\n", "2 reads: 1 1 2"},
		{"a later key", "w", "get a b strict c\r\nget strict\r\n", "2 reads: 1 1 2"},
		{"several keys of a line", "wiwi", "get a b strict c strict d\r\nget strict\r\n", "3 reads: 1 1 1 1 3"},
		{"ids", "", "ids 5 strict\r\nids 1 strict\r\nids 2\r\nget strict\r\n", "1 reads: 1 1 1 1 1"},
		{"ids, at first", "ww", "ids 1 strict\r\nids 1 strict\r\n", "3 reads: 1 1 1 3"},
		{"ids, on the way", "iwwiwi", "ids 5 strict\r\nget strict\r\n", "4 reads: 1 1 1 1 1 1 4"},
		{"incr", "w", "incr strict 5\r\nincr strict 5\r\n", "2 reads: 1 1 2"},
		{"mg, ma, me", "wiwiw", "mg strict v\r\nma strict v\r\nme strict\r\n", "4 reads: 1 1 2 2 3 3"},
		{"binary", "ww", binaryStrict + binaryStrict, "3 reads: 1 1 1 3"},
		{"a free one waits behind it", "", "get strict\r\nget a\r\nget strict\r\n", "2 reads: 1 2"},
		{"a long line", "w", "get" + strings.Repeat(" a", 3000) + " strict b\r\nget strict\r\n", "2 reads: 1 1 2"},
	} {
		p, s := newPunctual(c.script)
		start := p.clock / 1e9
		if c.name == "a free one waits behind it" {
			s.config.Handler = waitsOnce{p, new(bool)}
		}
		answerTo(t, s, []byte(c.in))
		got := fmt.Sprint(p.reads) + " reads:"
		for _, m := range p.asked {
			var moment int64
			fmt.Sscan(m, &moment)
			got += fmt.Sprint(" ", moment-start)
		}
		if got != c.asked {
			t.Errorf("%s: %s, want %s", c.name, got, c.asked)
		}
	}
}

// waitsOnce is a Handler whose key a must wait, once.
type waitsOnce struct {
	*punctual
	done *bool
}

func (w waitsOnce) Source(key []byte) id.Source {
	if string(key) == "a" {
		if !*w.done {
			*w.done = true
			return &patient{&w.fake.sources[0], "w"}
		}
	}
	return w.punctual.Source(key)
}

// A moment comes back as it was if a request waits for at most two minutes, and later otherwise. It is
// never earlier than the clock was.
func TestMomentsThatWereKeptForLong(t *testing.T) {
	for _, start := range []int64{1, 63, 64, 1 << 36, 1<<37 - 1, 1<<53 + 12345} {
		for _, wait := range []int64{1, 1e9, 120e9, 137438953472, 1000e9, 5000000e9} {
			p, s := newPunctual("w")
			p.clock = start - 1e9
			in := []byte("get strict\r\n")
			var moments []int64
			s.config.Handler = tells{p, &moments}
			s.Feed(0, in, nil)
			p.clock += wait - 1e9
			s.Feed(0, in, nil)
			if len(moments) != 2 || moments[0] < start || moments[0] >= start+64 || moments[1] < moments[0] ||
				moments[1] > start+wait+63 ||
				wait <= 120e9 && moments[1] != moments[0] {
				t.Errorf("from %d, for %d ns: %v", start, wait, moments)
			}
		}
	}
}

// tells is a Handler that notes the moments.
type tells struct {
	*punctual
	moments *[]int64
}

func (c tells) Source([]byte) id.Source { return c }

func (c tells) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	if when.Moment != 0 {
		*c.moments = append(*c.moments, when.Moment)
	}
	return c.punctual.Mint(when, n, bulk)
}

// Over UDP nobody fetches ids from another server: the client asks again, and they would be lost.
func TestDatagramsFetchNothing(t *testing.T) {
	for _, script := range []string{"e", "w"} {
		p, s := newPunctual(script)
		in := []byte("\x00\x07\x00\x00\x00\x01\x00\x00get strict\r\n")
		if out := Datagram(s.config, 1, in, nil); len(out) > 0 || len(p.asked) != 1 ||
			!strings.HasSuffix(p.asked[0], " or where") {
			t.Errorf("%s: said %q, asked %q", script, out, p.asked)
		}
		if out := Datagram(s.config, 1, in, nil); !strings.Contains(string(out), "VALUE strict 0 1\r\n1\r\n") {
			t.Errorf("%s: then said %q", script, out)
		}
	}
	p, s := newPunctual("")
	s.Feed(1, []byte("get strict\r\n"), nil)
	if strings.HasSuffix(p.asked[0], " or where") {
		t.Error("a connection need not wait for ids of another server")
	}
}

var _ protocol.Handler = (*punctual)(nil)
