package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Mode is what a Proxy does with bytes.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // keeps them, and passes them on later
	Drop      // takes them and throws them away: whoever sent them knows nothing of it
)

// A path is what happens to one direction.
type path struct {
	mode  Mode
	delay time.Duration
}

// A Proxy stands between clients and a server. Changes apply to connections that there are as well
// as to new ones.
type Proxy struct {
	t      testing.TB
	l      net.Listener
	target string
	only   string // client address that the modes are for; empty: all

	mu       sync.Mutex
	changed  *sync.Cond
	up, down path // towards the server and back
	rewrite  func([]byte) []byte
	observe  func([]byte)
	refuse   bool
	closed   bool
	conns    map[net.Conn]bool
}

// NewProxy starts a proxy for the server at target, an address.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, l: l, target: target, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	go p.accept()
	t.Cleanup(func() {
		p.set(func() { p.closed = true })
		l.Close()
		p.Cut()
	})
	return p
}

// Addr is the proxy's address.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// OnlyFor limits the modes to clients with this IP address. Call it first.
func (p *Proxy) OnlyFor(ip string) { p.set(func() { p.only = ip }) }

// Requests sets the mode of what goes to the server.
func (p *Proxy) Requests(m Mode) { p.set(func() { p.up.mode = m }) }

// Answers sets the mode of what comes back.
func (p *Proxy) Answers(m Mode) { p.set(func() { p.down.mode = m }) }

// Rewrite has f change every piece of the answers. A Sentinel's, say, that shall name a proxy
// instead of the server.
func (p *Proxy) Rewrite(f func([]byte) []byte) { p.set(func() { p.rewrite = f }) }

// Observe shows f every piece of the requests, before anything happens to it.
func (p *Proxy) Observe(f func([]byte)) { p.set(func() { p.observe = f }) }

// Delay makes every piece of data wait, in both directions.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.up.delay, p.down.delay = d, d }) }

// DelayRequests makes every piece of data wait that goes to the server.
func (p *Proxy) DelayRequests(d time.Duration) { p.set(func() { p.up.delay = d }) }

// DelayAnswers makes every piece of data wait that comes back.
func (p *Proxy) DelayAnswers(d time.Duration) { p.set(func() { p.down.delay = d }) }

// Refuse makes the proxy close new connections at once.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// Retarget sends new connections to another server.
func (p *Proxy) Retarget(addr string) { p.set(func() { p.target = addr }) }

// Cut closes all connections, with what is held in them.
func (p *Proxy) Cut() {
	p.set(func() {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	})
}

// Idle says that there is no connection.
func (p *Proxy) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) == 0
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target, refuse := p.target, p.refuse || p.closed
		p.mu.Unlock()
		if refuse {
			c.Close()
			continue
		}
		s, err := net.Dial("tcp", target)
		if err != nil {
			c.Close()
			continue
		}
		p.set(func() {
			// or else what was set meanwhile would not be true of this one
			if refuse = p.refuse || p.closed || p.target != target; !refuse {
				p.conns[c], p.conns[s] = true, true
			}
		})
		if refuse {
			c.Close()
			s.Close()
			continue
		}
		go p.pump(s, c, c, &p.up)
		go p.pump(c, s, c, &p.down)
	}
}

// pump copies from src to dst until either end is closed.
func (p *Proxy) pump(dst, src, client net.Conn, way *path) {
	defer dst.Close()
	defer src.Close()
	defer p.set(func() { delete(p.conns, src) })
	ip, _, _ := net.SplitHostPort(client.RemoteAddr().String())
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.observe != nil && src == client {
			p.observe(buf[:n])
		}
		concerned := p.only == "" || p.only == ip
		for concerned && way.mode == Hold && p.conns[src] {
			p.changed.Wait()
		}
		drop, delay, gone, rewrite := concerned && way.mode == Drop, way.delay, !p.conns[src], p.rewrite
		p.mu.Unlock()
		if gone {
			return
		}
		if drop {
			continue
		}
		if delay > 0 {
			time.Sleep(delay)
		}
		piece := buf[:n]
		if rewrite != nil && dst == client {
			piece = rewrite(piece)
		}
		if _, err := dst.Write(piece); err != nil {
			return
		}
	}
}
