package protocol

import (
	"bytes"
	"fmt"
	"testing"
)

// counting is the least that can stand behind the protocol: ids in a row.
type counting struct{ next uint64 }

func (*counting) Source([]byte) int { return 0 }
func (c *counting) Mint(_ int64, _, n int) (first, stride uint64, got int, err error) {
	first = c.next
	c.next += uint64(n)
	return first, 1, n, nil
}
func (*counting) Stats([]byte, func(name, value string)) bool { return true }

func counted() *Session {
	return NewSession(&Config{Handler: &counting{next: 1_500_000_000_000_000_000}, Counters: new(Counters), Version: "1.0.0"})
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
}

func BenchmarkFeed(b *testing.B) {
	for _, c := range benches {
		b.Run(c.name, func(b *testing.B) {
			s, out := counted(), make([]byte, 0, 1<<20)
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

func TestGetDoesNotAllocate(t *testing.T) {
	for _, c := range benches {
		s, out := counted(), make([]byte, 0, 1<<20)
		if n := testing.AllocsPerRun(100, func() { s.Feed(0, c.in, out) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
