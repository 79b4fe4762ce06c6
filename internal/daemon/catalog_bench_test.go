package daemon

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

// feeder returns a session of a daemon that has ids, and the input of n gets of these keys.
func feeder(tb testing.TB, change func(*Config)) (*Daemon, *memcache.Session) {
	c := testConfig()
	change(&c)
	d, err := New(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.windows.Stop(true) })
	now := time.Now().UnixMilli()
	if err := d.windows.Issuer.Publish(0, 1, now, math.MaxInt64); err != nil {
		tb.Fatal(err)
	}
	return d, memcache.NewSession(&protocol.Config{
		Handler: d.names.Catalog.Handler(0, d.observer.Stats), Counters: new(protocol.Counters), Version: c.Version,
	})
}

// declared returns n definitions of names as people give them.
func declared(n int) (lines string) {
	stems := []string{"orders", "users", "sessions", "invoices", "id", "items", "shop:carts", "images", "i"}
	for i := range n {
		lines += fmt.Sprintf("%s.%d snowflake;", stems[i%len(stems)], i)
	}
	return lines
}

// BenchmarkGet is Feed, catalogue and lanes: all of a request but the socket.
func BenchmarkGet(b *testing.B) {
	hundred := "get"
	for i := range 100 {
		hundred += fmt.Sprintf(" key%d", i)
	}
	for _, c := range []struct{ name, generators, in string }{
		{"id", "", "get id\r\n"},
		{"id/100names", declared(100), "get id\r\n"},
		{"hundred", "", hundred + "\r\n"},
		{"hundred/100names", declared(100), hundred + "\r\n"},
		{"name/100names", declared(100), "get orders.0\r\n"},
		{"uuid4", "a uuid4", "get a\r\n"},
		{"uuid7", "a uuid7", "get a\r\n"},
		{"ulid", "a ulid", "get a\r\n"},
		{"objectid", "a objectid", "get a\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, s := feeder(b, func(cfg *Config) { cfg.Definitions = c.generators })
			in, out := []byte(c.in), make([]byte, 0, 1<<20)
			b.ReportAllocs()
			now := time.Now().UnixMilli()
			for b.Loop() {
				now += 2 // the clock never stops ids
				if n, _, err := s.Feed(now, in, out); n != len(in) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// TestNamesAllocateNothing: a request for any kind of id makes no garbage, on the way through the
// catalogue either.
func TestNamesAllocateNothing(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		_, s := feeder(t, func(c *Config) { c.Definitions, c.RefuseUnknown = declared(100)+manyKinds, refuse })
		for _, key := range []string{"id", "17", "orders.0", "u4", "u7", "ul", "{o}d", "id u4 u7 ul same orders.0 id"} {
			in, out := []byte("get "+key+"\r\nmg same v\r\n"), make([]byte, 0, 1<<16)
			now := time.Now().UnixMilli()
			if n := testing.AllocsPerRun(100, func() {
				now++
				if _, reply, _ := s.Feed(now, in, out); reply[0] != 'V' {
					t.Fatalf("%q", reply)
				}
			}); n != 0 {
				t.Errorf("get %s: %v allocations", key, n)
			}
		}
	}
}
