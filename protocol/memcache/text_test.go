package memcache

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

func TestLongLines(t *testing.T) {
	const tooLong = "CLIENT_ERROR line too long\r\n<closed>"
	spaces := func(n int) string { return strings.Repeat(" ", n) }
	get := func(total int) string { // a get line of so many bytes
		n := (total - len("get\r\n") - 51) / 200 // keys of 199 bytes, and one of what is left
		s := "get" + strings.Repeat(" "+strings.Repeat("k", 199), n)
		return s + " " + strings.Repeat("z", total-len(s)-3) + "\r\n"
	}
	version := func(total int) string { return "version" + spaces(total-9) + "\r\n" }
	ids := func(line string) string {
		var want []byte
		for i, key := range strings.Fields(line)[1:] {
			want = fmt.Appendf(want, "VALUE %s 0 %d\r\n%d\r\n", key, len(fmt.Sprint(100+i)), 100+i)
		}
		return string(want) + "END\r\n"
	}
	for _, c := range []struct{ name, in, want string }{
		{"line at the limit", version(maxLine), "VERSION 1.2.3\r\n"},
		{"line over the limit", version(maxLine + 1), tooLong},
		{"line without an end", strings.Repeat("x", maxLine), tooLong},
		{"one byte less without an end", strings.Repeat("x", maxLine-1), ""},
		{"300 KB line", strings.Repeat("x", 300<<10) + "\r\n", tooLong},
		{"get of 2049", get(maxLine + 1), ids(get(maxLine + 1))},
		{"get of 200 KB", get(200 << 10), ids(get(200 << 10))},
		{"get at the limit", get(maxGetLine), ids(get(maxGetLine))},
		{"get over the limit", get(maxGetLine + 1), tooLong},
		{"get with a bad key at its end", strings.TrimSpace(get(100<<10)) + strings.Repeat("k", 251) + "\r\n", errFormat},
		{"verb late in the line", spaces(2000) + get(3000), ids(get(3000))},
		{"verb too late in the line", spaces(maxLine-3) + get(3000), tooLong},
		{"get without an end", strings.TrimSpace(get(maxLine)), ""},
		{"verb alone", "get" + spaces(maxLine), "ERROR\r\n"},
	} {
		if c.want == "ERROR\r\n" {
			c.in += "\r\n"
		}
		splits := [][][]byte{{[]byte(c.in)}, {[]byte(c.in)[:1500], []byte(c.in)[1500:]}}
		if len(c.in) < 10000 {
			splits = append(splits, transcript.InBytes([]byte(c.in)))
		}
		for i, pieces := range splits {
			if got := answerTo(t, newSession(newFake()), pieces...); string(got) != c.want {
				t.Errorf("%s, split %d: got %d bytes %.80q, want %d %.80q", c.name, i, len(got), got, len(c.want), c.want)
			}
		}
	}
}

// If issuing fails in the first piece of a get line, the reply is only the error; if it fails later,
// the error replaces END. Which of the two does not depend on the packets, nor on what is pipelined
// before.
func TestRefusal(t *testing.T) {
	same := func(i int) string { return " " + strings.Repeat("k", 90) }
	mixed := func(i int) string { return " " + [...]string{"", "a:", "b:"}[i%3] + strings.Repeat("k", 90) }
	for _, c := range []struct {
		budget, keys, values int
		key                  func(i int) string
	}{
		{1, 3, 0, same}, {3, 3, 3, same}, {300, 1000, 0, same}, {900, 1000, 900, same}, {1000, 1000, 1000, same},
		{1, 10, 0, mixed}, {100, 1000, 0, mixed}, {250, 1000, 750, mixed}, {400, 1000, 1000, mixed},
	} {
		in := "get"
		for i := range c.keys {
			in += c.key(i)
		}
		in += "\r\n"
		s := newSession(budgeted(c.budget))
		answer := answerTo(t, s, []byte(in))
		refused := bytes.HasSuffix(answer, []byte("\nSERVER_ERROR no id  for now\r\n")) ||
			string(answer) == "SERVER_ERROR no id  for now\r\n"
		if n := bytes.Count(answer, []byte("VALUE")); n != c.values || refused == (c.keys == c.values) {
			t.Errorf("%d keys, %d ids: %d values, ends in %q", c.keys, c.budget, n, answer[max(0, len(answer)-40):])
		}
		counts := counted(s)
		if want := (protocol.Counts{protocol.CmdGet: 1, protocol.IDs: uint64(c.values),
			protocol.Refused: uint64(c.keys - c.values)}); counts != want {
			t.Errorf("%d keys, %d ids: counted %v, want %v", c.keys, c.budget, counts, want)
		}
		before := strings.Repeat("version\r\n", 4000)
		for _, pieces := range [][][]byte{{[]byte(before + in)}, {[]byte(before + in[:20]), []byte(in[20:])}} {
			if got := answerTo(t, newSession(budgeted(c.budget)), pieces...); string(got) != strings.Repeat("VERSION 1.2.3\r\n",
				4000)+string(answer) {
				t.Errorf("%d keys, %d ids: a pipeline before changes the answer", c.keys, c.budget)
			}
		}
	}
}

