package daemon

import (
	"log"
	"log/slog"
	"net"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
)

// HTTPConnections returns the connection limit of the HTTP port. It is separate from
// MaxConnections, so that neither port can fill the other.
func HTTPConnections(maxConnections int) int { return min(max(maxConnections/8, 32), 1024) }

// httpDescriptors returns how many files the HTTP port's connections may hold open, including some
// above its limit.
func httpDescriptors(maxConnections int) int {
	return HTTPConnections(maxConnections) + httpapi.Reserve + httpapi.Refusing
}

// newHTTP makes the service of the HTTP port.
func (d *Daemon) newHTTP() service {
	return httpService{httpapi.NewServer(d.httpConfig())}
}

// debugDescriptors is the same for the debug port.
func debugDescriptors(int) int { return httpapi.DebugConnections + httpapi.Reserve + httpapi.Refusing }

// newDebug makes the service of the debug port.
func (d *Daemon) newDebug() service {
	return httpService{httpapi.NewDebugServer(d.c.EnablePprof, d.c.EnableStats, d.events, d.complaints())}
}

// complaints returns the log for the HTTP servers' own messages.
func (d *Daemon) complaints() *log.Logger {
	return slog.NewLogLogger(d.noise.Handler(), slog.LevelWarn)
}

// checkPasswords warns of services that take passwords and do not encrypt, beyond this host: the HTTP
// port if the memcached port encrypts, and the admin port.
func (d *Daemon) checkPasswords() {
	for _, s := range d.services {
		flag := map[string]string{"HTTP": "-http-bind", "admin": "-admin-bind"}[s.name]
		at := s.ln.Addr().(*net.TCPAddr)
		if flag != "" && d.c.HasLogins() && (d.front.Encrypted() || s.name == "admin") && !at.IP.IsLoopback() {
			d.c.Log.Warn("the "+s.name+" port takes passwords and does not encrypt: "+flag+
				" it to where only those who may read them are", "address", at.String())
		}
	}
}
