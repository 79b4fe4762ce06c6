package daemon

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// HTTPConnections returns the connection limit of the HTTP port. It is separate from
// MaxConnections, so that neither port can fill the other.
func HTTPConnections(maxConnections int) int { return min(max(maxConnections/8, 32), 1024) }

// HTTPDescriptors returns how many files the HTTP port's connections may hold open, including some
// above its limit.
func HTTPDescriptors(maxConnections int) int {
	return HTTPConnections(maxConnections) + httpapi.Reserve + httpapi.Refusing
}

// debugHost is the address of the debug port; it is ::1 where there is no IPv4.
const debugHost = "127.0.0.1"

// addHTTP adds the HTTP servers that are switched on.
func (d *Daemon) addHTTP() error {
	if d.c.HTTPPort != 0 {
		ln, err := d.listenSide(d.c.httpBind(), d.c.HTTPPort)
		if err != nil {
			return err
		}
		s := httpapi.NewServer(d.httpConfig())
		d.addService("http", httpService{s.Server}, s.Listener(ln))
		d.httpAddress = ln.Addr().(*net.TCPAddr)
	}
	if d.c.EnablePprof || d.c.EnableStats {
		ln, err := d.listenSide(debugHost, d.c.DebugPort)
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			ln, err = d.listenSide("::1", d.c.DebugPort)
		}
		if err != nil {
			return err
		}
		d.addService("http", httpService{httpapi.NewDebugServer(d.c.EnablePprof, d.c.EnableStats, d.complaints())}, ln)
	}
	return nil
}

// listenSide opens the listener of an HTTP server.
func (d *Daemon) listenSide(host string, port int) (net.Listener, error) {
	var lns []net.Listener
	err := d.binder.bind(context.Background(), func() (err error) {
		lns, err = server.ListenTCP(net.JoinHostPort(host, strconv.Itoa(port)), 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	return lns[0], nil
}

// complaints returns the log for the HTTP servers' own messages.
func (d *Daemon) complaints() *log.Logger {
	return slog.NewLogLogger(d.c.Log.Handler(), slog.LevelWarn)
}

// checkPasswords warns if the memcached port encrypts passwords but the HTTP port does not.
func (d *Daemon) checkPasswords() {
	if d.logins != nil && d.httpAddress != nil && d.encrypted() && !d.httpAddress.IP.IsLoopback() {
		d.c.Log.Warn("the HTTP port takes passwords and does not encrypt: -http-bind it to where only those who may read them are", "address", d.httpAddress.String())
	}
}