// In a run, each id is computed from the previous one.
func TestRunsOfIDs(t *testing.T) {
	for _, first := range []uint64{0, 95, 9990, 1e16 - 20, 1500000000000009990, 1 << 63, 1e19 - 100} {
		for _, stride := range []uint64{1, 3, 4096, 65536} {
			for _, verb := range []string{"get", "gets"} {
				var want []byte
				for i := range uint64(40) {
					id := fmt.Sprint(first + i*stride)
					cas := map[string]string{"get": "", "gets": " " + id}[verb]
					want = fmt.Appendf(want, "VALUE key%d 0 %d%s\r\n%s\r\n", i, len(id), cas, id)
				}
				s := countingSession()
				s.config.Handler = &counting{next: first, stride: stride}
				if got := answerTo(t, s, append([]byte(verb), manyKeys(40)[3:]...)); string(got) != string(want)+"END\r\n" {
					t.Errorf("%s from %d by %d: %s", verb, first, stride, firstDifference(got, want))
				}
			}
		}
	}
}

func TestClosedIsClosed(t *testing.T) {
	for _, in := range []string{"quit\r\n", string(frameOf(0x17, "", "", "")), strings.Repeat("x", maxLine)} {
		s := newSession(newFake())
		if _, _, err := s.Feed(0, []byte(in), nil); err != protocol.ErrClose {
			t.Errorf("%.40q: error %v", in, err)
		}
		for _, more := range []string{"get id\r\n", string(frameOf(0x0a, "", "", ""))} {
			if n, reply, err := s.Feed(0, []byte(more), nil); n != len(more) || len(reply) > 0 || err != protocol.ErrClose {
				t.Errorf("%.40q, then %q: %d %q %v", in, more, n, reply, err)
			}
		}
	}
}

func TestOneMintForAllKeysOfASource(t *testing.T) {
	f := newFake()
	f.logged, f.most = true, 3
	answerTo(t, newSession(f), []byte("get a:1 a:2 x y z z z a:3\r\n"))
	if got := strings.Join(f.log, " "); got != "2*1 bulk 5*0 bulk 2*0 bulk 1*1 bulk" {
		t.Error(got)
	}
}

// A Handler with a sieve is asked about the keys that pass it only, and neighbours of one source still
// share a Mint, whether they passed or not. A key that ends a span is asked about twice.
func TestASieveSavesQuestions(t *testing.T) {
	for _, c := range []struct {
		in, mints string
		asked     int
	}{
		{"get k l m n", "4*0", 0},
		{"get a a k l a k", "6*0", 3}, // a passes, and is not declared
		{"get k orders orders m m uuid n", "1*0 2*4 2*0 1*7 1*0", 5},
		{"get orders k a k", "1*4 3*0", 2},
		{"get x a:1 a:2 flake a y", "1*0 3*1 2*0", 6},
	} {
		f := &sifting{fake: newFake()}
		f.logged = true
		s := newSession(f.fake)
		s.config.Handler = f
		answerTo(t, s, []byte(c.in+"\r\n"))
		if got := strings.ReplaceAll(strings.Join(f.log, " "), " bulk", ""); got != c.mints {
			t.Errorf("%s: %s, want %s", c.in, got, c.mints)
		}
		if f.asked != c.asked {
			t.Errorf("%s: asked %d times, want %d", c.in, f.asked, c.asked)
		}
	}
}

