package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Server is a daemon that can be asked.
type Server struct {
	Addr     string // host:port, or the path of a unix socket, beginning with /
	Name     string // what its certificate must name; "": the host of Addr
	Priority int    // servers are asked only if all with a smaller one are left alone after failures
	TLS      Speaks // what it says of its port. Config.TLS decides; this makes errors clear
}

// Speaks says whether a port speaks TLS.
type Speaks uint8

// What is known of that.
const (
	SpeaksUnknown Speaks = iota
	SpeaksPlain          // a proxy in front of it may speak TLS
	SpeaksTLS            // and nothing else
)

// A Resolver finds servers. Static, DNS and SRV return one; others can be written.
type Resolver interface {
	// Watch calls set with all servers at once, and again when they change, until ctx ends or it
	// cannot go on. The client then keeps the servers that it has, and calls Watch again: at once if it
	// ended ctx itself, because a server failed and the list may be old (at most once a second), and
	// otherwise after a back-off. An empty list is ignored.
	Watch(ctx context.Context, set func([]Server)) error
}

// every is how often names are looked up again.
const every = 30 * time.Second

// watch keeps the resolver at work until Close.
func (c *Client) watch(r Resolver) {
	for fails := 0; c.ctx.Err() == nil; {
		ctx, cancel := context.WithCancel(c.ctx)
		c.mu.Lock()
		c.rewatch, c.watched = cancel, c.now()
		c.mu.Unlock()
		err := r.Watch(ctx, func(list []Server) {
			if len(list) > 0 {
				fails = 0
			}
			c.setServers(list)
		})
		asked := ctx.Err() != nil
		cancel()
		if asked {
			continue
		}
		fails++
		if err == nil {
			err = errors.New("the resolver stopped")
		}
		d := backoff(fails, c.config.MinBackoff, c.config.MaxBackoff)
		c.config.Logger.Warn("cannot find id servers", "error", err, "retry_in", d)
		c.unresolved(err)
		select {
		case <-time.After(d):
		case <-c.ctx.Done():
		}
	}
}

// unresolved ends the batches that wait for the first list of servers.
func (c *Client) unresolved(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers) > 0 {
		return
	}
	for _, b := range c.queue {
		c.end(b, problems{fmt.Errorf("no servers: %w", err)})
	}
	c.queue = nil
}

// lookAgain has the resolver look for servers again, at most once a second. c.mu is held.
func (c *Client) lookAgain() {
	if c.rewatch != nil && c.now()-c.watched > time.Second {
		c.rewatch()
	}
}

// static is a list that never changes.
type static []string

// Static names the servers: host:port, or paths of unix sockets.
func Static(addrs ...string) Resolver { return static(addrs) }

func (s static) check() []error {
	if len(s) == 0 {
		return []error{errors.New("no servers")}
	}
	var wrong []error
	for _, a := range s {
		if err := checkAddr(a); err != nil {
			wrong = append(wrong, err)
		}
	}
	return wrong
}

func (s static) servers() []Server {
	list := make([]Server, len(s))
	for i, a := range s {
		list[i].Addr = a
	}
	return list
}

func (s static) Watch(ctx context.Context, set func([]Server)) error {
	set(s.servers())
	<-ctx.Done()
	return ctx.Err()
}

func checkAddr(addr string) error {
	if strings.HasPrefix(addr, "/") {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("server %q: %w", addr, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsRune(host, ' ') {
		return fmt.Errorf("server %q: want host:port, with a port from 1 to 65535", addr)
	}
	return nil
}

// dns asks all addresses of a name.
type dns struct {
	addr string
	with *net.Resolver
}

// DNS asks all servers whose addresses, v4 and v6, a name has: "ids.example:11212". It looks the name
// up every 30 s, and when a server fails. While that fails, the last servers stay.
func DNS(addr string) Resolver { return dns{addr, net.DefaultResolver} }

// DNSFrom is DNS with another resolver.
func DNSFrom(addr string, r *net.Resolver) Resolver { return dns{addr, r} }

func (d dns) check() []error {
	if err := checkAddr(d.addr); err != nil || strings.HasPrefix(d.addr, "/") {
		return []error{cause(err, fmt.Errorf("server %q: a path is no name", d.addr))}
	}
	return nil
}

func (d dns) Watch(ctx context.Context, set func([]Server)) error {
	host, port, _ := net.SplitHostPort(d.addr)
	return look(ctx, set, func(ctx context.Context) ([]Server, error) {
		ips, err := d.with.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		var list []Server
		for _, ip := range ips {
			list = append(list, Server{Addr: net.JoinHostPort(ip.Unmap().String(), port), Name: strings.TrimSuffix(host, ".")})
		}
		return list, nil
	})
}

// srv asks all targets of a name's SRV records.
type srv struct {
	name string
	with *net.Resolver
}

// SRV asks the targets of a name's SRV records: "_katsubushi._tcp.example". Targets of a higher
// priority number are asked only while all others fail; weights are ignored. It looks the name up as
// often as DNS.
func SRV(name string) Resolver { return srv{name, net.DefaultResolver} }

// SRVFrom is SRV with another resolver.
func SRVFrom(name string, r *net.Resolver) Resolver { return srv{name, r} }

func (s srv) check() []error {
	if s.name == "" || strings.ContainsAny(s.name, ": /") {
		return []error{fmt.Errorf("SRV name %q: want one such as _katsubushi._tcp.example", s.name)}
	}
	return nil
}

func (s srv) Watch(ctx context.Context, set func([]Server)) error {
	return look(ctx, set, func(ctx context.Context) ([]Server, error) {
		_, records, err := s.with.LookupSRV(ctx, "", "", s.name)
		if err != nil {
			return nil, err
		}
		var list []Server
		for _, r := range records {
			host := strings.TrimSuffix(r.Target, ".")
			if host == "" {
				continue // "the service is not here"
			}
			list = append(list,
				Server{Addr: net.JoinHostPort(host, strconv.Itoa(int(r.Port))), Name: host, Priority: int(r.Priority)})
		}
		return list, nil
	})
}

// look calls set with what find returns, at once and every 30 s, until find fails or ctx ends.
func look(ctx context.Context, set func([]Server), find func(context.Context) ([]Server, error)) error {
	for {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		list, err := find(limited)
		cancel()
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("the name has no addresses")
		}
		slices.SortFunc(list, func(a, b Server) int { return strings.Compare(a.Addr, b.Addr) })
		set(list)
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
