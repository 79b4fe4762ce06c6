package memcache

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// counting is the simplest source behind the protocol: consecutive ids.
type counting struct{ next, stride uint64 }

func (c *counting) Source([]byte) id.Source { return c }
func (c *counting) Named([]byte) id.Source  { return nil }
func (c *counting) Mint(_ id.When, n int, _ bool) (id.Run, error) {
	first := c.next
	c.next += uint64(n) * c.stride
	return id.Run{First: first, Stride: c.stride, N: n}, nil
}
func (*counting) Stats([]byte, func(name, value string)) bool { return true }

func countingSession() *Session {
	return NewSession(&protocol.Config{Handler: &counting{next: 1_500_000_000_000_000_000, stride: 1},
		Counters: new(protocol.Counters), Version: "1.0.0"})
}

func manyKeys(n int) []byte {
	b := []byte("get")
	for i := range n {
		b = fmt.Appendf(b, " key%d", i)
	}
	return append(b, "\r\n"...)
}

// benches are the requests whose cost matters, with the number of ids that each asks for.
var benches = []struct {
	name string
	in   []byte
	ids  int
}{
	{"get", []byte("get id\r\n"), 1},
	{"gets", []byte("gets id\r\n"), 1},
	{"pipeline16", bytes.Repeat([]byte("get id\r\n"), 16), 16},
	{"get100", manyKeys(100), 100},
	{"mg", []byte("mg id s v\r\n"), 1},
	{"ids100", []byte("ids 100\r\n"), 100},
	{"GETK", frameOf(0x0c, "", "id", ""), 1},
}

// frameOf builds a binary request.
func frameOf(opcode byte, extras, key, value string) []byte {
	h := header{opcode: opcode}
	b := h.appendResponse(nil, 0, len(extras), len(key), len(value), 0)
	b[0] = magicRequest
	return append(b, extras+key+value...)
}

func BenchmarkFeed(b *testing.B) {
	for _, c := range benches {
		b.Run(c.name, func(b *testing.B) {
			s, out := countingSession(), make([]byte, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				if n, _, err := s.Feed(0, c.in, out); n != len(c.in) || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.ids), "ns/id")
		})
	}
}

func TestNothingAllocates(t *testing.T) {
	inputs := [][]byte{
		[]byte("GETS a b\r\ngat 0 a\r\nGats 0 a b c\r\nmg aGVsbG8= b k v c Oo\r\nme k\r\nmd k k\r\nma k\r\nmn\r\nms k " +
			"1\r\nx\r\n"),
		[]byte("set k 0 0 3\r\nabc\r\nset k 0 0 2147483645 noreply\r\nabc"),
		[]byte("delete k\r\ntouch k 0\r\nincr k 1\r\nversion\r\nverbosity 1\r\nflush_all\r\nnonsense\r\n\r\n"),
		append(frameOf(0x0a, "", "", ""),
			append(frameOf(0x01, "12345678", "k", "value"), frameOf(0x99, "", "k", "value")...)...),
	}
	for _, c := range benches {
		inputs = append(inputs, c.in)
	}
	for _, in := range inputs {
		out := make([]byte, 0, 1<<20)
		s := countingSession()
		if n := testing.AllocsPerRun(100, func() {
			*s = Session{config: s.config}
			s.Feed(0, in, out)
		}); n != 0 {
			t.Errorf("%.40q...: %v allocations", in, n)
		}
	}
}
