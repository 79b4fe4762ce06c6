package daemon

import (
	"net"
	"net/http/httptest"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// TestSidePortsAreWhereTheyBelong: the debug port shows memory contents, so it is on loopback,
// whatever -bind says; so is the admin port, unless it has an address of its own.
func TestSidePortsAreWhereTheyBelong(t *testing.T) {
	auth := authFile(t, "ann:top:*=admin")
	for _, c := range []struct{ bind, httpBind, adminBind, want, admin string }{
		{"127.0.0.2", "", "", "127.0.0.2", sockets.Loopback}, {"127.0.0.2", "127.0.0.3", "", "127.0.0.3", sockets.Loopback},
		{"", "127.0.0.3", "127.0.0.4", "127.0.0.3", "127.0.0.4"}, {"", "0.0.0.0", "", "0.0.0.0", sockets.Loopback},
	} {
		d, _ := run(t, func(cfg *Config) {
			cfg.Bind, cfg.HTTPBind, cfg.HTTPPort, cfg.EnableStats = c.bind, c.httpBind, redistest.FreePort(t), true
			cfg.AdminBind, cfg.AdminPort, cfg.AuthFile = c.adminBind, redistest.FreePort(t), auth
		})
		if got := d.services[1].ln.Addr().(*net.TCPAddr).IP.String(); got != c.admin {
			t.Errorf("-bind %q -admin-bind %q: the admin port is on %s", c.bind, c.adminBind, got)
		}
		if got := d.services[0].ln.Addr().(*net.TCPAddr).IP.String(); got != c.want {
			t.Errorf("-bind %q -http-bind %q: HTTP is on %s", c.bind, c.httpBind, got)
		}
		if got := d.services[2].ln.Addr().(*net.TCPAddr).IP.String(); got != "127.0.0.1" && got != "::1" {
			t.Errorf("-bind %q: the debug port is on %s", c.bind, got)
		}
	}
}

// TestHTTPRequestsAreCountedWhereTheyAreShown: the daemon shows the counters that its HTTP server
// increments.
func TestHTTPRequestsAreCountedWhereTheyAreShown(t *testing.T) {
	d, _ := run(t, func(c *Config) { c.HTTPPort = redistest.FreePort(t) })
	d.services[0].service.(httpService).
		server.Handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/ids?n=3", nil))
	if n := d.requests.IDs.Load(); n != 3 {
		t.Errorf("%d ids are counted", n)
	}
}

// TestHTTPHasItsLimitOfConnections: what follows from -max-connections reaches the server.
func TestHTTPHasItsLimitOfConnections(t *testing.T) {
	for limit, want := range map[int]int{100: 32, 1600: 200} {
		d, _ := run(t, func(c *Config) { c.MaxConnections = limit })
		if got := d.httpConfig().MaxConnections; got != want {
			t.Errorf("beside %d: %d connections over HTTP, want %d", limit, got, want)
		}
	}
}

// TestHTTPConnections: HTTP and memcached connections together fit into the descriptors that the
// default limit leaves.
func TestHTTPConnections(t *testing.T) {
	for max, want := range map[int]int{1: 32, 256: 32, 800: 100, 8192: 1024, 1 << 20: 1024} {
		if got := HTTPConnections(max); got != want {
			t.Errorf("beside %d: %d, want %d", max, got, want)
		}
		if got := httpDescriptors(max); got != want+32 {
			t.Errorf("beside %d: %d descriptors, want %d", max, got, want+32)
		}
	}
}
