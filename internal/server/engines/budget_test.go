package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

func limited(limit int64) func(*server.Config) {
	return func(c *server.Config) { c.Budget = server.NewBudget(limit) }
}

// hold sends an unfinished line and waits until it has been read and the budget has counted it.
func (c *client) hold(r *rig, n int) {
	c.t.Helper()
	before := r.counters.BytesRead.Load()
	c.say("echo %s", strings.Repeat("x", n-len("echo ")))
	eventually(c.t, func() string {
		if got := r.counters.BytesRead.Load() - before; got < uint64(n) {
			return fmt.Sprintf("%d of %d bytes read", got, n)
		}
		return ""
	})
}

// Above the limit, the connection that holds the most is closed and told why, whichever loop it is
// on and whichever connection grows. All others stay and are answered meanwhile.
func TestBiggestHolderIsClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const limit, small, medium, big = 3 << 19, 3000, 150_000, 450_000
		r := start(t, m, p, limited(limit))
		bystander := r.dial()
		alive := func(c *client, reply string) {
			t.Helper()
			c.say("echo alive\r\n")
			c.expect(reply + "alive\r\n")
		}
		hold := func(n int) *client {
			c := r.dial()
			alive(c, "")
			c.hold(r, n)
			alive(bystander, "")
			return c
		}
		var rest []*client
		for range 10 {
			rest = append(rest, hold(small))
		}
		biggest := hold(big)
		if held := r.budget.Held(); held > limit || r.budget.Closed() != 0 {
			t.Fatalf("%d bytes held, %d closed, before the limit is reached", held, r.budget.Closed())
		}
		for r.budget.Closed() == 0 {
			if len(rest) > 10+limit/medium {
				t.Fatalf("nobody is closed; %d bytes held", r.budget.Held())
			}
			before := r.budget.Held()
			rest = append(rest, hold(medium))
			// Another loop handles it, or the connection that holds the most is yet to notice that it was chosen.
			if held := r.budget.Held(); held > limit || held < before {
				eventually(t, func() string {
					if r.budget.Closed() == 0 {
						return fmt.Sprintf("%d bytes held, and nobody is closed", held)
					}
					return ""
				})
			}
		}
		biggest.expect("out of memory\r\n")
		biggest.expectEOF()
		biggest.Close()
		for i, c := range rest {
			n := small
			if i >= 10 {
				n = medium
			}
			c.say("\r\n")
			c.expect(strings.Repeat("x", n-len("echo ")) + "\r\n")
			alive(c, "")
		}
		if n := r.budget.Closed(); n != 1 {
			t.Errorf("%d connections closed, want 1", n)
		}
		eventually(t, r.nothingHeld)
	})
}

// However many connections a client has divided among what it holds, it has to give back before another
// address that holds less: even if each of its connections holds less than that one's.
func TestManySmallHoldersAreOnePeer(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if p.network != "tcp" {
			t.Skip("does not apply: all clients of a unix socket are one peer")
		}
		const limit, small, big = 1 << 20, 15_000, 60_000
		r := start(t, m, p, limited(limit))
		victim := r.dialFrom("127.0.0.2:0")
		var crowd []*client
		crowds := func() {
			c := r.dialFrom("127.0.0.3:0")
			c.hold(r, small)
			crowd = append(crowd, c)
		}
		for r.budget.Closed() == 0 {
			crowds()
		}
		for round := range 10 {
			victim.hold(r, big)
			for before := r.budget.Closed(); r.budget.Closed() < before+3; {
				crowds()
			}
			victim.say("\r\n")
			victim.expect(strings.Repeat("x", big-len("echo ")) + "\r\n")
			if t.Failed() {
				t.Fatalf("round %d", round)
			}
		}
		for _, c := range append(crowd, victim) {
			c.Close()
		}
		eventually(t, r.nothingHeld)
	})
}

func (r *rig) nothingHeld() string {
	if n := r.budget.Held(); n != 0 {
		return fmt.Sprintf("%d bytes counted as held", n)
	}
	return ""
}

// The total of replies that clients do not take is limited.
func TestClientsThatDoNotReadAreClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const limit, clients = 1 << 20, 40
		r := start(t, m, p, limited(limit))
		bystander := r.dial()
		var cs []*client
		for range clients {
			c := r.dial()
			c.say("big 500000000\n")
			cs = append(cs, c)
		}
		eventually(t, func() string {
			bystander.echo("alive")
			held, closed := r.budget.Held(), r.budget.Closed()
			if held > limit || held < limit/4 || closed < clients/4 || closed+uint64(r.counters.Current.Load()) != clients+1 {
				return fmt.Sprintf("%d bytes held; %d connections closed, %d open", held, closed, r.counters.Current.Load())
			}
			return ""
		})
		for _, c := range cs {
			c.abort()
		}
		eventually(t, r.nothingHeld)
		bystander.echo("alive")
	})
}

// Whatever clients do, and whichever of them are closed for it, everything they held is freed, to
// the last byte (stop checks that too). Freeing memory does not touch another connection's input.
func TestNothingIsHeldInTheEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := start(t, m, p, limited(1<<20))
		var wg sync.WaitGroup
		for i := range 12 {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for range 5 {
					misbehave(r, rnd)
				}
			})
		}
		done := make(chan struct{})
		var steady sync.WaitGroup
		for range 2 {
			steady.Go(func() { // small, so it never holds the most; its input must not change
				c := r.dial()
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					default:
					}
					line := fmt.Sprintf("echo %d %s\r\n", i, strings.Repeat("abc", i%100))
					if _, err := io.WriteString(c, strings.Repeat(line, 20)); err != nil {
						t.Error(err)
						return
					}
					got := make([]byte, 20*(len(line)-len("echo ")))
					if _, err := io.ReadFull(c.r, got); err != nil || string(got) != strings.Repeat(line[len("echo "):], 20) {
						t.Errorf("got %.200q (%v), want %q", got, err, line)
						return
					}
					r.budget.Trim()
					r.fill(1)
				}
			})
		}
		wg.Wait()
		close(done)
		steady.Wait()
		r.fill(1 << 20) // whoever still waits
	})
}

// misbehave runs a connection that may end in any way.
func misbehave(r *rig, rnd *rand.Rand) {
	c := r.dial()
	defer c.Close()
	for range 1 + rnd.IntN(4) {
		n := 1 << rnd.IntN(20)
		c.SetDeadline(time.Now().Add(20 * time.Millisecond)) // it may ask for more than it reads; then nothing moves any more
		switch rnd.IntN(7) {
		case 0:
			fmt.Fprintf(c, "echo %s\r\n", strings.Repeat("x", n))
		case 1:
			fmt.Fprintf(c, "big %d\r\n", 100*n)
			io.CopyN(io.Discard, c.r, int64(rnd.IntN(100*n)))
		case 2:
			io.WriteString(c, strings.Repeat("echo 1\r\n", n/8))
		case 3:
			io.WriteString(c, "echo unfinished"+strings.Repeat("x", n))
		case 4:
			io.Copy(io.Discard, c.r)
		case 5:
			io.WriteString(c, "close\r\n")
		case 6:
			fmt.Fprintf(c, "split %d\r\ntake 1\r\n%s", n, strings.Repeat("echo 1\r\n", n/8))
		}
	}
	if rnd.IntN(2) == 0 {
		c.abort()
	}
}
