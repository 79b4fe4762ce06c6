package daemon

import (
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
)

// Ports holds the numbers of the daemon's TCP ports, one field for each line of listeners. 0 means
// off, but the memcached port and the debug port then get any free one.
type Ports struct {
	Port      int // the memcached port; the log names a free one
	RedisPort int
	HTTPPort  int
	GRPCPort  int
	AdminPort int
	DebugPort int // used if Config.EnablePprof or EnableStats is set
}

// listeners returns the table of everything that listens on TCP. Flags, validation, listening,
// serving and the log follow from a line; a new one needs its number in Ports and nothing else.
// Lines with a session are ports of the engine and open once ids can be issued. Lines with a service
// run beside the engine, from the start to the very end.
func listeners() []listener {
	return []listener{
		{
			PortSetting: PortSetting{Flag: "port", Default: 11212, Kayac: true, Number: func(p *Ports) *int { return &p.Port },
				Help: "TCP `port` of the memcached protocols, and of Redis's; 0 = any free one"},
			name: "memcached", on: always, host: (*Config).bind, sock: true,
			session:     func(c *protocol.Config) server.Session { return either{c} },
			resume:      resumeEither,
			refusal:     "ERROR Too many open connections\r\n",
			outOfMemory: "SERVER_ERROR out of memory\r\n",
		},
		{
			PortSetting: PortSetting{Flag: "redis-port", Number: func(p *Ports) *int { return &p.RedisPort },
				Help: "TCP `port` of the Redis protocol alone, with inline commands; 0 = off"},
			name: "Redis", host: (*Config).bind,
			session: func(c *protocol.Config) server.Session { return resp.NewSession(c, true) },
			resume: func(c *protocol.Config, state []byte) (conversation, error) {
				return resumed(resp.Resume(c, true, state))
			},
			refusal:     "-ERR max number of clients reached\r\n",
			outOfMemory: "-ERR out of memory\r\n",
		},
		{
			PortSetting: PortSetting{Flag: "http-port", Kayac: true, Number: func(p *Ports) *int { return &p.HTTPPort },
				Help: "`port` of the status page, /id /ids /stats /healthz /readyz /metrics; 0 = off"},
			name: "HTTP", host: (*Config).httpBind, service: (*Daemon).newHTTP, descriptors: httpDescriptors,
		},
		{
			PortSetting: PortSetting{Flag: "grpc-port", Kayac: true, Number: func(p *Ports) *int { return &p.GRPCPort },
				Help: "`port` of gRPC: the services of kayac/go-katsubushi, health, reflection; 0 = off"},
			name: "gRPC", host: (*Config).bind, service: (*Daemon).newGRPC, drains: true,
		},
		{
			PortSetting: PortSetting{Flag: "admin-port", Number: func(p *Ports) *int { return &p.AdminPort },
				Help: "`port` of /generators /leaders /users, over HTTP, for users with the right admin; 0 = off"},
			name: "admin", inside: true, host: (*Config).adminBind, service: (*Daemon).newAdmin, descriptors: adminDescriptors,
		},
		{
			PortSetting: PortSetting{Flag: "debug-port", Default: 8080, Kayac: true, Number: func(p *Ports) *int {
				return &p.DebugPort
			},
				Help: "`port`, on localhost, of what the next two enable"},
			name: "debug", inside: true, on: (*Config).debugs, service: (*Daemon).newDebug,
			descriptors: debugDescriptors,
		},
	}
}

// A listener is a line of the table.
type listener struct {
	PortSetting
	name string                 // in problems and, in lower case, in the log
	on   func(c *Config) bool   // whether it listens; nil = its number is not 0
	host func(c *Config) string // nil or empty = all addresses
	// inside: instead of all addresses, only the loopback address, of whichever family there is.
	inside bool

	// session makes the session of a connection to a port of the engine, which speaks TLS if there
	// is a certificate. c is what the sessions of its loop share.
	session     func(c *protocol.Config) server.Session
	resume      func(c *protocol.Config, state []byte) (conversation, error) // the same from a state, see server.Movable
	refusal     string                                                       // see server.Port
	outOfMemory string                                                       // see server.Port
	// Config.Sock takes the place of host and number
	sock bool

	// service makes a service.
	service func(d *Daemon) service
	drains  bool // it stops with the engine's ports: its clients get what they have asked for
	// descriptors returns how many files its connections may hold open beside maxConnections of
	// the engine's; nil = very few.
	descriptors func(maxConnections int) int
}

// A PortSetting is the setting for the number of a port; its flag is made from it.
type PortSetting struct {
	Flag    string // without "-"; problems name it as their field
	Help    string
	Default int
	Kayac   bool // kayac/go-katsubushi has this flag too
	Number  func(*Ports) *int
}

// PortSettings returns the settings of all ports in the table of listeners.
func PortSettings() (list []PortSetting) {
	for _, l := range listeners() {
		list = append(list, l.PortSetting)
	}
	return list
}

// ServiceDescriptors returns how many files the connections of the services that are on may hold
// open, beside maxConnections of the engine's.
func (c *Config) ServiceDescriptors(maxConnections int) (n int) {
	for _, l := range listeners() {
		if l.descriptors != nil && l.listens(c) {
			n += l.descriptors(maxConnections)
		}
	}
	return n
}

