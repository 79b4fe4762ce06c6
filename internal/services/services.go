// Package services serves clients beside the engine's ports: HTTP, gRPC, the admin port and the debug port.
// They run from the start, before any id can be issued, to the very end; those that drain end with the
// engine's ports.
//
// The life of the Services: New, Open, Start, Drain, Stop. Stop also gives back what a start that failed has
// opened. When another process succeeds this one, Sockets and Pause come first, and Resume if this one goes on.
//
// They are handed functions and know neither windows nor names.
package services

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/adminapi"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/grpcapi"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// Given is what the Services have from the other parts of a daemon.
type Given struct {
	Log            *slog.Logger   // changes of state
	Noise          *slog.Logger   // what connections and requests can cause
	Bind           string         // address of the engine's ports; empty = all
	MaxConnections int            // of the engine's ports
	DrainTimeout   time.Duration  // for clients to read their last replies
	Passed         sockets.Passed // what another process has opened
	Encrypted      bool           // a port of the engine uses TLS
	Login          httpapi.Login  // decides logins; nil = nobody needs to log in

	// What answers. New fills in the counters, the log, the limit and, but for gRPC's, the login.
	HTTP   httpapi.Config
	GRPC   grpcapi.Config
	Admin  adminapi.Config
	Events *events.Log // what the debug port shows
}

// Services are the ports beside the engine's. All methods but Figures and Addresses come one after another.
type Services struct {
	Requests     httpapi.Counters // the HTTP port's
	Administered httpapi.Counters // the admin port's
	Called       grpcapi.Counters // the gRPC port's

	c       Config
	g       Given
	list    []*service
	running sync.WaitGroup
	paused  bool // since Pause, until Resume
}

// An answerer answers the clients of one listener.
type answerer interface {
	// Serve returns nil after Shutdown, otherwise the error that ended it. It closes the listener.
	Serve(net.Listener) error
	Shutdown(ctx context.Context) error // answers what is under way; cuts it off when ctx ends
}

// A service is a port that is on.
type service struct {
	line
	ln     net.Listener // nil = not open
	server answerer     // nil = it does not serve
}

// New makes Services that listen nowhere. Config.Validate must have found nothing wrong.
func New(c Config, g Given) *Services {
	s := &Services{c: c, g: g}
	for _, l := range c.lines(g.Bind) {
		s.list = append(s.list, &service{line: l})
	}
	h, complaints := &s.g.HTTP, s.complaints()
	h.MaxConnections, h.Log, h.Counters, h.Login = c.HTTPConnections(g.MaxConnections), complaints, &s.Requests, g.Login
	s.g.GRPC.Counters, s.g.GRPC.Login = &s.Called, g.Login
	s.g.Admin.Login = func(w http.ResponseWriter, r *http.Request) *users.Account {
		return g.Login.Admit(w, r, &s.Administered)
	}
	return s
}

func (s *Services) http() answerer { return s.named(httpapi.NewServer(s.g.HTTP)) }
func (s *Services) grpc() answerer { return grpcapi.New(s.g.GRPC) }
func (s *Services) admin() answerer {
	return s.named(httpapi.Limited(adminapi.New(s.g.Admin), adminConnections, &s.Administered, s.complaints()))
}
func (s *Services) debug() answerer {
	return s.named(httpapi.NewDebugServer(s.c.EnablePprof, s.c.EnableStats, s.g.Events, s.complaints()))
}

// named makes a server answer on loopback by this host's names.
func (s *Services) named(server httpapi.Server) answerer {
	own, _ := os.Hostname()
	server.Known(append(s.c.hosts(), own)...)
	return httpServer{server}
}

// complaints returns the log for the HTTP servers' own messages.
func (s *Services) complaints() *log.Logger {
	return slog.NewLogLogger(s.g.Noise.Handler(), slog.LevelWarn)
}