// Bulk requests may be refused while a single id is not. A client that asks for one id at a time is
// not bulk, in whatever way it asks.
func TestWhatIsBulk(t *testing.T) {
	one, many := " 1*0", " 1*0 bulk"
	for _, c := range []struct{ name, in, want string }{
		{"one command of each kind", "get k\r\ngets k\r\ngat 0 k\r\nmg k v\r\n", strings.Repeat(one, 4)},
		{"a line of two keys", "get k l\r\n", " 2*0 bulk"},
		{"single gets in a row", strings.Repeat("get k\r\n", 6), strings.Repeat(one, protocol.SingleGets) + many + many},
		{"meta gets in a row", strings.Repeat("mg k v\r\n", 6), strings.Repeat(one, protocol.SingleGets) + many + many},
		{"binary quiet gets", string(bytes.Repeat(frameOf(0x09, "", "k", ""), 6)),
			strings.Repeat(one, protocol.SingleGets) + many + many},
		{"a single get behind a line of two keys", "get k l\r\nget k\r\n", " 2*0 bulk" + one},
	} {
		f := newFake()
		f.logged = true
		s := newSession(f)
		if n, _, err := s.Feed(0, []byte(c.in), nil); n != len(c.in) || err != nil {
			t.Fatal(c.name, n, err)
		}
		if got := " " + strings.Join(f.log, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	f := newFake()
	f.logged = true
	for s := newSession(f); len(f.log) < 2*protocol.SingleGets; {
		s.Feed(0, []byte("get k\r\n"), nil)
	}
	if got := strings.Join(f.log, " "); strings.Contains(got, "bulk") {
		t.Errorf("gets of a Feed each: %s", got)
	}
}

func TestCounters(t *testing.T) {
	f := newFake()
	f.budget = 4
	s := newSession(f)
	answerTo(t, s, []byte("get a b\r\ngets c\r\nget d e\r\nnonsense\r\nset k 0 0 1\r\nx\r\nmore"))
	var got protocol.Counts
	s.config.Counters.AddTo(&got)
	s.config.Counters.AddTo(&got)
	want := protocol.Counts{protocol.CmdGet: 4, protocol.CmdGets: 2, protocol.CmdSet: 2, protocol.CmdOther: 2,
		protocol.IDs: 6, protocol.Refused: 4, protocol.Malformed: 2}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A range counts as its ids, a refusal of one as one key. Mistakes and keys without ranges are neither.
func TestRangesAreCounted(t *testing.T) {
	for in, want := range map[string]string{
		"incr orders 5\r\nma orders D7 q\r\n": "2 incr 12 id 2 hits",
		"incr orders 3 noreply\r\n":           "1 incr 3 id 1 hits",
		"incr orders 50\r\nma orders D50\r\n": "2 incr 2 refused",
		"incr orders 50 noreply\r\n":          "1 incr 1 refused",
		"incr id 5\r\nma flake\r\ndecr orders 1\r\nincr orders 0\r\nincr uuid 1\r\nma orders C1\r\n": "6 incr",
		string(frameOf(0x15, "\x00\x00\x00\x00\x00\x00\x00\x04000000000000", "orders", "")):          "1 incr 4 id 1 hits",
		string(frameOf(0x05, "\x00\x00\x00\x00\x00\x00\x00\xff000000000000", "orders", "")):          "1 incr 1 refused",
	} {
		s := newSession(budgeted(20))
		answerTo(t, s, []byte(in))
		if got := tell(s); got != want {
			t.Errorf("%q: counted %q, want %q", in, got, want)
		}
	}
}

func TestSessionIsSmall(t *testing.T) {
	var s Session
	if n := unsafe.Sizeof(s); n > 24 {
		t.Errorf("%d bytes for each idle connection", n)
	}
}

// A reason is cut at MaxReason in every grammar: the program behind may name a path, or return any
// error text of its own.
func TestLongReasonsAreCut(t *testing.T) {
	const limit = 256 // the value that docs and clients know
	long := strings.Repeat("no id, and why: ", 1000)
	refusing := protocol.Config{Handler: refuser{newFake(), errors.New(long)}, Counters: new(protocol.Counters),
		Version: "1.2.3"}
	for what, c := range map[string]struct{ in, begin, end string }{
		"text": {"get k\r\n", "SERVER_ERROR ", "\r\n"},
		"meta": {"mg k v\r\n", "SERVER_ERROR ", "\r\n"},
		"binary": {"\x80\x00\x00\x01" + strings.Repeat("\x00", 4) + "\x00\x00\x00\x01" + strings.Repeat("\x00", 12) + "k",
			"\x81\x00\x00\x00\x00\x00\x00\x86\x00\x00\x01\x00" + strings.Repeat("\x00", 12), ""},
	} {
		s := NewSession(&refusing)
		_, out, err := s.Feed(1, []byte(c.in), nil)
		if want := c.begin + long[:limit] + c.end; err != nil || string(out) != want {
			t.Errorf("%s: %d bytes %.40q, %v; want %d bytes %.40q", what, len(out), out, err, len(want), want)
		}
	}
}

// A refuser has no ids.
type refuser struct {
	*fake
	why error
}

func (r refuser) Source([]byte) id.Source                 { return r }
func (r refuser) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, r.why }

// TestReasonsReachNoTerminal: whatever runs at a store's address can put its own text into a reason, which a
// client may print.
func TestReasonsReachNoTerminal(t *testing.T) {
	const hostile, harmless = "ERR \x1b]0;x\a\u202e\r é", `ERR \u001b]0;x\u0007\u202e  é`
	h := refuser{newFake(), errors.New(hostile)}
	c := protocol.Config{Handler: h, Counters: new(protocol.Counters), Version: "1.2.3"}
	binary := "\x80\x00\x00\x01" + strings.Repeat("\x00", 7) + "\x01" + strings.Repeat("\x00", 12) + "k"
	for _, in := range []string{"get k\r\n", "mg k v\r\n", binary} {
		if out := string(answerTo(t, NewSession(&c), []byte(in))); !strings.Contains(out, harmless) {
			t.Errorf("%q is answered %q", in, out)
		}
	}
}
