package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// TestChaos takes ids from three daemons while these are killed, frozen, cut off and restarted in turn.
// No id may come twice. Some seconds; with KATSUBUSHI_SOAK ten minutes and 1e8 ids, or as many minutes as
// KATSUBUSHI_CHAOS_MINUTES says, with 1e7 ids each.
func TestChaos(t *testing.T) {
	goal, length, goroutines := uint64(100_000), 3*time.Second, 100
	if os.Getenv("KATSUBUSHI_SOAK") != "" {
		goal, length, goroutines = 100_000_000, 10*time.Minute, 1000
	}
	if m, err := strconv.Atoi(os.Getenv("KATSUBUSHI_CHAOS_MINUTES")); err == nil && goroutines == 1000 {
		goal, length = uint64(m)*10_000_000, time.Duration(m)*time.Minute
	}
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("KATSUBUSHI_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("KATSUBUSHI_SEED=%d", seed)
	var fleet []*victim
	var addrs []string
	for i := range 3 {
		v := &victim{daemon: startDaemon(t, "-worker-id", strconv.Itoa(10+i))}
		v.proxy = redistest.NewProxy(t, v.Addr())
		fleet = append(fleet, v)
		addrs = append(addrs, v.proxy.Addr())
	}
	var clients []*Client
	for _, config := range []Config{{}, {GetOnly: true}, {Prefetch: 1000}, {Connections: 2}} {
		config.Timeout, config.DialTimeout = 500*time.Millisecond, 500*time.Millisecond
		clients = append(clients, newReal(t, config, addrs...))
	}
	chunks := make(chan []uint64, 100)
	checked := make(chan *unique.Set)
	go func() {
		var seen unique.Set
		for chunk := range chunks {
			for _, id := range chunk {
				seen.Add(id)
			}
		}
		checked <- &seen
	}()
	var over atomic.Bool
	var got, failed, late atomic.Uint64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			taker := taker{c: clients[g%len(clients)], r: rand.New(rand.NewPCG(seed, uint64(g))), failed: &failed, late: &late}
			for !over.Load() {
				chunk := taker.chunk(t)
				got.Add(uint64(len(chunk)))
				chunks <- chunk
			}
		})
	}
	faults := map[string]int{}
	r := rand.New(rand.NewPCG(seed, 1<<40))
	begin := time.Now()
	for time.Since(begin) < length || got.Load() < goal && time.Since(begin) < 3*length+4*time.Minute {
		faults[fleet[r.IntN(len(fleet))].suffer(r)]++
	}
	over.Store(true)
	all.Wait()
	close(chunks)
	seen := <-checked
	for _, c := range clients {
		childprocess.Until(t, "every client gets ids at the end", func() bool {
			id, err := c.ID(t.Context())
			if err == nil {
				seen.Add(id)
			}
			return err == nil
		})
		t.Logf("%+v", c.Stats())
	}
	t.Logf("%s from %d goroutines in %v; %d calls failed, %d at their deadlines; faults: %v", seen, goroutines,
		time.Since(begin), failed.Load(), late.Load(), faults)
	if seen.Duplicates() > 0 || seen.Plant() != nil {
		t.Error(seen.String())
	}
	if seen.Len() < goal {
		t.Errorf("only %d ids, wanted %d", seen.Len(), goal)
	}
}

// A taker is a goroutine that takes ids.
type taker struct {
	c            *Client
	r            *rand.Rand
	failed, late *atomic.Uint64
}

// chunk takes some thousand ids, with deadlines of which some are too short.
func (k *taker) chunk(t *testing.T) []uint64 {
	var ids []uint64
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+k.r.IntN(2000))*time.Millisecond)
	defer cancel()
	for len(ids) < 4000 {
		if k.r.IntN(1000) == 0 {
			more, err := k.c.IDs(ctx, 1+k.r.IntN(3000))
			if err != nil {
				return ids
			}
			ids = append(ids, more...)
			continue
		}
		id, err := k.c.ID(ctx)
		switch {
		case (err == nil) == (id == 0):
			t.Errorf("id %d and error %v", id, err)
		case errors.Is(err, context.DeadlineExceeded):
			k.late.Add(1)
			return ids
		case err != nil:
			k.failed.Add(1)
			if strings.Contains(err.Error(), "twice") || errors.Is(err, ErrRefused) {
				t.Error(err)
			}
			return ids
		}
		ids = append(ids, id)
	}
	return ids
}

// A victim is a daemon behind a proxy.
type victim struct {
	*daemon
	proxy *redistest.Proxy
}

// suffer does something to a daemon and its network, for a while, and says what.
func (v *victim) suffer(r *rand.Rand) string {
	while := time.Duration(r.IntN(1500)) * time.Millisecond
	switch r.IntN(8) {
	case 0:
		v.Kill()
		time.Sleep(while)
		v.start()
		return "killed"
	case 1:
		v.Signal(v.t, syscall.SIGTERM)
		<-v.Ended()
		time.Sleep(while)
		v.start()
		return "restarted"
	case 2:
		v.Pause(v.t)
		time.Sleep(2 * while)
		v.Resume(v.t)
		return "frozen"
	case 3:
		v.proxy.Cut()
		return "cut"
	case 4:
		v.proxy.Answers(redistest.Hold)
		time.Sleep(while)
		v.proxy.Answers(redistest.Pass)
		return "answers held"
	case 5:
		v.proxy.Answers(redistest.Drop)
		time.Sleep(while)
		v.proxy.Cut()
		v.proxy.Answers(redistest.Pass)
		return "answers lost"
	case 6:
		v.proxy.Requests(redistest.Hold)
		time.Sleep(while)
		v.proxy.Requests(redistest.Pass)
		return "requests held"
	default:
		v.proxy.Refuse(true)
		v.proxy.Cut()
		time.Sleep(while)
		v.proxy.Refuse(false)
		return "cut off"
	}
}
