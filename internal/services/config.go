package services

import (
	"cmp"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
)

// Config holds the settings of the services. A port of 0 is off, but the debug port then gets any free one.
type Config struct {
	HTTPPort  int
	GRPCPort  int
	AdminPort int
	DebugPort int // used if EnablePprof or EnableStats is set

	HTTPBind      string // address of the HTTP port; empty = that of the engine's ports
	HTTPHost      string // names, with commas between, by which browsers may ask HTTP ports on loopback too
	HTTPByDefault bool   // nobody has asked for the HTTP port: the daemon does without if that is how it can start
	AdminBind     string // address of the admin port; empty = loopback
	EnablePprof   bool   // on the debug port, beside /debug/events
	EnableStats   bool   // the same
}

// Flags returns the flags of all ports: they name them in problems, and among passed sockets.
func Flags() (list []string) {
	for _, l := range new(Config).all("") {
		list = append(list, l.at.Flag)
	}
	return list
}

// Validate finds everything that is wrong with the fields. The error is of package problem.
func (c *Config) Validate() error {
	var problems problem.List
	check := func(field string, err error) {
		if err != nil {
			problems.Add(field, "%w", err)
		}
	}
	check("HTTPBind", sockets.CheckHost(c.HTTPBind))
	for _, name := range c.hosts() {
		check("HTTPHost", sockets.CheckHost(name))
	}
	check("AdminBind", sockets.CheckHost(c.AdminBind))
	for _, l := range c.all("") {
		check(l.at.Flag, sockets.CheckNumber(l.at.Port))
	}
	return problems.Err()
}

// A line is one port. A new service is a line of all, and its number in Config.
type line struct {
	at     sockets.Place
	on     bool
	serve  func(*Services) answerer
	drains bool // it stops with the engine's ports: its clients get what they have asked for
	// descriptors returns how many files its connections may hold open beside maxConnections of
	// the engine's, including some above its limit; nil = very few.
	descriptors func(maxConnections int) int
	// bindFlag is the flag of the address of a port that takes passwords and does not encrypt. beside = it matters
	// only beside ports that do.
	bindFlag string
	beside   bool
}

// all returns all ports. bind is the address of the engine's ports; empty = all.
func (c *Config) all(bind string) []line {
	local := func(flag, title, host string, port int) sockets.Place {
		host = cmp.Or(host, sockets.Loopback)
		return sockets.Place{Flag: flag, Title: title, Host: host, Port: port, Local: host == sockets.Loopback}
	}
	return []line{
		{
			at: sockets.Place{Flag: "http-port", Title: "HTTP", Host: cmp.Or(c.HTTPBind, bind), Port: c.HTTPPort,
				Optional: c.HTTPByDefault},
			on: c.HTTPPort != 0, serve: (*Services).http, bindFlag: "-http-bind", beside: true,
			descriptors: func(max int) int { return c.HTTPConnections(max) + httpapi.Reserve + httpapi.Refusing },
		},
		{
			at: sockets.Place{Flag: "grpc-port", Title: "gRPC", Host: bind, Port: c.GRPCPort},
			on: c.GRPCPort != 0, serve: (*Services).grpc, drains: true,
		},
		{
			at: local("admin-port", "admin", c.AdminBind, c.AdminPort),
			on: c.AdminPort != 0, serve: (*Services).admin, bindFlag: "-admin-bind",
			descriptors: func(int) int { return adminConnections + httpapi.Reserve + httpapi.Refusing },
		},
		{
			at: local("debug-port", "debug", "", c.DebugPort), // it shows memory
			on: c.EnablePprof || c.EnableStats, serve: (*Services).debug,
			descriptors: func(int) int { return httpapi.DebugConnections + httpapi.Reserve + httpapi.Refusing },
		},
	}
}

// lines returns the ports that are on.
func (c *Config) lines(bind string) []line {
	return slices.DeleteFunc(c.all(bind), func(l line) bool { return !l.on })
}

// Places returns where the ports listen that are on.
func (c *Config) Places(bind string) (list []sockets.Place) {
	for _, l := range c.lines(bind) {
		list = append(list, l.at)
	}
	return list
}

// adminConnections is the connection limit of the admin port.
const adminConnections = 16

// pageConnections is the connection limit of an HTTP port that nobody asked for, and the least of any.
const pageConnections = 32

// HTTPConnections returns the connection limit of the HTTP port. It is separate from
// that of the engine's ports, so that neither can fill the other.
func (c *Config) HTTPConnections(maxConnections int) int {
	if c.HTTPByDefault {
		return pageConnections
	}
	return min(max(maxConnections/8, pageConnections), 1024)
}

// hosts returns the names of HTTPHost.
func (c *Config) hosts() []string {
	return strings.FieldsFunc(c.HTTPHost, func(r rune) bool { return r == ',' || r == ' ' })
}

// Descriptors returns how many files the connections of the services that are on may hold open, beside
// maxConnections of the engine's.
func (c *Config) Descriptors(maxConnections int) (n int) {
	for _, l := range c.lines("") {
		if l.descriptors != nil {
			n += l.descriptors(maxConnections)
		}
	}
	return n
}
