package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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

// TestDNS: all addresses of a name are servers, v4 and v6; the name is looked up every 30 s.
func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		for _, a := range []string{"10.0.0.1:11212", "10.0.0.2:11212", "[fd00::1]:11212", "10.0.0.9:11212"} {
			n.set(a, server.serve())
		}
		var names nameServer
		names.set(dnsmessage.RCodeSuccess, "10.0.0.2", "10.0.0.1", "fd00::1")
		c := n.newResolved(t, DNSFrom("ids.example.:11212", names.resolver()), Config{})
		for range 200 {
			must(t)(c.ID(t.Context()))
			synctest.Wait()
		}
		if got, want := c.addrs(), "[10.0.0.1:11212 10.0.0.2:11212 [fd00::1]:11212]"; got != want {
			t.Errorf("servers %s, want %s", got, want)
		}
		for _, s := range c.Stats().Servers {
			if s.Connections != 1 || s.Name != "ids.example" {
				t.Errorf("%+v", s)
			}
		}
		// A change is seen after 30 s; the connections to those that are gone are closed.
		names.set(dnsmessage.RCodeSuccess, "10.0.0.9", "10.0.0.1")
		time.Sleep(29 * time.Second)
		if names.lookups() != 1 {
			t.Errorf("%d look-ups in 29 s", names.lookups())
		}
		time.Sleep(2 * time.Second)
		for range 200 {
			must(t)(c.ID(t.Context()))
			synctest.Wait()
		}
		if got, want := c.addrs(), "[10.0.0.1:11212 10.0.0.9:11212]"; got != want || n.open.Load() != 2 {
			t.Errorf("servers %s, want %s; %d connections", got, want, n.open.Load())
		}
	})
}

// TestDNSFailures: what cannot be looked up changes nothing, and a client that has never had a server
// says why.
func TestDNSFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("10.0.0.1:11212", server.serve())
		var names nameServer
		names.set(dnsmessage.RCodeNameError)
		c := n.newResolved(t, DNSFrom("ids.example.:11212", names.resolver()), Config{})
		if id, err := c.ID(t.Context()); id != 0 || err == nil || !strings.Contains(err.Error(), "ids.example.") ||
			!strings.Contains(err.Error(), "no such host") {
			t.Errorf("id %d, error %v", id, err)
		}
		names.set(dnsmessage.RCodeSuccess, "10.0.0.1")
		time.Sleep(5 * time.Second)
		must(t)(c.ID(t.Context()))
		for what, code := range map[string]dnsmessage.RCode{"vanished": dnsmessage.RCodeNameError,
			"empty": dnsmessage.RCodeSuccess, "broken": dnsmessage.RCodeServerFailure} {
			names.set(code)
			time.Sleep(time.Minute)
			must(t)(c.ID(t.Context()))
			if got := c.addrs(); got != "[10.0.0.1:11212]" {
				t.Errorf("%s: servers %s", what, got)
			}
		}
	})
}

// TestDNSLooksAgainAtAFailure: when a server fails, its successor is found before the 30 s are over.
func TestDNSLooksAgainAtAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("10.0.0.1:11212", server.serve())
		n.set("10.0.0.2:11212", server.serve())
		var names nameServer
		names.set(dnsmessage.RCodeSuccess, "10.0.0.1")
		c := n.newResolved(t, DNSFrom("ids.example.:11212", names.resolver()), Config{MaxBackoff: 100 * time.Millisecond})
		must(t)(c.ID(t.Context()))
		time.Sleep(5 * time.Second)
		names.set(dnsmessage.RCodeSuccess, "10.0.0.2")
		n.stop("10.0.0.1:11212")
		begin := time.Now()
		for {
			if _, err := c.ID(t.Context()); err == nil {
				break
			}
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("the new address was found after %v", took)
		}
		// A server that keeps failing does not make it ask all the time.
		n.set("10.0.0.2:11212", nil)
		names.set(dnsmessage.RCodeSuccess, "10.0.0.3")
		before := names.lookups()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			c.ID(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		if asked := names.lookups() - before; asked > 21 {
			t.Errorf("%d look-ups in 20 s", asked)
		}
	})
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

