package client

import (
	"bufio"
	"context"
	"errors"
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

// TestCallerReturnsAtItsDeadline: whatever a server does, a caller is back at its deadline, to the
// nanosecond of the bubble's clock. Time in a bubble passes only while everybody waits, so a caller
// that waits for something else first is late.
func TestCallerReturnsAtItsDeadline(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"never greets":  func(c net.Conn) { io.Copy(io.Discard, c) },
		"never reads":   func(c net.Conn) { time.Sleep(time.Hour) },
		"never answers": talk(func(string) []byte { return []byte{} }),
		"answers half":  talk(func(string) []byte { return []byte("VALUE id 0 19\r\n15733048") }),
		"reads no more": greetOnly,
		"is not ready":  talk(func(string) []byte { return []byte("SERVER_ERROR lease expired\r\n") }),
		"hangs up":      talk(func(string) []byte { return nil }),
		"is not there":  nil,
		"answers late": talk(func(string) []byte {
			time.Sleep(time.Hour)
			return nil
		}),
		"answers wrong":  talk(func(string) []byte { return []byte("HELLO\r\n") }),
		"slow by a byte": drip,
		"then reads no more": func(c net.Conn) {
			var server issuer
			r := bufio.NewReader(c)
			r.ReadString('\n')
			io.WriteString(c, "VERSION 3.0.0\r\n")
			request, _ := r.ReadString('\n')
			c.Write(server.answer(request))
			time.Sleep(time.Hour)
		},
	} {
		for _, prefetch := range []int{0, 10} {
			t.Run(fmt.Sprint(name, ", prefetch ", prefetch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNetwork()
					n.set("a:1", serve)
					c := n.newClient(t,
						Config{Prefetch: prefetch, Timeout: time.Minute, DialTimeout: time.Minute, MinBackoff: time.Minute,
							MaxBackoff: time.Minute}, "a:1")
					if strings.HasPrefix(name, "then") {
						must(t)(c.ID(t.Context())) // a caller writes the next request
					}
					var all sync.WaitGroup
					for i := range 30 {
						all.Go(func() {
							limit := time.Duration(1+i%7) * 37 * time.Millisecond
							ctx, cancel := context.WithTimeout(t.Context(), limit)
							defer cancel()
							begin := time.Now()
							id, err := c.ID(ctx)
							took := time.Since(begin)
							if err == nil || id != 0 || took > limit {
								t.Errorf("deadline %v: id %d after %v, error %v", limit, id, took, err)
							}
							if took == limit && !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("at the deadline: %v", err)
							}
						})
					}
					all.Wait()
				})
			})
		}
	}
}

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

// TestCancelledCallersIDGoesToNobody: a caller that leaves takes its index with it. The others of its
// batch get theirs, over the same connection.
func TestCancelledCallersIDGoesToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		hold := make(chan bool)
		var requests []string
		n.set("a:1", talk(func(r string) []byte {
			requests = append(requests, r)
			<-hold
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Timeout: time.Hour}, "a:1")
		ctx, cancel := context.WithCancel(t.Context())
		got := make([]uint64, 9)
		errs := make([]error, 9)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				with := t.Context()
				if i%3 == 0 {
					with = ctx
				}
				got[i], errs[i] = c.ID(with)
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(hold)
		all.Wait()
		seen := map[uint64]bool{}
		for i := range got {
			if i%3 == 0 {
				if got[i] != 0 || !errors.Is(errs[i], context.Canceled) {
					t.Errorf("cancelled: id %d, error %v", got[i], errs[i])
				}
				continue
			}
			if errs[i] != nil || got[i] == 0 || got[i] > 9 || seen[got[i]] {
				t.Errorf("not cancelled: id %d, error %v, after %v", got[i], errs[i], seen)
			}
			seen[got[i]] = true
		}
		if next := must(t)(c.ID(t.Context())); next != server.last.Load() || next < 10 {
			t.Errorf("the next id is %d, the server's last %d", next, server.last.Load())
		}
		if n.dialled("a:1") != 1 {
			t.Errorf("%d connections", n.dialled("a:1"))
		}
		if s := c.Stats(); s.Abandoned != 3 || s.Received != 10 || s.Failed != 0 || s.Requests != uint64(len(requests)) {
			t.Errorf("%+v after %q", s, requests)
		}
	})
}

