package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func greetOnly(c net.Conn) {
	buf := make([]byte, len("version\r\n"))
	io.ReadFull(c, buf)
	io.WriteString(c, "VERSION 3.0.0\r\n")
	time.Sleep(time.Hour)
}

func drip(c net.Conn) {
	for range 1000 {
		time.Sleep(30 * time.Millisecond)
		if _, err := io.WriteString(c, "V"); err != nil {
			return
		}
	}
}

// TestCallersShareRequests: those who call at once share requests, of at most 1,000 ids; each gets an
// id of its own.
func TestCallersShareRequests(t *testing.T) {
	for _, noIDs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			server := issuer{noIDs: noIDs}
			var most int
			n.set("a:1", talk(func(r string) []byte {
				k, _, _ := asked(r)
				most = max(most, k)
				if len(r) > maxRequest {
					t.Errorf("a request of %d bytes", len(r))
				}
				time.Sleep(time.Millisecond)
				return server.answer(r)
			}))
			c := n.newClient(t, Config{}, "a:1")
			must(t)(c.ID(t.Context()))
			before := c.Stats().Requests
			ids := make([]uint64, 5000)
			var all sync.WaitGroup
			for i := range ids {
				all.Go(func() { ids[i], _ = c.ID(contextOf(t, i)) })
			}
			all.Wait()
			seen := map[uint64]bool{0: true}
			for _, id := range ids {
				if seen[id] {
					t.Fatalf("id %d twice", id)
				}
				seen[id] = true
			}
			if sent := c.Stats().Requests - before; sent > 20 || most > maxBatch || most < 500 {
				t.Errorf("%d requests for %d ids, at most %d", sent, len(ids), most)
			}
		})
	}
}

// TestManyCallersHaveTwoRequestsInFlight: while one half of many callers is served, the other half's
// request is under way, so that neither side waits.
func TestManyCallersHaveTwoRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		requests := make(chan string, 100)
		n.set("a:1", talk(func(r string) []byte {
			requests <- r
			if strings.HasPrefix(r, "ids 300 ") {
				return []byte{}
			}
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Timeout: time.Hour}, "a:1")
		must(t)(c.ID(t.Context()))
		synctest.Wait() // the connection may still yield for those it has just answered
		gate := make(chan bool)
		c.yield = func() { <-gate }
		for i := range 600 {
			go func() {
				for err := error(nil); err == nil; {
					_, err = c.ID(contextOf(t, i))
				}
			}()
		}
		for range 20 { // each time, all who can have joined
			synctest.Wait()
			select {
			case gate <- true:
			default:
			}
		}
		for _, want := range []string{"ids 1 id", "ids 600 id", "ids 300 id", "ids 300 id"} {
			if got := <-requests; got != want {
				t.Errorf("%q, not %q", got, want)
			}
		}
		close(gate)
		c.Close()
	})
}

// TestOrderOfOneCaller: with one server that issues in order, each caller's ids increase.
func TestOrderOfOneCaller(t *testing.T) {
	for _, config := range []Config{{}, {GetOnly: true}, {Connections: 3}, {Prefetch: 50},
		{Prefetch: 50, Connections: 3}} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var server issuer
			var i atomic.Int64
			n.set("a:1", talk(func(r string) []byte {
				answer := server.answer(r)
				time.Sleep(time.Duration(i.Add(1)*7919%13) * time.Millisecond) // later requests may be answered sooner
				return answer
			}))
			c := n.newClient(t, config, "a:1")
			var all sync.WaitGroup
			for g := range 20 {
				all.Go(func() {
					last := uint64(0)
					for i := range 60 {
						if (i+g)%17 == 0 {
							ids, err := c.IDs(t.Context(), 20)
							if err != nil || ids[0] <= last {
								t.Errorf("%+v: %v after %d, error %v", config, ids, last, err)
								return
							}
							last = ids[19]
							continue
						}
						id := must(t)(c.ID(contextOf(t, i)))
						if id <= last {
							t.Errorf("%+v: %d after %d", config, id, last)
							return
						}
						last = id
					}
				})
			}
			all.Wait()
		})
	}
}

// TestNoAllocationPerID: 0 for an id, and at most 3 for a batch that fills the stock.
func TestNoAllocationPerID(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go cannedServer(c)
		}
	}()
	for _, prefetch := range []int{0, 1000} {
		c, err := New(Static(l.Addr().String()), Config{
			Prefetch: prefetch, MaxAge: time.Duration(prefetch) * time.Hour, Timeout: time.Minute, DialTimeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		must(t)(c.ID(t.Context()))
		for range 5000 {
			must(t)(c.ID(context.Background()))
		}
		before := c.Stats()
		const runs = 5000
		perCall := testing.AllocsPerRun(runs, func() { must(t)(c.ID(context.Background())) })
		after := c.Stats()
		batches := float64(after.Requests - before.Requests)
		t.Logf("prefetch %d: %.4f allocations a call, %.0f batches of %d calls", prefetch, perCall, batches, runs)
		if prefetch == 0 {
			batches = 0
		}
		if limit := (3*batches + 100) / runs; perCall > limit && !raceEnabled { // the whole process is counted
			t.Errorf("prefetch %d: %.4f allocations a call, more than %.4f", prefetch, perCall, limit)
		}
		c.Close()
	}
}

// cannedServer answers ids without allocating.
func cannedServer(c net.Conn) {
	defer c.Close()
	buf, out := make([]byte, 4096), make([]byte, 0, 4096)
	last := uint64(1000)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		out = out[:0]
		if buf[0] == 'v' {
			out = append(out, "VERSION 3.0.0\r\n"...)
		} else {
			k := uint64(0)
			for _, b := range buf[len("ids "):n] {
				if b < '0' || b > '9' {
					break
				}
				k = k*10 + uint64(b-'0')
			}
			out = strconv.AppendUint(append(out, "IDS "...), last, 10)
			out = strconv.AppendUint(append(out, " 1 "...), k, 10)
			out = append(out, "\r\nEND\r\n"...)
			last += k
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// TestManyRequestsWait: as long as no connection has room, those who ask behind many others do not look
// at each of them; and all are answered in the end.
func TestManyRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		hold := make(chan bool)
		n.set("a:1", talk(func(r string) []byte {
			<-hold
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Timeout: time.Hour}, "a:1")
		busy := func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.busy(c.now())
		}
		var all sync.WaitGroup
		defer all.Wait()
		ask := func(name string) {
			all.Go(func() {
				if id, err := c.Generator(name).ID(t.Context()); id == 0 || err != nil {
					t.Errorf("%s: %d, %v", name, id, err)
				}
			})
			synctest.Wait()
		}
		if busy() {
			t.Error("busy without a connection")
		}
		if ask("first"); !busy() {
			t.Error("not busy while it is not known whether the server knows ids")
		}
		hold <- true
		if synctest.Wait(); busy() {
			t.Error("busy with a connection that has nothing to do")
		}
		for i := range 100 {
			ask(fmt.Sprint(i))
		}
		if s := c.Stats(); !busy() || s.Queued < 90 {
			t.Errorf("busy %v, %+v", busy(), s)
		}
		close(hold)
	})
}
