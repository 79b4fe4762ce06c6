package engines

import (
	"fmt"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A peerSession replies with its client's address.
type peerSession struct {
	peer string
}

func (s *peerSession) Peer(a netip.Addr) { s.peer += a.String() }

func (s *peerSession) Feed(now int64, in, out []byte) (int, []byte, error) {
	return len(in), append(out, s.peer+"\n"...), nil
}

// Sessions get the right client's address, whatever arrives at the same time.
func TestPeers(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := startPorts(t, m, nil, func(r *rig) []server.Port {
			port := r.port(p)
			port.Peers, port.Open = true, func(int, *latency.Asked) server.Session { return new(peerSession) }
			return []server.Port{port}
		})
		var clients []*client
		var want []string
		for i := range 40 { // they wait for accept together
			source, peer := "", "invalid IP"
			if p.network == "tcp" {
				peer = fmt.Sprintf("127.0.0.%d", 2+i)
				source = peer + ":0"
			}
			clients, want = append(clients, r.dialFrom(source)), append(want, peer)
		}
		for i, c := range clients {
			c.say("who?\n")
			c.expect(want[i] + "\n")
			c.Close()
		}
	})
}

// A greeter greets a client whose first byte is a star, and leaves the rest to a lineSession.
type greeter struct{}

func (greeter) Feed(_ int64, in, out []byte) (int, []byte, error) {
	if in[0] != '*' {
		return 0, out, &server.Successor{Session: new(lineSession)}
	}
	return 1, append(out, "hello\n"...), &server.Successor{Session: new(lineSession)}
}

func TestPipelinedCommandsAreAnsweredInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		c := r.dial()
		count := 20_000 // far more than any buffer
		if m.name == "tinyuring" {
			count /= 4 // it takes many turns
		}
		var in, want strings.Builder
		for i := range count {
			fmt.Fprintf(&in, "echo %d\r\n", i)
			fmt.Fprintf(&want, "%d\r\n", i)
		}
		go io.WriteString(c, in.String())
		c.expect(want.String())
	})
}

// The replies are the same however the bytes arrive, including lines longer than every buffer and
// replies longer than one write.
func TestSplitInput(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for _, size := range []int{1, 7, 500, 5000, 100_000} {
			x, skip, big := 300_000, 72_000, 200_000
			if size < 100 {
				x, skip, big = x/100, skip/100, big/100 // each piece costs a system call
			}
			long := strings.Repeat("x", x)
			c := r.dial()
			go func(rnd *rand.Rand) {
				rest := fmt.Sprintf("echo a\r\necho %s\nskip %d\n%sbig %d\necho b\r\nnonsense\n", long, skip,
					strings.Repeat("echo no\n", skip/8), big)
				for len(rest) > 0 {
					n := min(1+rnd.IntN(2*size), len(rest))
					if size == 1 {
						n = 1
					}
					io.WriteString(c, rest[:n])
					rest = rest[n:]
				}
			}(rand.New(rand.NewPCG(rnd.Uint64(), 0)))
			c.expect("a\r\n" + long + "\r\n")
			c.expectBig(big)
			c.expect("b\r\nERROR\r\n")
			c.Close()
		}
	})
}

// The socket's buffer may fill up anywhere in a reply, even in the last bytes for a client that
// sends nothing more.
func TestReplyFallsShortAnywhere(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if p.network != "unix" {
			t.Skip("does not apply: the buffers of TCP grow")
		}
		r := start(t, m, p, nil)
		for size := 60_000; size < 500_000; size += 70_000 {
			c := r.dial()
			before := r.counters.BytesRead.Load()
			c.say("big %d\r\n", size)
			c.closeWrite()
			eventually(t, func() string {
				if r.counters.BytesRead.Load() == before {
					return "not read"
				}
				return ""
			})
			r.settled()
			c.expectBig(size)
			c.expectEOF()
			c.Close()
		}
	})
}

// open returns a problem unless n connections are open.
func (r *rig) open(n int64) string {
	if got := r.counters.Current.Load(); got != n {
		return fmt.Sprintf("%d connections open, want %d", got, n)
	}
	return ""
}

func TestIdleConnectionIsClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		patiently(t, 40*time.Millisecond, func(timeout time.Duration) error {
			r := start(t, m, p, func(c *server.Config) { c.IdleTimeout = timeout })
			active, silent, slow, deaf := r.dial(), r.dial(), r.dial(), r.dial()
			slow.say("echo unfini")
			deaf.say("big 100000000\n") // and does not read
			for r.counters.IdleClosed.Load() < 3 {
				_, err := io.WriteString(active, "echo 1\r\n")
				if err == nil {
					_, err = io.ReadFull(active.r, make([]byte, len("1\r\n")))
				}
				if err != nil {
					return fmt.Errorf("the active client: %w", err)
				}
			}
			silent.expectEOF()
			slow.expectEOF()
			return nil
		})
	})
}

// patiently runs a test in which a client must never be idle for a whole time-out. If it fails, that may
// be because the machine is busy, so it runs again with a longer time-out.
func patiently(t *testing.T, timeout time.Duration, test func(timeout time.Duration) error) {
	t.Helper()
	for ; ; timeout *= 4 {
		err := test(timeout)
		if err == nil {
			return
		}
		if timeout > 5*time.Second {
			t.Fatalf("with a time-out of %v: %v", timeout, err)
		}
		t.Logf("with a time-out of %v: %v; once more", timeout, err)
	}
}

