package daemon

import (
	"fmt"
	"math"
	"strings"
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

// served returns what sessions share of a daemon that has ids and serves these names, and beside them two sequences
// that have values without end: free, and strict, which this daemon leads.
func served(tb testing.TB, definitions string, refuse bool) *protocol.Config {
	c := testConfig()
	c.Definitions, c.RefuseUnknown = definitions, refuse
	d, err := New(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.windows.Stop(true) })
	if err := d.windows.Issuer.Publish(0, 1, time.Now().UnixMilli(), math.MaxInt64); err != nil {
		tb.Fatal(err)
	}
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
	if definitions != "" {
		d.names.Catalog.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: "free"}), From: free},
			{Definition: kinds.Declared(counter.Definition{Name: "strict"}), From: strict}})
	}
	return &protocol.Config{
		Handler: d.names.Catalog.Handler(0, d.observer.Stats), Counters: new(protocol.Counters), Version: c.Version,
	}
}

// declared returns n definitions of names as people give them.
func declared(n int) (lines string) {
	stems := []string{"orders", "users", "sessions", "invoices", "id", "items", "shop:carts", "images", "i"}
	for i := range n {
		lines += fmt.Sprintf("%s.%d snowflake;", stems[i%len(stems)], i)
	}
	return lines
}

// plain are requests that a daemon without names answers.
func plain() []string { return []string{"get id\r\n", "get" + strings.Repeat(" 17", 100) + "\r\n"} }

// requests are those that make no garbage where there are names, each alone and in a pipeline. A strict sequence should
// answer as fast as a free one: its only extra work is to read a clock, once a Feed.
func requests() (list []string) {
	for _, one := range append(plain(), "get 17\r\n", "get orders.0\r\n", "get u4\r\n", "get u7\r\n", "get ul\r\n",
		"get {o}d\r\n", "get id u4 u7 ul same orders.0 id\r\n", "mg same v\r\n", "get free\r\n", "get strict\r\n",
		"incr free 1\r\n", "incr strict 1\r\n", array("INCR", "free"), array("INCR", "strict")) {
		list = append(list, one, strings.Repeat(one, 16))
	}
	return list
}

// feed returns a function that feeds a session with a request, at a time at which the clock stops no ids.
func feed(tb testing.TB, shared *protocol.Config, request string) func() {
	var s interface {
		Feed(now int64, in, out []byte) (n int, reply []byte, err error)
	} = memcache.NewSession(shared)
	if request[0] == '*' {
		s = resp.NewSession(shared, false)
	}
	now, in, out := time.Now().UnixMilli(), []byte(request), make([]byte, 0, 1<<20)
	return func() {
		now += 2
		if n, reply, err := s.Feed(now, in, out); n != len(in) || err != nil || strings.IndexByte("SCE-", reply[0]) >= 0 {
			tb.Fatalf("%d bytes of %q are answered %.80q, %v", n, in, reply, err)
		}
	}
}

// BenchmarkFeed is Feed, catalogue, and lanes or sequences: all of requests but the socket.
func BenchmarkFeed(b *testing.B) {
	for definitions, list := range map[string][]string{"": plain(), declared(100) + manyKinds: requests()} {
		shared := served(b, definitions, false)
		for _, in := range list {
			b.Run(fmt.Sprintf("%dnames/%.40s/%d", strings.Count(definitions, ";"), in, len(in)), func(b *testing.B) {
				once := feed(b, shared, in)
				b.ReportAllocs()
				for b.Loop() {
					once()
				}
			})
		}
	}
}

// TestRequestsAllocateNothing: a request for any kind of id makes no garbage, on the way through the catalogue either.
func TestRequestsAllocateNothing(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		shared := served(t, declared(100)+manyKinds, refuse)
		for _, in := range requests() {
			if n := testing.AllocsPerRun(100, feed(t, shared, in)); n != 0 {
				t.Errorf("%.80q: %v allocations", in, n)
			}
		}
	}
}
