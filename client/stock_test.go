package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fill takes ids, in no time, until the stock has its full size.
func fill(t *testing.T, c *Client) {
	t.Helper()
	for i := 0; c.main.stock.size < c.config.Prefetch; i++ {
		must(t)(c.ID(t.Context()))
		synctest.Wait()
		if i > 10_000 {
			t.Fatalf("the stock stays at %d", c.main.stock.size)
		}
	}
}

// TestClockCountsSleep: the clock of MaxAge goes on with the one that counts sleep, and never back.
func TestClockCountsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := time.Now()
		var slept time.Duration
		var looks int
		c := newAgeClock(base, func() int64 {
			looks++
			return int64(time.Since(base)+slept) + 12345
		})
		at := c.now()
		time.Sleep(time.Second)
		if d := c.now() - at; d != int64(time.Second) {
			t.Errorf("1 s later: %v", time.Duration(d))
		}
		slept = time.Hour
		time.Sleep(time.Duration(lookAgain))
		if d := c.now() - at; d != int64(time.Hour+time.Second)+lookAgain {
			t.Errorf("1 h of sleep later: %v", time.Duration(d))
		}
		slept = 0 // such a clock is only the wall clock: it was set back
		time.Sleep(time.Second)
		if d := c.now() - at; d != int64(time.Hour+2*time.Second)+lookAgain {
			t.Errorf("set back: %v", time.Duration(d))
		}
		looks = 0
		for range 1000 {
			c.now()
		}
		if looks != 0 {
			t.Errorf("%d system calls in no time", looks)
		}
	})
	if a, b := bootNanos(), bootNanos(); a <= 0 || b < a {
		t.Errorf("the machine's clock: %d, then %d", a, b)
	}
}

// TestStockIsDroppedAtClose: of what was in stock, and of an answer that comes while the client closes.
func TestStockIsDroppedAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", server.serve())
		c := n.newClient(t, Config{Prefetch: 100}, "a:1")
		closed := func(what string) {
			t.Helper()
			if id, err := c.ID(t.Context()); id != 0 || !errors.Is(err, ErrClosed) {
				t.Errorf("%s: id %d, %v", what, id, err)
			}
		}
		fill(t, c)
		c.Close()
		closed("with a stock")
		c.main.stock.add(&batch{server: c.main.stock.server, n: 5, runs: []run{{first: 1, stride: 1, n: 5}}})
		closed("after another answer")
	})
}

