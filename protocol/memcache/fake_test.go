package memcache

import (
	"bytes"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// fake is the program behind the protocol in tests. Keys that begin with a:, b: or c: have sources
// of their own, whose ids start at 1000000 and so on; ids of the default source start at 100. Declared
// are orders and tickets, counters of step 17 and 26, count, a counter as memcached's, flake, whose ids
// cannot be reserved, and uuid, ulid and objectid, whose ids are no numbers. Keys that begin with d: are unknown names.
type fake struct{ transcript.Ids }

func newFake() *fake {
	return &fake{transcript.Ids{Used: map[string]int{},
		Next: map[string]uint64{"": 100, "a:": 1000000, "b:": 2000000, "c:": 3000000, "orders": 1,
			"tickets": 18000000000000000000, "count": storedCount + 1},
		Stride: map[string]uint64{"a:": 2, "b:": 5, "c:": 10, "orders": 17, "tickets": 26,
			"uuid": 50 << 32, "ulid": 65 << 32, "objectid": 82 << 32},
	}}
}

func (f *fake) Source(key []byte) id.Source {
	if s := f.Named(key); s != nil {
		return s
	}
	if len(key) > 1 && key[1] == ':' && key[0] >= 'a' && key[0] <= 'c' {
		return f.supply(string(key[:2]))
	}
	if bytes.HasPrefix(key, []byte("d:")) {
		return f.supply(string(key))
	}
	return f.supply("")
}

func (f *fake) supply(name string) transcript.Supply {
	return transcript.Supply{Ids: &f.Ids, Name: name}
}

func (f *fake) Named(key []byte) id.Source {
	const high = 0x1122334455667788
	switch s := f.supply(string(key)); s.Name {
	case "orders", "tickets", "count":
		return transcript.Numbers{Supply: s}
	case "uuid":
		return transcript.Texts{Supply: s, Of: id.UUID, High: high}
	case "ulid":
		return transcript.Texts{Supply: s, Of: id.ULID, High: high}
	case "objectid":
		return transcript.Texts{Supply: s, Of: id.ObjectID, High: high >> 32} // it has 96 bits
	case "flake":
		return f.supply("a:")
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
	return f.supply(""), sieve
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
