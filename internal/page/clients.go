package page

import (
	_ "embed" // clients.html
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/clients"
)

// The largest clients, for readers on this host alone: their addresses are nobody else's business.

//go:embed clients.html
var clientsTemplate string

// clientsFor returns the largest clients for the sender of a request, or nil if they are not shown to that one.
func (c *Config) clientsFor(r *http.Request) *clients.Top {
	if c.Clients == nil || !fromThisHost(r) {
		return nil
	}
	return c.Clients()
}

// fromThisHost reports whether a program on this host asks, for itself. A proxy on this host asks for others: most say
// so in a header or pass on the name that they were asked for, and nginx speaks HTTP/1.0 unless it is told otherwise.
// A page of another site asks by a name of its own (DNS rebinding).
func fromThisHost(r *http.Request) bool {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().IsLoopback() ||
		!r.ProtoAtLeast(1, 1) || !isLoopback(r.Host) {
		return false
	}
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	return true
}

// isLoopback reports whether a Host header says localhost or an address of loopback.
func isLoopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	a, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && a.IsLoopback()
}

// clientFields adds the clients to what the template shows.
func (d *document) clientFields(f fields) {
	f["clients shown"], f["clients"], f["clients hint"] = d.clients != nil, []fields(nil), ""
	if d.clients != nil {
		f["clients"], f["clients hint"] = each(d.clients.Clients, fieldsOf), d.clientsHint()
	}
}

func fieldsOf(c clients.Client) fields {
	return fields{"address": c.Address, "connections": number(uint64(c.Connections)), "in": pace(c.In),
		"out": pace(c.Out)}
}

// pace writes bytes a second.
func pace(bytes float64) string {
	if bytes < 0 {
		return "–"
	}
	return size(int64(bytes))
}

// clientsHint says what is not in the table.
func (d *document) clientsHint() string {
	t := d.clients
	if !t.Known {
		return "Not known on this system: the kernel does not tell which connections there are."
	}
	hint := "Open TCP connections to all ports, counted every 5 s at most. Only readers on this host see this."
	if t.More > 0 {
		hint = "And " + counted(uint64(t.More), "more address. ", "more addresses. ") + hint
	}
	if t.Partial {
		hint += " There are more connections than were looked at."
	}
	return hint
}

// plainClients writes the clients as plain text.
func (d *document) plainClients(line func(format string, args ...any)) {
	if d.clients == nil {
		return
	}
	const form = "%-24s %12s %14s %14s"
	line("")
	line(form, "CLIENT", "CONNECTIONS", "IN, A SECOND", "OUT, A SECOND")
	for _, c := range d.clients.Clients {
		line(form, c.Address, number(uint64(c.Connections)), pace(c.In), pace(c.Out))
	}
	line("%s", d.clientsHint())
}
