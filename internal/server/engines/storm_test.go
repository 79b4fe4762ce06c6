package engines

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	stormClients = 16               // at a time
	stormShort   = 1500             // clients in all
	stormSoak    = 25 * time.Second // ten minutes for all engines and places
)

// The end of one connection must not affect the next one. The server closes connections ("quit")
// while their clients close them too, and new ones take their slots at once. A client whose
// connection ends before its answer was hit by something meant for the previous connection.
// (TestQuitStormOnEveryPort: every other client resets its connection.) With KATSUBUSHI_SOAK=1 each storm lasts
// stormSoak.
func TestQuitStorm(t *testing.T) {
	everywhere(t, func(t *testing.T, m candidate, p place) { start(t, m, p, nil).storm(m, false) })
}

func (r *rig) storm(m candidate, resets bool) {
	s := &storm{rig: r, resets: resets, most: stormShort}
	switch soak := os.Getenv("KATSUBUSHI_SOAK") == "1"; {
	case m.name == "tinyuring":
		s.most /= 5 // each takes many turns
	case soak:
		s.most, s.until = math.MaxInt64, time.Now().Add(stormSoak)
	case resets:
		s.most /= 3 // there are twice as many connections
	}
	s.run()
}

type storm struct {
	*rig
	resets bool
	most   int64     // clients
	until  time.Time // zero: when most is reached

	connects, clients, lost, attacks atomic.Int64
}

func (s *storm) run() {
	began := time.Now()
	var wg sync.WaitGroup
	for range stormClients {
		wg.Go(func() {
			for s.clients.Load() < s.most && (s.until.IsZero() || time.Now().Before(s.until)) {
				if s.resets {
					s.attack()
				}
				s.client()
			}
		})
	}
	wg.Wait()
	n, lost, took := s.clients.Load(), s.lost.Load(), time.Since(began)
	s.t.Logf("%d clients and %d resets in %v, %.0f clients a second: %d answers lost",
		n, s.attacks.Load(), took.Round(time.Millisecond), float64(n)/took.Seconds(), lost)
	if lost > 0 {
		s.t.Errorf("%d of %d clients were hung up on before their answer", lost, n)
	}
	eventually(s.t, func() string {
		if got, want := s.counters.Total.Load(), uint64(n+s.attacks.Load()); got != want {
			return fmt.Sprintf("%d connections in all, want %d", got, want)
		}
		return s.open(0)
	})
}

// client connects, asks, quits and closes.
func (s *storm) client() {
	c := s.connect()
	if c == nil {
		return
	}
	defer c.Close()
	n := s.clients.Add(1)
	want := strconv.FormatInt(n, 10) + "\r\n"
	got := make([]byte, len(want))
	_, err := fmt.Fprintf(c, "echo %d\r\n", n)
	if err == nil {
		_, err = io.ReadFull(c, got)
	}
	switch {
	case err == nil && string(got) != want:
		s.t.Errorf("got %q, want %q", got, want)
	case err != nil:
		if s.lost.Add(1) == 1 {
			s.t.Logf("first loss, client %d: %v", n, err)
		}
	default:
		io.WriteString(c, "quit\r\n")
	}
}

// attack makes the server close a connection that is reset at the same time.
func (s *storm) attack() {
	c := s.connect()
	if c == nil {
		return
	}
	s.attacks.Add(1)
	io.WriteString(c, "quit\r\n")
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// connect waits for room in the backlog, or for a free port. It returns nil if waiting did not
// help.
func (s *storm) connect() net.Conn {
	to := s.ports[int(s.connects.Add(1))%len(s.ports)]
	deadline := time.Now().Add(patience)
	for {
		c, err := net.Dial(to.Network(), to.String())
		if err == nil {
			c.SetDeadline(time.Now().Add(patience))
			return c
		}
		if busy := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EADDRNOTAVAIL); !busy ||
			time.Now().After(deadline) {
			s.t.Error(err)
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}
