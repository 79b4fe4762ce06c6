package page

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/clients"
)

// callers are clients in which each fact is another one.
func callers() *clients.Top {
	return &clients.Top{Known: true, More: 1234, Partial: true, Clients: []clients.Client{
		{Address: "10.0.0.21", Connections: 2001, In: 5 << 20, Out: 6 << 20},
		{Address: "2001:db8:0:1::/64", Connections: 22, In: 0, Out: 512}, {Address: "::1", Connections: 1, In: -1, Out: -1},
	}}
}

// A reader is one who asks a page with clients.
type reader struct {
	remote, host, proto, target, accept string
	header                              [2]string
}

// local is one on this host.
func local() reader {
	return reader{remote: "127.0.0.1:999", host: "127.0.0.1:8081", proto: "HTTP/1.1", target: "/", accept: browser}
}

func (c reader) sees(top *clients.Top) string {
	v := healthy()
	r := httptest.NewRequest("GET", c.target, nil)
	r.RemoteAddr, r.Host, r.Proto, r.ProtoMinor = c.remote, c.host, c.proto, int(c.proto[len(c.proto)-1]-'0')
	r.Header.Set("Accept", c.accept)
	if c.header[0] != "" {
		r.Header.Set(c.header[0], c.header[1])
	}
	w := httptest.NewRecorder()
	Handler(Config{Read: func() View { return v }, History: past(&v), Clients: func() *clients.Top { return top }}).
		ServeHTTP(w, r)
	return w.Body.String()
}

// section cuts out what a text says of clients.
func section(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	if !found {
		t.Fatalf("no clients are shown: %s", text)
	}
	inside, _, _ := strings.Cut(rest, end)
	return begin + inside + end
}

// TestClientsAreShown compares them with testdata/clients.*.golden.
func TestClientsAreShown(t *testing.T) {
	c := local()
	html := section(t, c.sees(callers()), `<section id="clients"`, "</section>")
	golden(t, "clients.html", strings.ReplaceAll(html, "<t", "\n<t"))
	c.target = "/?live=1"
	if live := c.sees(callers()); !strings.Contains(live, html) {
		t.Errorf("another section is refreshed: %s", live)
	}
	c.accept, c.target = "", "/"
	golden(t, "clients.txt", section(t, c.sees(callers()), "\nCLIENT", "\n\n"))
	for _, accept := range []string{browser, ""} {
		c.accept = accept
		if text := c.sees(new(clients.Top)); !strings.Contains(text, "Not known on this system") {
			t.Error(text)
		}
	}
}

// TestWhoSeesClients: programs on this host that ask for themselves, where nobody logs in.
func TestWhoSeesClients(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*reader)
		seen   bool
	}{
		"a browser":               {func(*reader) {}, true},
		"its script":              {func(c *reader) { c.target = "/?live=1" }, true},
		"curl":                    {func(c *reader) { c.accept = "" }, true},
		"IPv6":                    {func(c *reader) { c.remote, c.host = "[::1]:999", "[::1]:8081" }, true},
		"IPv6 of an IPv4 address": {func(c *reader) { c.remote = "[::ffff:127.0.0.1]:999" }, true},
		"localhost":               {func(c *reader) { c.host = "LocalHost:8081" }, true},
		"without a port":          {func(c *reader) { c.host = "localhost" }, true},
		"another host":            {func(c *reader) { c.remote = "10.0.0.9:999" }, false},
		"an address of this host": {func(c *reader) { c.remote, c.host = "10.0.0.1:9", "10.0.0.1:8081" }, false},
		"a unix socket":           {func(c *reader) { c.remote = "@" }, false},
		"rebinding":               {func(c *reader) { c.host = "evil.example:8081" }, false},
		"rebinding, localhost":    {func(c *reader) { c.host = "localhost.evil.example" }, false},
		"a name passed on":        {func(c *reader) { c.host = "ids.example" }, false},
		"an address passed on":    {func(c *reader) { c.host = "10.0.0.1:8081" }, false},
		"no name":                 {func(c *reader) { c.host = "" }, false},
		"nginx":                   {func(c *reader) { c.proto = "HTTP/1.0" }, false},
		"Forwarded":               {func(c *reader) { c.header = [2]string{"Forwarded", "for=10.0.0.9"} }, false},
		"X-Forwarded-For":         {func(c *reader) { c.header = [2]string{"x-forwarded-for", "127.0.0.1"} }, false},
		"X-Forwarded-Proto":       {func(c *reader) { c.header = [2]string{"X-Forwarded-Proto", "http"} }, false},
		"X-Real-IP":               {func(c *reader) { c.header = [2]string{"X-Real-IP", ""} }, false},
		"Via":                     {func(c *reader) { c.header = [2]string{"Via", "1.1 proxy"} }, false},
	} {
		one := local()
		c.change(&one)
		if seen := strings.Contains(one.sees(callers()), "10.0.0.21"); seen != c.seen {
			t.Errorf("%s: clients are shown: %v", name, seen)
		}
	}
	for _, accept := range []string{browser, ""} {
		one := local()
		one.accept = accept
		if text := one.sees(nil); strings.Contains(text, `"clients"`) || strings.Contains(text, "CLIENT") {
			t.Errorf("where users log in: %s", text)
		}
	}
}