// TestCallersShareAnAnswer: those who find the stock empty get ids of the answer that they wait for, in whatever
// number they come, before anybody gets a second one; an answer lacks nothing that was known to be wanted, and what
// nobody waits for is kept.
func TestCallersShareAnAnswer(t *testing.T) {
	for what, c := range map[string]struct {
		config   Config
		callers  int
		lanes    int
		large    int // ids of one more caller's calls
		requests int // that bring this much in 300 ms, 30 round trips
		received int
	}{
		"large stock":   {Config{Prefetch: 1000}, 100, 1, 0, 33, 22_000},
		"small stock":   {Config{Prefetch: 10}, 100, 1, 0, 33, 2_500},
		"many callers":  {Config{Prefetch: 1000}, 3000, 1, 0, 33, 80_000},
		"get":           {Config{Prefetch: 5000, GetOnly: true}, 700, 1, 0, 33, 25_000},
		"four lanes":    {Config{Prefetch: 1000}, 100, 4, 0, 33, 22_000},
		"a large order": {Config{Prefetch: 10_000}, 100, 1, 30_000, 33, 220_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			server := issuer{lanes: c.lanes}
			n.set("a:1", talk(func(r string) []byte {
				time.Sleep(10 * time.Millisecond)
				return server.answer(r)
			}))
			c.config.MaxAge = time.Hour
			client := n.newClient(t, c.config, "a:1")
			var stop atomic.Bool
			var all sync.WaitGroup
			got, taken := make([]int, c.callers), make([]atomic.Bool, 2*c.received)
			for i := range got {
				ctx := contextOf(t, i)
				all.Go(func() {
					for last := uint64(0); !stop.Load(); got[i]++ {
						id, err := client.ID(ctx)
						if err != nil || id <= last && c.lanes == 1 || taken[id].Swap(true) {
							t.Errorf("%s: id %d after %d, or taken before, %v", what, id, last, err)
							return
						}
						last = id
					}
				})
			}
			large := 0
			if c.large > 0 {
				all.Go(func() {
					for ; !stop.Load(); large += c.large {
						ids, err := client.IDs(context.Background(), c.large)
						for _, id := range ids {
							if taken[id].Swap(true) {
								t.Errorf("%s: id %d twice", what, id)
							}
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			time.Sleep(300 * time.Millisecond)
			stop.Store(true)
			all.Wait()
			s := client.Stats()
			used := uint64(client.main.stock.have+large) + s.Expired
			for _, n := range got {
				used += uint64(n)
			}
			if s.Received != used || s.Received != server.last.Load() {
				t.Errorf("%s: %d of %d ids received were used, of %d issued", what, used, s.Received, server.last.Load())
			}
			least, rounds := slices.Min(got), int(min(s.Received/uint64(c.callers), 30))
			if least < rounds-2 {
				t.Errorf("%s: somebody got %d ids, in %d rounds", what, least, rounds)
			}
			if s.Expired > 0 {
				t.Errorf("%s: %d ids were lost", what, s.Expired)
			}
			if s.Requests > uint64(c.requests) || s.Received < uint64(c.received) {
				t.Errorf("%s: %d ids in %d requests", what, s.Received, s.Requests)
			}
		})
	}
}

// TestACrowd: more callers than a stock can serve ask without it. When they have gone, the stock serves others again,
// with later ids.
func TestACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", talk(func(r string) []byte {
			time.Sleep(10 * time.Millisecond)
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Prefetch: 100, MaxAge: time.Hour}, "a:1")
		var all sync.WaitGroup
		var last [600]uint64
		var got [100_000]atomic.Int32 // how often
		one := func(last uint64) uint64 {
			id := must(t)(c.ID(contextOf(t, int(last))))
			if id <= last || got[id].Add(1) > 1 {
				t.Errorf("id %d after %d, or twice", id, last)
			}
			return id
		}
		rounds := func(n int) {
			for i := range last {
				all.Go(func() {
					for range n {
						last[i] = one(last[i])
					}
				})
			}
			all.Go(func() {
				time.Sleep(50 * time.Millisecond) // else its order has ids in stock for the others
				for range 3 {
					ids, err := c.IDs(context.Background(), 6000)
					for _, id := range ids {
						if err != nil || got[id].Add(1) > 1 {
							t.Errorf("id %d twice, or %v", id, err)
						}
					}
				}
			})
		}
		rounds(20)
		time.Sleep(5 * time.Millisecond)
		crowd, most := &c.main.stock.crowd, int64(0)
		if crowd.Load() != 0 {
			t.Error("a crowd before so many have waited")
		}
		for range 100 {
			time.Sleep(time.Millisecond)
			most = max(most, crowd.Load())
		}
		if most < 500 {
			t.Errorf("a crowd of %d", most)
		}
		all.Wait()
		if crowd.Load() != 0 {
			t.Errorf("%d of the crowd are left", crowd.Load())
		}
		requests, next := c.Stats().Requests, slices.Max(last[:])
		for range 1000 {
			next = one(next)
		}
		if n := c.Stats().Requests - requests; n > 250 {
			t.Errorf("%d requests for 1,000 ids: the stock was not used", n)
		}
		used := c.main.stock.have
		for i := range got {
			used += int(got[i].Load())
		}
		if s := c.Stats(); s.Received != uint64(used) || s.Expired > 0 {
			t.Errorf("%d ids of %d were used, %d expired", used, s.Received, s.Expired)
		}
	})
}

// TestACrowdBeginsEmptyHanded: it begins only if the stock is empty and has asked for nothing, so that nothing older
// comes after what it gets. Who had a part of its ids before asks for the rest.
func TestACrowdBeginsEmptyHanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", talk(func(r string) []byte {
			time.Sleep(10 * time.Millisecond)
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Prefetch: 100, MaxAge: time.Hour}, "a:1")
		for _, s := range []*stock{
			{c: c, have: 1, many: true}, {c: c, refill: &batch{}, many: true}, {c: c, many: true}, {c: c},
		} {
			want := s.have == 0 && s.refill == nil && s.many
			if begun := s.gather(); begun != want || (s.crowd.Load() == 1) != want {
				t.Errorf("%d ids, refill %v, many %v: %v", s.have, s.refill, s.many, begun)
			}
		}
		go func() {
			time.Sleep(5 * time.Millisecond)
			c.main.stock.crowd.Add(1)
		}()
		if _, err := c.IDs(t.Context(), maxPart+1000); err != nil {
			t.Error(err)
		}
		have := c.main.stock.have
		if s := c.Stats(); s.Received != uint64(maxPart+1000+have) || s.Requests != 2 || c.main.stock.crowd.Load() != 1 {
			t.Errorf("%d in stock, a crowd of %d: %+v", have, c.main.stock.crowd.Load(), s)
		}
	})
}

// TestCancelledCallersOfAStock: nobody gets an id that somebody who left was meant to get.
func TestCancelledCallersOfAStock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", talk(func(r string) []byte {
			time.Sleep(100 * time.Millisecond)
			return server.answer(r)
		}))
		c := n.newClient(t, Config{Prefetch: 100, MaxAge: time.Hour}, "a:1")
		seen := map[uint64]bool{0: true}
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%10)*50*time.Millisecond)
				defer cancel()
				for {
					id, err := c.ID(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					if seen[id] {
						t.Errorf("id %d twice", id)
					}
					seen[id] = true
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
	})
}