// SequenceDescriptors returns how many of so many files the sequences may hold open: records, which
// Counters.OpenRecords bounds, and locks. ReadSecrets must have read what declares some.
func (c *Config) SequenceDescriptors(files int) (records, locks int) {
	all, _, _ := c.definitions(c.secrets.generators, nil)
	return c.Counters.Descriptors(all, files)
}

func always(*Config) bool { return true }

// debugs reports whether the debug port has anything to show.
func (c *Config) debugs() bool { return c.EnablePprof || c.EnableStats }

func (c *Config) bind() string { return c.Bind }

// httpBind returns the address of the HTTP port.
func (c *Config) httpBind() string {
	if c.HTTPBind != "" {
		return c.HTTPBind
	}
	return c.Bind
}

func (c *Config) adminBind() string { return c.AdminBind }

// listens reports whether c switches the listener on.
func (l *listener) listens(c *Config) bool {
	if l.on != nil {
		return l.on(c)
	}
	return *l.Number(&c.Ports) != 0
}

// onTCP reports whether it listens on a TCP port, given that it listens.
func (l *listener) onTCP(c *Config) bool { return !l.sock || c.Sock == "" }

// place returns where it listens.
func (l *listener) place(c *Config) sockets.Place {
	p := sockets.Place{Flag: l.Flag, Title: l.name, Port: *l.Number(&c.Ports)}
	if l.host != nil {
		p.Host = l.host(c)
	}
	if p.Host == "" && l.inside {
		p.Host = sockets.Loopback
	}
	p.Local = l.inside && p.Host == sockets.Loopback
	if !l.onTCP(c) {
		p.Path, p.Mode = c.Sock, c.SockMode
	}
	return p
}

// udpPlace returns where the UDP port listens.
func (c *Config) udpPlace() sockets.Place {
	return sockets.Place{Flag: udpFlag, UDP: true, Host: c.Bind, Port: c.UDPPort}
}

// places returns where the ports listen that are on, the UDP port last.
func (c *Config) places() (list []sockets.Place) {
	for _, l := range listeners() {
		if l.listens(c) {
			list = append(list, l.place(c))
		}
	}
	if c.UDPPort != 0 {
		list = append(list, c.udpPlace())
	}
	return list
}

// validatePorts refuses numbers that no port can have, and one number for two ports.
func (c *Config) validatePorts(wrong func(field, format string, args ...any)) {
	for _, l := range listeners() {
		if err := sockets.CheckNumber(*l.Number(&c.Ports)); err != nil {
			wrong(l.Flag, "%w", err)
		}
	}
	sockets.Clashes(c.places(), wrong)
}

// An enginePort is a port of the engine that is switched on.
type enginePort struct {
	listener
	sessions []protocol.Config // what the sessions of a loop share, one for each
}

// addPorts lists the ports of the engine that are switched on; Daemon.listen opens them.
func (d *Daemon) addPorts() error {
	for _, l := range listeners() {
		if l.session != nil && l.listens(&d.c) {
			d.ports = append(d.ports, enginePort{l, slices.Clone(d.sessions[:d.c.Loops])})
		}
	}
	return nil
}

// addServices makes the services that are switched on.
func (d *Daemon) addServices() error {
	for _, l := range listeners() {
		if l.service == nil || !l.listens(&d.c) {
			continue
		}
		d.services = append(d.services, listedService{service: l.service(d), name: l.name, drains: l.drains, line: &l})
	}
	if d.c.origin() != nil { // takeOver does it
		return nil
	}
	return d.openServices()
}

// listen opens the engine's ports, with up to n listeners each.
func (d *Daemon) listen(n int) (ports []server.Port, err error) {
	for i := range d.ports {
		p := &d.ports[i]
		port := server.Port{
			Name: strings.ToLower(p.name), Open: d.opener(p), Resume: d.resumer(p), Peers: d.logins != nil,
			Refusal: []byte(p.refusal), OutOfMemory: []byte(p.outOfMemory),
		}
		if p.onTCP(&d.c) {
			port.TLS = d.tls
		}
		passed, at := d.c.passed(), p.place(&d.c)
		port.Lent, port.Shared = passed.Lent(at.Name()), passed.Named(at.Name()) != nil
		if port.Listeners, err = passed.Listeners(at, n); err != nil {
			server.Close(ports)
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// announce completes what sessions share with the address of their port, and logs it. No session
// exists yet.
func (d *Daemon) announce(ports []server.Port) {
	for i := range d.ports {
		for loop := range d.ports[i].sessions {
			d.ports[i].sessions[loop].Cluster = d.clusterNode(ports[i].Listeners[0].Addr(), i == 0)
		}
	}
	d.listening(ports)
	for i, p := range d.ports {
		message, lns := "listening", ports[i].Listeners
		if i > 0 {
			message = strings.ToLower(p.name) + " listening"
		}
		d.c.Log.Info(message, "address", lns[0].Addr().String(), "engine", d.engine.Name(), "loops", len(lns))
	}
}
