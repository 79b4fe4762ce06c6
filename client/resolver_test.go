package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Package net has a channel for its settings, which must not belong to a bubble.
func init() {
	(&net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}).LookupHost(context.Background(), "ids.example.")
}

// A nameServer answers over pipes, so that it runs in a bubble.
type nameServer struct {
	mu      sync.Mutex
	addrs   []netip.Addr
	targets []dnsmessage.SRVResource
	code    dnsmessage.RCode
	asked   int
	told    time.Time // when a script was told
}

func (s *nameServer) set(code dnsmessage.RCode, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.addrs = code, nil
	for _, a := range addrs {
		s.addrs = append(s.addrs, netip.MustParseAddr(a))
	}
}

func (s *nameServer) lookups() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// resolver is one that asks s.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go s.serve(far)
			return near, nil
		}}
}

// serve answers over a stream: two bytes of length before each message.
func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := readFull(c, size[:]); err != nil {
			return
		}
		in := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := readFull(c, in); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(in) != nil {
			return
		}
		s.answer(&m)
		out, err := m.Pack()
		if err != nil {
			return
		}
		if _, err := c.Write(append([]byte{byte(len(out) >> 8), byte(len(out))}, out...)); err != nil {
			return
		}
	}
}

func readFull(c net.Conn, p []byte) (int, error) {
	for n := 0; n < len(p); {
		k, err := c.Read(p[n:])
		if err != nil {
			return n, err
		}
		n += k
	}
	return len(p), nil
}

func (s *nameServer) answer(m *dnsmessage.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.RCode = true, true, s.code
	m.Additionals = nil
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
	add := func(body dnsmessage.ResourceBody) {
		if m.RCode == dnsmessage.RCodeSuccess {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: body})
		}
	}
	switch q.Type {
	case dnsmessage.TypeA:
		s.asked++
		for _, a := range s.addrs {
			if a.Is4() {
				add(&dnsmessage.AResource{A: a.As4()})
			}
		}
	case dnsmessage.TypeAAAA:
		for _, a := range s.addrs {
			if a.Is6() {
				add(&dnsmessage.AAAAResource{AAAA: a.As16()})
			}
		}
	case dnsmessage.TypeSRV:
		s.asked++
		for _, t := range s.targets {
			add(&t)
		}
	}
}

// newResolved makes a client in a bubble that finds its servers with r.
func (n *network) newResolved(t *testing.T, r Resolver, config Config) *Client {
	t.Helper()
	config.Dial = n.dial
	c, err := New(r, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		time.Sleep(2 * time.Hour)
	})
	return c
}

func (c *Client) addrs() string {
	var list []string
	for _, s := range c.Stats().Servers {
		list = append(list, s.Addr)
	}
	return fmt.Sprint(list)
}

// TestNamesThatLie: thousands of addresses, and others at each look-up, do not make the client open more
// connections than it has a limit for, and the server that answers stays in use.
func TestNamesThatLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("99.0.0.1:11212", server.serve()) // the last one in order
		var names nameServer
		names.set(dnsmessage.RCodeSuccess, "99.0.0.1")
		c := n.newResolved(t, DNSFrom("ids.example.:11212", names.resolver()), Config{})
		must(t)(c.ID(t.Context()))
		for round := range 2 {
			addrs := []string{"99.0.0.1"}
			for i := range 2 * maxServers {
				addrs = append(addrs, fmt.Sprintf("10.%d.%d.%d", round, i>>8, i&0xff))
			}
			names.set(dnsmessage.RCodeSuccess, addrs...)
			asked, before := names.lookups(), n.dialledAll()
			for names.lookups() == asked {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			must(t)(c.ID(t.Context()))
			synctest.Wait()
			if dials := n.dialledAll() - before; dials > maxServers {
				t.Errorf("%d connections at once", dials)
			}
			s := c.Stats().Servers
			if i := slices.IndexFunc(s, func(s ServerStats) bool {
				return s.Addr == "99.0.0.1:11212"
			}); len(s) != maxServers || i < 0 || s[i].Connections != 1 {
				t.Fatalf("%d servers, the good one is number %d", len(s), i)
			}
			for range 20 {
				must(t)(c.ID(t.Context()))
			}
		}
		n.stop("99.0.0.1:11212")
		if _, err := c.ID(t.Context()); err == nil || len(err.Error()) > 4<<10 ||
			!strings.HasSuffix(err.Error(), fmt.Sprintf("and %d more", maxServers-20)) {
			t.Errorf("without any server: %.5000v", err)
		}
		n.set("99.0.0.1:11212", server.serve())
		names.set(dnsmessage.RCodeSuccess, "99.0.0.1")
		time.Sleep(time.Minute)
		must(t)(c.ID(t.Context()))
		if got := c.addrs(); got != "[99.0.0.1:11212]" {
			t.Error("in the end:", got)
		}
	})
}

// failing is a resolver that names servers once, and then fails.
type failing struct {
	list  []Server
	calls atomic.Int64
}

func (f *failing) Watch(_ context.Context, set func([]Server)) error {
	if f.calls.Add(1) == 1 {
		set(f.list)
		return nil
	}
	set(nil)
	return errors.New("the directory is down")
}

// listed is a Resolver with one list.
type listed []Server

func (l listed) Watch(ctx context.Context, set func([]Server)) error {
	set(l)
	<-ctx.Done()
	return ctx.Err()
}