// A client that reads its replies slowly is not idle, be they made in one piece or in many.
func TestSlowReaderIsNotIdle(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const size = 20 << 20 // more than sockets take and the client reads
		line := strings.Repeat("x", longestLine-100)
		piece := make([]byte, 12<<10) // in a thirtieth of a time-out
		if p.network == "tcp" {
			piece = make([]byte, 128<<10) // sockets take a megabyte before the engine hears of it
		}
		patiently(t, 80*time.Millisecond, func(timeout time.Duration) error {
			r := start(t, m, p, func(c *server.Config) { c.IdleTimeout = timeout })
			c := r.dial()
			if _, err := fmt.Fprintf(c, "echo %s\r\nbig %d\r\n", line, size); err != nil {
				return err
			}
			taken := int64(0)
			for n := range uint64(2) { // time-outs
				silent := r.dial()
				for r.counters.IdleClosed.Load() <= n {
					k, err := c.r.Read(piece)
					if err != nil {
						return fmt.Errorf("after %d bytes: %w", taken, err)
					}
					taken += int64(k)
					time.Sleep(timeout / 30)
				}
				silent.expectEOF()
			}
			left := int64(len(line+"\r\n")+size) - taken
			if n, err := io.CopyN(io.Discard, c.r, left); err != nil {
				return fmt.Errorf("%d bytes before the end: %w", left-n, err)
			}
			return nil
		})
	})
}

// A dripping session answers with one byte at a time, the next one when the client has taken the last, for as long as
// it receives true.
type dripping struct{ taken <-chan bool }

func (d dripping) Feed(_ int64, in, out []byte) (int, []byte, error) {
	if !<-d.taken {
		return len(in), out, errEnd
	}
	return len(in), append(out, '.'), errEnough{}
}

type errEnough struct{}

func (errEnough) Error() string { return "enough for this turn" }
func (errEnough) Enough() bool  { return true }

// A client that takes an answer as fast as it is made is not idle, though it sends nothing and its socket never fills.
func TestAnAnswerIsActivity(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		patiently(t, 25*time.Millisecond, func(timeout time.Duration) error {
			taken, ended := make(chan bool, 1), make(chan error)
			r := startPorts(t, m, func(c *server.Config) { c.IdleTimeout = timeout }, func(r *rig) []server.Port {
				port := r.port(p)
				port.Open = func(int, *latency.Asked) server.Session { return dripping{taken} }
				return []server.Port{port}
			})
			c := r.dial()
			var enough atomic.Bool
			taken <- true
			if _, err := io.WriteString(c, "drip\r\n"); err != nil {
				return err // it was idle before
			}
			go func() {
				var err error
				for err == nil {
					if _, err = c.r.ReadByte(); err == nil {
						taken <- !enough.Load()
					}
				}
				ended <- err
			}()
			for range 2 { // each is idle for a whole time-out
				silent := r.dial()
				silent.expectEOF()
				silent.Close()
			}
			enough.Store(true)
			if err := <-ended; err != io.EOF {
				return err
			}
			if n := r.counters.IdleClosed.Load(); n != 2 {
				return fmt.Errorf("%d connections closed for being idle, want 2", n)
			}
			return nil
		})
	})
}

// A client that pours from its first byte on, and does not read, has one buffer of input in uring's memory, not the
// 32 that a receive may bring at once.
func TestClientsThatPour(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		if m.name != "uring" {
			t.Skip("does not apply: the others read when they are ready for it")
		}
		const clients, size = 10, 32 << 20
		r := start(t, m, p, nil)
		for range clients {
			c := r.dial()
			c.say("big %d\r\n%s", size, strings.Repeat("echo 0123456789\r\n", 4000))
		}
		r.writes(1 << 20)
		if read, _ := r.settled(); read > clients*4096 {
			t.Errorf("%d bytes read from %d clients", read, clients)
		}
	})
}

// While a client does not read, its output is limited and its input stays unread.
func TestClientsThatDoNotRead(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		const clients, size = 10, 32 << 20
		r := start(t, m, p, nil)
		var cs []*client
		for range clients {
			c := r.greeted()
			cs = append(cs, c)
		}
		line := []byte(strings.Repeat("echo 0123456789\r\n", 1000))
		before := memoryInUse()
		for _, c := range cs {
			c.say("big %d\r\necho end\r\n", size)
			go func() { // 40 MB of further commands fill the socket's buffers
				for range 2500 {
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			}()
		}
		r.writes(1 << 20)
		read, _ := r.settled()
		if read > clients*(server.MaxInput+1<<20) {
			t.Errorf("%d bytes read from %d clients that do not read", read, clients)
		}
		eventually(t, func() string {
			if used := memoryInUse() - before; used > clients<<20 {
				return fmt.Sprintf("%d KiB of memory used for %d clients that do not read", used>>10, clients)
			}
			return ""
		})
		r.greeted()
		cs[0].expectBig(size)
		cs[0].expect("end\r\n0123456789\r\n0123456789\r\n")
	})
}

// A client that keeps its loop busy does not stop others from being answered.
func TestFairness(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) {
		r := start(t, m, p, nil)
		var busy sync.WaitGroup
		var hogs []*client
		for range 4 {
			hog := r.dial()
			hogs = append(hogs, hog)
			line := []byte(strings.Repeat("echo 0123456789\r\n", 5000))
			busy.Go(func() { io.Copy(io.Discard, hog) })
			busy.Go(func() {
				for {
					if _, err := hog.Write(line); err != nil {
						return
					}
				}
			})
		}
		c := r.dial()
		for i := range 20 {
			c.echo(i)
		}
		c.Close()
		for _, hog := range hogs {
			hog.abort()
		}
		busy.Wait()
	})
}
