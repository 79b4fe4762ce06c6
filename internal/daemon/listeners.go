package daemon

import (
	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"slices"
)

// Ports holds the numbers of the services' ports, one field for each line of listeners. 0 means
// off, but the debug port then gets any free one.
type Ports struct {
	HTTPPort  int
	GRPCPort  int
	AdminPort int
	DebugPort int // used if Config.EnablePprof or EnableStats is set
}

// listeners returns the table of the services' ports. Validation, listening, serving and the log follow
// from a line. They run beside the engine, from the start to the very end.
func listeners() []listener {
	return []listener{
		{
			flag: "http-port", number: func(p *Ports) *int { return &p.HTTPPort },
			name: "HTTP", host: (*Config).httpBind, service: (*Daemon).newHTTP, descriptors: httpDescriptors,
		},
		{
			flag: "grpc-port", number: func(p *Ports) *int { return &p.GRPCPort },
			name: "gRPC", host: (*Config).bind, service: (*Daemon).newGRPC, drains: true,
		},
		{
			flag: "admin-port", number: func(p *Ports) *int { return &p.AdminPort },
			name: "admin", inside: true, host: (*Config).adminBind, service: (*Daemon).newAdmin, descriptors: adminDescriptors,
		},
		{
			flag: "debug-port", number: func(p *Ports) *int { return &p.DebugPort },
			name: "debug", inside: true, on: (*Config).debugs, service: (*Daemon).newDebug,
			descriptors: debugDescriptors,
		},
	}
}

// A listener is a line of the table.
type listener struct {
	flag   string // problems name it as their field
	number func(*Ports) *int
	name   string                 // in problems and, in lower case, in the log
	on     func(c *Config) bool   // whether it listens; nil = its number is not 0
	host   func(c *Config) string // nil or empty = all addresses
	// inside: instead of all addresses, only the loopback address, of whichever family there is.
	inside bool

	// service makes a service.
	service func(d *Daemon) service
	drains  bool // it stops with the engine's ports: its clients get what they have asked for
	// descriptors returns how many files its connections may hold open beside maxConnections of
	// the engine's; nil = very few.
	descriptors func(maxConnections int) int
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
	all, _, _ := c.definitions(c.generators, nil)
	return c.Counters.Descriptors(all, files)
}

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
	return *l.number(&c.Ports) != 0
}

// place returns where it listens.
func (l *listener) place(c *Config) sockets.Place {
	p := sockets.Place{Flag: l.flag, Title: l.name, Port: *l.number(&c.Ports)}
	if l.host != nil {
		p.Host = l.host(c)
	}
	if p.Host == "" && l.inside {
		p.Host = sockets.Loopback
	}
	p.Local = l.inside && p.Host == sockets.Loopback
	return p
}

// places returns where the ports listen that are on, the memcached port first.
func (c *Config) places() []sockets.Place {
	list := c.Front.Places()
	for _, l := range listeners() {
		if l.listens(c) {
			list = append(list, l.place(c))
		}
	}
	return list
}

// validatePorts refuses numbers that no port can have, and one number for two ports.
func (c *Config) validatePorts(wrong func(field, format string, args ...any)) {
	for _, l := range listeners() {
		if err := sockets.CheckNumber(*l.number(&c.Ports)); err != nil {
			wrong(l.flag, "%w", err)
		}
	}
	sockets.Clashes(c.places(), wrong)
}

// SocketNames returns the names that passed sockets may have.
func SocketNames() []string {
	names := []string{sockets.Unix, front.PortFlag, front.RedisFlag, front.UDPFlag}
	for _, l := range listeners() {
		names = append(names, l.flag)
	}
	slices.Sort(names)
	return names
}

// addServices makes the services that are switched on.
func (d *Daemon) addServices() error {
	for _, l := range listeners() {
		if l.service == nil || !l.listens(&d.c) {
			continue
		}
		d.services = append(d.services, listedService{service: l.service(d), name: l.name, drains: l.drains, line: &l})
	}
	return nil
}