// TestDeadAddresses: dead ones among good ones cost one attempt; if all are dead, the error names each.
func TestDeadAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("10.0.0.1:11212", server.serve())
		var names nameServer
		names.set(dnsmessage.RCodeSuccess, "10.0.0.1", "10.0.0.2", "fd00::1")
		c := n.newResolved(t, DNSFrom("ids.example.:11212", names.resolver()), Config{})
		for range 100 {
			must(t)(c.ID(t.Context()))
			synctest.Wait()
		}
		n.stop("10.0.0.1:11212")
		id, err := c.ID(t.Context())
		for _, addr := range []string{"10.0.0.1:11212: ", "10.0.0.2:11212: ", "[fd00::1]:11212: "} {
			if id != 0 || err == nil || !strings.Contains(err.Error(), addr) {
				t.Errorf("id %d, error %v: no %s", id, err, addr)
			}
		}
	})
}

// TestSRV: targets of a higher priority number are asked only while the others fail.
func TestSRV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var near, far issuer
		far.last.Store(1 << 40)
		n.set("a.example:1", near.serve())
		n.set("b.example:2", far.serve())
		name := dnsmessage.MustNewName
		names := nameServer{targets: []dnsmessage.SRVResource{
			{Priority: 10, Weight: 1, Port: 1, Target: name("a.example.")},
			{Priority: 20, Weight: 1, Port: 2, Target: name("b.example.")},
		}}
		c := n.newResolved(t, SRVFrom("_ids._tcp.example.", names.resolver()), Config{})
		for range 100 {
			if id := must(t)(c.ID(t.Context())); id > 1<<40 {
				t.Fatal("the second priority was asked")
			}
		}
		n.stop("a.example:1")
		if id := must(t)(c.ID(t.Context())); id < 1<<40 {
			t.Fatalf("id %d", id)
		}
		n.set("a.example:1", near.serve())
		time.Sleep(10 * time.Second)
		must(t)(c.ID(t.Context()))
		synctest.Wait()
		if id := must(t)(c.ID(t.Context())); id > 1<<40 {
			t.Error("the first priority is not asked again")
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

// TestResolverThatFails: what it named last stays, and it is asked again after a back-off.
func TestResolverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		var server issuer
		n.set("a:1", server.serve())
		f := &failing{list: []Server{{Addr: "a:1"}, {Addr: "a:1"}, {Addr: "nonsense"}}}
		c := n.newResolved(t, f, Config{})
		must(t)(c.ID(t.Context()))
		time.Sleep(time.Minute)
		must(t)(c.ID(t.Context()))
		if got := c.addrs(); got != "[a:1]" || f.calls.Load() < 5 || f.calls.Load() > 60 {
			t.Errorf("servers %s, %d calls", got, f.calls.Load())
		}
	})
}

// listed is a Resolver with one list.
type listed []Server

func (l listed) Watch(ctx context.Context, set func([]Server)) error {
	set(l)
	<-ctx.Done()
	return ctx.Err()
}

// TestServersThatSayWhetherTheySpeakTLS: what does not fit Config.TLS fails with an error that says so, and a
// server that cannot understand a word is not connected.
func TestServersThatSayWhetherTheySpeakTLS(t *testing.T) {
	const addr = "10.0.0.1:11212"
	for _, x := range []struct {
		says  Speaks
		tls   *tls.Config
		want  string // of the error; "" = it is served
		dials int
	}{
		{SpeaksTLS, nil, "it announces that it speaks TLS, and Config.TLS is not set", 0},
		{SpeaksPlain, &tls.Config{}, "it announces that it does not speak TLS, and Config.TLS is set: ", 1},
		{SpeaksUnknown, &tls.Config{}, addr + ": tls: ", 1},
		{SpeaksPlain, nil, "", 1},
		{SpeaksUnknown, nil, "", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			var server issuer
			n.set(addr, server.serve())
			if x.tls != nil {
				n.set(addr, func(c net.Conn) { // does not understand it
					defer c.Close()
					go io.Copy(io.Discard, c)
					io.WriteString(c, "ERROR\r\n")
				})
			}
			c := n.newResolved(t, listed{{Addr: addr, TLS: x.says}}, Config{TLS: x.tls})
			id, err := c.ID(t.Context())
			if x.want == "" && (id == 0 || err != nil) || x.want != "" &&
				(id != 0 || err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("%+v: id %d, %v", x, id, err)
			}
			if dials := n.dialled(addr); dials > 0 != (x.dials > 0) {
				t.Errorf("%+v: %d connections", x, dials)
			}
		})
	}
}
