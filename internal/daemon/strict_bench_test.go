package daemon

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
)

// twoOrders returns what sessions share where two sequences have values without end: free, and strict,
// which this daemon leads.
func twoOrders(tb testing.TB) *protocol.Config {
	nothing := func() {}
	status := func() counter.Status { return counter.Status{} }
	free := issuer.NewSequence(issuer.SequenceConfig{Definition: counter.Sequence("free"), MaxWait: time.Second,
		Status: status, Ring: nothing, Wake: nothing})
	strict := issuer.NewStrict(issuer.StrictConfig{Definition: counter.Sequence("strict"), MaxWait: time.Second,
		Moment: clock.Moment, Status: status, Ring: nothing, Wake: nothing})
	for _, i := range []counter.Issuer{free, strict.Lead(func() int64 { return math.MaxInt64 })} {
		if err := i.Append(1, math.MaxInt64); err != nil {
			tb.Fatal(err)
		}
	}
	c := issuer.NewCatalog(time.Now().UnixMilli, free, false)
	c.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: "free"}), From: free},
		{Definition: kinds.Declared(counter.Definition{Name: "strict"}), From: strict}})
	return &protocol.Config{Handler: c.Handler(0, nil), Counters: new(protocol.Counters), Version: "1.0.0"}
}

// feedable is a session of any grammar.
type feedable interface {
	Feed(now int64, in, out []byte) (n int, reply []byte, err error)
}

// A strictRequest is one for values of either sequence, or several in a pipeline.
type strictRequest struct {
	name string
	in   []byte
	deep int
}

func (c strictRequest) session(shared *protocol.Config) feedable {
	if c.in[0] == '*' {
		return resp.NewSession(shared, false)
	}
	return memcache.NewSession(shared)
}

// strictRequests are what a strict sequence should answer as fast as a free one. Its only extra work is
// to read a clock, once a Feed.
func strictRequests() (list []strictRequest) {
	for _, deep := range []int{1, 16} {
		for _, key := range []string{"free", "strict"} {
			for name, in := range map[string]string{"get": "get " + key + "\r\n", "incr": "incr " + key + " 1\r\n",
				"redis": fmt.Sprintf("*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(key), key)} {
				list = append(list, strictRequest{fmt.Sprintf("%s/%d/%s", name, deep, key), bytes.Repeat([]byte(in), deep), deep})
			}
		}
	}
	return list
}

// BenchmarkStrict is Feed, catalogue and sequence, for a strict sequence beside a free one.
func BenchmarkStrict(b *testing.B) {
	for _, c := range strictRequests() {
		b.Run(c.name, func(b *testing.B) {
			s, out := c.session(twoOrders(b)), make([]byte, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				if n, _, err := s.Feed(0, c.in, out); n != len(c.in) || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.deep), "ns/id")
		})
	}
}

func TestStrictRequestsAllocateNothing(t *testing.T) {
	for _, c := range strictRequests() {
		s, out := c.session(twoOrders(t)), make([]byte, 0, 1<<16)
		if n := testing.AllocsPerRun(100, func() {
			if n, _, err := s.Feed(0, c.in, out); n != len(c.in) || err != nil {
				t.Fatal(n, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
