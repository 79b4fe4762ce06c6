package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A network has servers in memory, so that tests can run in a synctest bubble.
type network struct {
	mu      sync.Mutex
	servers map[string]func(net.Conn)
	dials   map[string]int
	far     map[string][]net.Conn // the servers' ends
	open    atomic.Int64
}

func newNetwork() *network {
	return &network{servers: map[string]func(net.Conn){}, dials: map[string]int{}, far: map[string][]net.Conn{}}
}

func (n *network) set(addr string, serve func(net.Conn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[addr] = serve
}

// stop ends a server and its connections.
func (n *network) stop(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[addr] = nil
	for _, c := range n.far[addr] {
		c.Close()
	}
}

func (n *network) dialled(addr string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[addr]
}

// dialledAll counts the dials to all addresses.
func (n *network) dialledAll() (sum int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.dials {
		sum += k
	}
	return sum
}

var errNobody = errors.New("connection refused")

func (n *network) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	serve := n.servers[addr]
	n.dials[addr]++
	n.mu.Unlock()
	if serve == nil {
		return nil, errNobody
	}
	near, far := net.Pipe()
	n.mu.Lock()
	n.far[addr] = append(n.far[addr], far)
	n.mu.Unlock()
	n.open.Add(1)
	go func() {
		defer n.open.Add(-1)
		defer far.Close()
		serve(far)
	}()
	return near, nil
}

// newClient makes a client of servers in memory, for the test of a bubble, whose clock the stock uses.
func (n *network) newClient(t testing.TB, config Config, addrs ...string) *Client {
	t.Helper()
	config.Dial = n.dial
	if config.now == nil {
		base := time.Now()
		config.now = func() int64 { return int64(time.Since(base)) }
	}
	c, err := New(Static(addrs...), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		time.Sleep(2 * time.Hour) // the servers end; in a bubble that takes no time
	})
	return c
}

// talk serves a connection: it answers the greeting, and each request with what answer returns. A nil
// answer closes the connection.
func talk(answer func(request string) []byte) func(net.Conn) {
	return func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var out []byte
			switch line = strings.TrimRight(line, "\r\n"); {
			case line == "version":
				out = []byte("VERSION 3.0.0\r\n")
			default:
				if out = answer(line); out == nil {
					return
				}
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

// An issuer answers as a daemon does. With one lane, each id is greater than all before.
type issuer struct {
	last  atomic.Uint64
	lanes int  // 0 means 1
	noIDs bool // it does not know the command
}

// asked says how many ids of which name a request is for.
func asked(request string) (n int, name string, ids bool) {
	if _, err := fmt.Sscanf(request, "ids %d %s", &n, &name); err == nil {
		return n, name, true
	}
	words := strings.Fields(request)
	return len(words) - 1, words[1], false
}

func (s *issuer) answer(request string) []byte {
	n, name, ids := asked(request)
	if ids && s.noIDs {
		return []byte("ERROR\r\n")
	}
	first := s.last.Add(uint64(n)) - uint64(n) + 1
	var out []byte
	if lanes := max(s.lanes, 1); ids {
		for i := range min(lanes, n) {
			out = fmt.Appendf(out, "IDS %d %d %d\r\n", first+uint64(i), lanes, (n-i+lanes-1)/lanes)
		}
	} else {
		for i := range uint64(n) {
			text := fmt.Sprint(first + i)
			if name == "uuid" {
				text = fmt.Sprintf("text-%05d", first+i)
			}
			out = fmt.Appendf(out, "VALUE %s 0 %d\r\n%s\r\n", name, len(text), text)
		}
	}
	return append(out, "END\r\n"...)
}

func (s *issuer) serve() func(net.Conn) { return talk(s.answer) }

// contextOf is the context of a test's caller i. Every other one never ends: its callers wait in another
// way.
func contextOf(t testing.TB, i int) context.Context {
	if i%2 == 0 {
		return t.Context()
	}
	return context.Background()
}

// must is an id, or the end of the test.
func must(t testing.TB) func(id uint64, err error) uint64 {
	return func(id uint64, err error) uint64 {
		t.Helper()
		if err != nil || id == 0 {
			t.Fatalf("id %d, error %v", id, err)
		}
		return id
	}
}
