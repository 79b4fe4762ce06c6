package memcache

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// fake is the program behind the protocol in tests. Keys that begin with a:, b: or c: have sources
// 1, 2 and 3, whose ids start at 1000000 and so on; ids of the default source start at 100. Declared
// are orders and tickets, counters of step 17 and 26, count, a counter as memcached's, flake, whose ids
// cannot be reserved, and uuid, ulid and objectid, whose ids are no numbers. Each source has a budget,
// after which it refuses. Keys that begin with d: are unknown names.
type fake struct {
	sources [10]fakeSource
	next    [10]uint64
	budget  int // ids of each source before it refuses; 0 = no end
	used    [10]int
	most    int        // ids of one Mint; 0 = no limit
	waits   *rand.Rand // if not nil, the sources wait at random
	waited  int        // how often they did
	turns   string     // of Mints of the default source to come: w waits, i issues
	log     []string   // each Mint's n, when wanted
	logged  bool
	refusal error // instead of ids
}

func newFake() *fake {
	f := &fake{next: [10]uint64{100, 1000000, 2000000, 3000000, 1, 18000000000000000000, storedCount + 1}}
	for i := range f.sources {
		f.sources[i] = fakeSource{f, i}
	}
	return f
}

var errSpent = errors.New("no id\r\nfor now")

func (f *fake) Source(key []byte) id.Source {
	if s := f.Named(key); s != nil {
		return s
	}
	if len(key) > 1 && key[1] == ':' && key[0] >= 'a' && key[0] <= 'c' {
		return &f.sources[key[0]-'a'+1]
	}
	if bytes.HasPrefix(key, []byte("d:")) {
		return noGenerator(key)
	}
	return &f.sources[0]
}

func (f *fake) Named(key []byte) id.Source {
	switch string(key) {
	case "orders":
		return fakeCounter{&f.sources[4]}
	case "tickets":
		return fakeCounter{&f.sources[5]}
	case "count":
		return fakeCounter{&f.sources[6]}
	case "uuid":
		return fakeTexter{&f.sources[7], id.UUID}
	case "ulid":
		return fakeTexter{&f.sources[8], id.ULID}
	case "objectid":
		return fakeTexter{&f.sources[9], id.ObjectID}
	case "flake":
		return &f.sources[1]
	}
	return nil
}

// A sifting fake is a protocol.Sifter too. asked is how often it was asked for a key's source.
type sifting struct {
	*fake
	asked int
}

func (f *sifting) Source(key []byte) id.Source {
	f.asked++
	return f.fake.Source(key)
}

func (f *sifting) Sieve() (rest id.Source, sieve *[256]uint64) {
	sieve = new([256]uint64)
	for _, b := range []byte("abcd") { // the prefixes
		sieve[b] = 1<<64 - 1
	}
	for _, name := range []string{"orders", "tickets", "count", "uuid", "ulid", "objectid", "flake"} {
		sieve[name[0]] |= 1 << len(name)
	}
	return &f.sources[0], sieve
}

// A fakeCounter is a source whose ids can be reserved.
type fakeCounter struct{ *fakeSource }

func (c fakeCounter) Reserve(when id.When, n int) (id.Run, error) {
	f := c.fake
	if f.logged {
		f.log = append(f.log, fmt.Sprintf("reserve %d*%d", n, c.number))
	}
	if err := f.rest(); err != nil {
		return id.Run{}, err
	}
	if f.budget > 0 && f.budget-f.used[c.number] < n {
		return id.Run{}, errSpent
	}
	return f.issue(c.number, n), nil
}

// A fakeTexter is a source of texts.
type fakeTexter struct {
	*fakeSource
	form id.Form
}

func (t fakeTexter) Form() id.Form { return t.form }

func (t fakeTexter) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	run, err := t.fakeSource.Mint(when, 1, bulk)
	if err != nil {
		return run, err
	}
	high := uint64(0x1122334455667788)
	if t.form == id.ObjectID { // it has 96 bits
		high >>= 32
	}
	return id.TextRun(t.form, high, run.First<<32), nil
}

// rest returns what a source says instead of looking for ids.
func (f *fake) rest() error {
	if f.waits != nil && f.waits.IntN(3) == 0 {
		f.waited++
		return id.ErrWait
	}
	return f.refusal
}

func (f *fake) issue(source, n int) id.Run {
	stride := uint64(source*source + 1)
	if source == 6 {
		stride = 1
	}
	first := f.next[source]
	f.next[source] += stride * uint64(n)
	f.used[source] += n
	return id.Run{First: first, Stride: stride, N: n}
}

type noGenerator string

func (n noGenerator) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, id.UnknownName(n) }

type fakeSource struct {
	*fake
	number int
}

func (f *fakeSource) Mint(_ id.When, n int, bulk bool) (id.Run, error) {
	source := f.number
	if f.logged {
		f.log = append(f.log, fmt.Sprintf("%d*%d", n, source)+map[bool]string{true: " bulk"}[bulk])
	}
	if source == 0 && f.turns != "" {
		turn := f.turns[0]
		if f.turns = f.turns[1:]; turn == 'w' {
			return id.Run{}, id.ErrWait
		}
	}
	if err := f.rest(); err != nil {
		return id.Run{}, err
	}
	if f.most > 0 {
		n = min(n, f.most)
	}
	if f.budget > 0 {
		if n = min(n, f.budget-f.used[source]); n == 0 {
			return id.Run{}, errSpent
		}
	}
	return f.issue(source, n), nil
}

func (f *fake) Stats(group []byte, emit func(name, value string)) bool {
	switch string(group) {
	case "":
		emit("pid", "1")
		emit("version", "1.2.3")
		emit("odd", "a\r\nb\x1b\u202e")
	case "settings":
		emit("maxconns", "1024")
	case "items", "slabs":
	default:
		return false
	}
	return true
}

func newSession(f *fake) *Session {
	return NewSession(&protocol.Config{Handler: f, Counters: new(protocol.Counters), Version: "1.2.3"})
}

// counted returns what a session counted.
func counted(s *Session) (n protocol.Counts) {
	s.config.Counters.AddTo(&n)
	return n
}

// most is what a session may leave unconsumed.
const most = maxGetLine - 1

// answerTo returns what a fresh session answers to input in the given pieces, with a mark where it
// closes.
func answerTo(t *testing.T, s *Session, pieces ...[]byte) []byte {
	return transcript.Answer(t, s, most, pieces...)
}
