package daemon

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// HTTPConnections is the limit of the HTTP port's connections. It is apart from MaxConnections, so that neither port can fill the other.
func HTTPConnections(maxConnections int) int { return min(max(maxConnections/8, 32), 1024) }

// A sideServer is an HTTP server with its listener; both nil when it is switched off.
type sideServer struct {
	*http.Server
	ln net.Listener
}

func (s *sideServer) close() {
	if s.ln != nil {
		s.ln.Close()
	}
}

func (d *Daemon) listenHTTP() (err error) {
	if d.c.HTTPPort != 0 {
		d.http.Server = httpapi.NewServer(d.httpConfig())
		if d.http.ln, err = d.listenSide(d.c.httpBind(), d.c.HTTPPort); err != nil {
			return err
		}
	}
	if d.c.EnablePprof || d.c.EnableStats {
		d.debug.Server = httpapi.NewDebugServer(d.c.EnablePprof, d.c.EnableStats, d.complaints())
		d.debug.ln, err = d.listenSide("127.0.0.1", d.c.DebugPort)
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			d.debug.ln, err = d.listenSide("::1", d.c.DebugPort)
		}
	}
	return err
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

// complaints is the log for the HTTP servers' own lines.
func (d *Daemon) complaints() *log.Logger {
	return slog.NewLogLogger(d.c.Log.Handler(), slog.LevelWarn)
}

// checkPasswords warns where somebody may think that passwords are encrypted.
func (d *Daemon) checkPasswords() {
	if d.logins != nil && d.http.ln != nil && d.encrypted() && !d.http.ln.Addr().(*net.TCPAddr).IP.IsLoopback() {
		d.c.Log.Warn("the HTTP port takes passwords and does not encrypt: -http-bind it to where only those who may read them are", "address", d.http.ln.Addr().String())
	}
}