// TestAbandonedRequestIsNotSent: nobody waits, so nobody asks.
func TestAbandonedRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", func(c net.Conn) {
			time.Sleep(time.Second)
			server.serve()(c)
		})
		c := n.newClient(t, Config{DialTimeout: time.Hour}, "a:1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if id, err := c.ID(ctx); err == nil {
			t.Errorf("id %d", id)
		}
		time.Sleep(2 * time.Second)
		if got := server.last.Load(); got != 0 || c.Stats().Queued != 0 {
			t.Errorf("%d ids were asked for; %+v", got, c.Stats())
		}
	})
}

// TestRequestIsSentForOneWhoStays: the others of its batch have gone.
func TestRequestIsSentForOneWhoStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", func(c net.Conn) {
			time.Sleep(time.Second)
			server.serve()(c)
		})
		c := n.newClient(t, Config{DialTimeout: time.Hour}, "a:1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		go c.ID(ctx)
		synctest.Wait()
		if id, err := c.ID(context.Background()); id != 2 || err != nil {
			t.Errorf("id %d, error %v", id, err)
		}
	})
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

// TestRequestsHave64KiB: of a long name, a request has fewer ids.
func TestRequestsHave64KiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		server := issuer{noIDs: true}
		longest := 0
		n.set("a:1", talk(func(r string) []byte {
			longest = max(longest, len(r)+2)
			return server.answer(r)
		}))
		c := n.newClient(t, Config{}, "a:1")
		ids, err := c.Generator(strings.Repeat("n", 250)).IDs(t.Context(), 1000)
		if err != nil || len(ids) != 1000 || longest > 64<<10 || longest < 60<<10 {
			t.Errorf("%d ids, error %v, requests of up to %d bytes", len(ids), err, longest)
		}
	})
}

// TestTwoRequestsInFlight: a second request leaves before the first is answered, a third does not.
func TestTwoRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		requests, hold := make(chan string, 100), make(chan bool)
		n.set("a:1", func(c net.Conn) {
			near, far := net.Pipe()
			go talk(func(r string) []byte {
				return server.answer(r)
			})(far)
			go io.Copy(c, near)
			buf := make([]byte, 4096)
			for {
				k, err := c.Read(buf)
				if err != nil {
					near.Close()
					return
				}
				if text := string(buf[:k]); strings.HasPrefix(text, "ids") {
					requests <- text
					go func() {
						<-hold
						near.Write([]byte(text))
					}()
					continue
				}
				near.Write(buf[:k])
			}
		})
		c := n.newClient(t, Config{Timeout: time.Hour}, "a:1")
		ask := func() {
			go c.ID(t.Context())
			synctest.Wait()
		}
		ask()
		if ask(); len(requests) != 1 {
			t.Errorf("%d requests while nobody knows whether the server knows ids", len(requests))
		}
		hold <- true
		synctest.Wait()
		hold <- true
		synctest.Wait()
		for range 5 {
			ask()
		}
		if len(requests) != 4 {
			t.Errorf("%d requests", len(requests))
		}
		close(hold)
	})
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

// TestTimeoutOfTheSecondRequest: it counts from the answer to the first.
func TestTimeoutOfTheSecondRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", talk(func(r string) []byte {
			switch time.Sleep(time.Second); server.last.Load() {
			case 2:
				return []byte{}
			default:
				return server.answer(r)
			}
		}))
		c := n.newClient(t, Config{Timeout: time.Minute}, "a:1")
		must(t)(c.ID(t.Context()))
		begin := time.Now()
		go c.ID(t.Context())
		synctest.Wait()
		id, err := c.ID(context.Background())
		if took := time.Since(begin); id != 0 || !errors.Is(err, ErrTimeout) || took != time.Second+time.Minute {
			t.Errorf("id %d, error %v after %v", id, err, took)
		}
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
