package front

import (
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
)

// The flags of the ports: they name them in problems, and among passed sockets.
const (
	PortFlag  = "port"
	RedisFlag = "redis-port"
	UDPFlag   = "udp-port"
)

// A port is one of the engine. It speaks TLS if there is a certificate, but a unix socket does not.
type port struct {
	at          sockets.Place
	sessions    []protocol.Config                                            // what the sessions of a loop share
	session     func(c *protocol.Config) server.Session                      // c is what the sessions of its loop share
	resume      func(c *protocol.Config, state []byte) (conversation, error) // see server.Movable
	refusal     string                                                       // see server.Port
	outOfMemory string                                                       // see server.Port
}

// ports returns those ports of the engine that are on, the memcached port first. A new port is an entry here, and
// its number in Config.
func (c *Config) ports() []port {
	list := []port{
		{
			at: sockets.Place{Flag: PortFlag, Title: "memcached", Host: c.Bind, Port: c.Port, Path: c.Sock,
				Mode: c.SockMode},
			session:     func(c *protocol.Config) server.Session { return either{c} },
			resume:      resumeEither,
			refusal:     "ERROR Too many open connections\r\n",
			outOfMemory: "SERVER_ERROR out of memory\r\n",
		},
		{
			at:      sockets.Place{Flag: RedisFlag, Title: "Redis", Host: c.Bind, Port: c.RedisPort},
			session: func(c *protocol.Config) server.Session { return resp.NewSession(c, true) },
			resume: func(c *protocol.Config, state []byte) (conversation, error) {
				return resumed(resp.Resume(c, true, state))
			},
			refusal:     "-ERR max number of clients reached\r\n",
			outOfMemory: "-ERR out of memory\r\n",
		},
	}
	if c.RedisPort == 0 {
		list = list[:1]
	}
	return list
}

// udp returns where the UDP port listens.
func (c *Config) udp() sockets.Place {
	return sockets.Place{Flag: UDPFlag, UDP: true, Host: c.Bind, Port: c.UDPPort}
}

// Places returns where the ports listen that are on, the memcached port first.
func (c *Config) Places() (list []sockets.Place) {
	for _, p := range c.ports() {
		list = append(list, p.at)
	}
	if c.UDPPort != 0 {
		list = append(list, c.udp())
	}
	return list
}

// lower returns the name of the port in the log, and in server.Port.
func (p *port) lower() string { return strings.ToLower(p.at.Title) }

// listen opens the engine's ports, with a listener for each loop, or takes those that were passed.
func (f *Front) listen() (ports []server.Port, err error) {
	for i := range f.ports {
		p := &f.ports[i]
		port := server.Port{
			Name: p.lower(),
			Open: func(loop int, asked *latency.Asked) server.Session { return f.open(p, loop, asked) },
			Resume: func(loop int, asked *latency.Asked, state []byte) (server.Session, error) {
				return f.resume(p, loop, asked, state)
			},
			Peers:   f.logins != nil,
			Refusal: []byte(p.refusal), OutOfMemory: []byte(p.outOfMemory),
			Lent: f.g.Passed.Lent(p.at.Name()), Shared: f.g.Passed.Named(p.at.Name()) != nil,
		}
		if p.at.Path == "" {
			port.TLS = f.TLS
		}
		if port.Listeners, err = f.g.Passed.Listeners(p.at, f.c.Loops); err != nil {
			server.Close(ports)
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// probe checks now, not when the ports open, whether an address is in use.
func (f *Front) probe() error {
	for _, p := range f.ports {
		if f.g.Passed.Named(p.at.Name()) != nil { // a supervisor listens
			continue
		}
		if err := p.at.Probe(); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns where the engine's ports listen, the memcached port first; nil = they are not open yet.
// Any goroutine may call it.
func (f *Front) Addresses() []sockets.Address {
	select {
	case <-f.opened:
	default:
		return nil
	}
	return slices.Clone(f.addresses)
}

// announce completes what sessions share with the address of their port, keeps copies of the listeners for a
// successor, and logs where the ports are. No session exists yet.
func (f *Front) announce() {
	for i, p := range f.ports {
		lns := f.listening[i].Listeners
		at := lns[0].Addr()
		f.addresses = append(f.addresses, sockets.Address{Title: p.at.Title, At: at})
		for loop := range p.sessions {
			p.sessions[loop].Cluster = f.g.Cluster(at, i == 0)
		}
		for _, ln := range lns {
			f.kept.Add(p.at.Name(), ln, f.listening[i].Lent) // without it there is no upgrade
		}
		message := "listening"
		if i > 0 {
			message = p.lower() + " listening"
		}
		f.g.Log.Info(message, "address", at.String(), "engine", f.engine.Name(), "loops", len(lns))
	}
}