// Open opens the listeners, or takes those that were passed.
func (s *Services) Open(b *sockets.Binder) error {
	for _, one := range slices.Clone(s.list) {
		if one.at.Optional {
			s.openOptional(one)
			continue
		}
		err := b.Bind(context.Background(), func() (err error) {
			one.ln, err = s.g.Passed.Listener(one.at)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.checkPasswords()
	return nil
}

// openOptional opens a port that the daemon can do without, and does without if that fails: a second daemon of
// this host is no mistake.
func (s *Services) openOptional(one *service) {
	var err error
	if one.ln, err = s.g.Passed.Listener(one.at); err == nil {
		return
	}
	s.running.Go(func() { // to find out who has it takes some time where many processes run
		why := slog.Any("error", err)
		if errors.Is(err, syscall.EADDRINUSE) {
			why = slog.String("taken_by", sockets.Holder(one.at.Port))
		}
		s.g.Log.Info("no status page: -"+one.at.Flag+" gives it another port", "address", one.at.Address(), why)
	})
	s.list = slices.DeleteFunc(s.list, func(other *service) bool { return other == one })
}

// Serves reports whether a port is on, by its flag.
func (s *Services) Serves(flag string) bool {
	return slices.ContainsFunc(s.list, func(one *service) bool { return one.at.Flag == flag })
}

// checkPasswords warns of ports that take passwords and do not encrypt, beyond this host: the HTTP
// port if the engine's ports encrypt, and the admin port.
func (s *Services) checkPasswords() {
	for _, one := range s.list {
		at, ok := one.ln.Addr().(*net.TCPAddr)
		if ok && one.bindFlag != "" && s.g.Login != nil && (s.g.Encrypted || !one.beside) && !at.IP.IsLoopback() {
			s.g.Log.Warn("the "+one.at.Title+" port takes passwords and does not encrypt: "+one.bindFlag+
				" it to where only those who may read them are", "address", at.String())
		}
	}
}

// Start serves all ports in background, in the order of the table. It calls fail when one ends by itself.
func (s *Services) Start(fail func(error)) {
	for _, one := range s.list {
		name := strings.ToLower(one.at.Title)
		s.g.Log.Info(name+" listening", "address", one.ln.Addr().String())
		server, ln := one.serve(s), one.ln
		one.server = server
		s.running.Go(func() {
			if err := server.Serve(ln); err != nil {
				fail(fmt.Errorf("%s server: %w", name, err))
			}
		})
	}
}

// Drain stops the services that end with the engine's ports.
func (s *Services) Drain() { s.stop(true) }

// Stop stops all others, and gives back what has been opened. It may be called again.
func (s *Services) Stop() {
	s.stop(false)
	for _, one := range s.list {
		if one.ln != nil {
			one.ln.Close()
		}
	}
	if !s.paused {
		s.running.Wait()
	}
}

func (s *Services) stop(drain bool) {
	if s.paused { // what a request still has under way had its time
		return
	}
	for _, one := range s.list {
		if one.drains == drain {
			s.shut(one.server)
		}
	}
}

// shut stops a server within DrainTimeout; nil = there is none.
func (s *Services) shut(server answerer) {
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.g.DrainTimeout)
	defer cancel()
	server.Shutdown(ctx)
}

// pause is how long the services may take for the requests that are under way.
const pause = 300 * time.Millisecond

// Pause ends the services, whose sockets a successor has too. Requests under way get their answers.
func (s *Services) Pause() {
	s.paused = true
	var all sync.WaitGroup
	for _, one := range s.list {
		server := one.server // Resume may have made another one when this goroutine runs
		all.Go(func() { s.shut(server) })
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(pause): // for example a profile that is being taken: it goes on
	}
}

// Resume undoes Pause, with copies of the sockets.
func (s *Services) Resume(passed sockets.Passed, fail func(error)) (err error) {
	s.paused = false
	for _, one := range s.list {
		if one.ln, err = passed.Listener(one.at); err != nil {
			return err
		}
	}
	s.Start(fail)
	return nil
}

// Sockets adds copies of all sockets that the Services listen on.
func (s *Services) Sockets(all *sockets.Passed) (err error) {
	for _, one := range s.list {
		name := one.at.Name()
		err = errors.Join(err, all.Add(name, one.ln, s.g.Passed.Lent(name)))
	}
	return err
}

// Addresses returns where the ports listen.
func (s *Services) Addresses() (list []sockets.Address) {
	for _, one := range s.list {
		list = append(list, sockets.Address{Title: one.at.Title, At: one.ln.Addr()})
	}
	return list
}

// An httpServer makes an HTTP server a server.
type httpServer struct{ server httpapi.Server }

func (s httpServer) Serve(ln net.Listener) error {
	if err := s.server.Serve(s.server.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s httpServer) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		s.server.Close()
	}
	return err
}

// Figures emits the connections of the HTTP port and the gRPC port.
func (s *Services) Figures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Metric: "http_connections", Value: s.Requests.Connections.Load(),
		Help:  "Open connections of the HTTP port.",
		Worry: "above nine tenths of its limit",
	})
	emit(figure.Figure{
		Metric: "http_connections_limit", Value: s.c.HTTPConnections(s.g.MaxConnections),
		Help: "The limit of open connections of the HTTP port.",
	})
	emit(figure.Figure{
		Metric: "http_connections_refused_total", Value: s.Requests.ConnectionsRefused.Load(), Count: true,
		Help:  "Connections of the HTTP port closed for being over its limit.",
		Worry: "grows: all connections of the HTTP port are busy, and more clients came",
	})
	emit(figure.Figure{
		Metric: "http_connections_evicted_total", Value: s.Requests.ConnectionsEvicted.Load(), Count: true,
		Help: "Silent connections of the HTTP port closed at its limit to make room.",
		Worry: "dashboard only: grows: clients keep HTTP connections that they do not use; new clients " +
			"replaced them",
	})
	emit(figure.Figure{
		Metric: "grpc_connections", Value: s.Called.Connections.Load(),
		Help: "Open connections of the gRPC port, which are among the connections.",
	})
	emit(figure.Figure{
		Metric: "grpc_connections_stalled_total", Value: s.Called.Stalled.Load(), Count: true,
		Help:  "Connections of the gRPC port closed because of calls that did not end.",
		Worry: "dashboard only: grows: clients open calls and do not end them",
	})
}
