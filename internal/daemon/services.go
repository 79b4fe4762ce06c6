package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
)

// A service answers clients of one listener, beside the engine's ports. It runs from the start,
// before any id can be issued, to the very end; one that drains ends with the engine's ports.
type service interface {
	// Serve returns nil after Shutdown, otherwise the error that ended it. It closes the listener.
	Serve(net.Listener) error
	Shutdown(ctx context.Context) error // answers what is under way; cuts it off when ctx ends
}

// A listedService is one of a daemon's services, with its listener.
type listedService struct {
	service
	name   string
	ln     net.Listener
	drains bool
	line   *listener
}

// openServices opens the services' listeners.
func (d *Daemon) openServices() error {
	for i := range d.services {
		s := &d.services[i]
		err := d.binder.Bind(context.Background(), func() (err error) {
			s.ln, err = d.c.Inherited.Passed().Listener(s.line.place(&d.c))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// startServices serves all services in the background, in the order of the table of listeners. Run ends when
// one ends by itself.
func (d *Daemon) startServices() {
	for _, s := range d.services {
		name := strings.ToLower(s.name)
		d.c.Log.Info(name+" listening", "address", s.ln.Addr().String())
		d.background.Go(func() {
			if err := s.Serve(s.ln); err != nil {
				d.fail(fmt.Errorf("%s server: %w", name, err))
			}
		})
	}
}

// stopServices stops the services that drain, or all others, each within DrainTimeout.
func (d *Daemon) stopServices(drain bool) {
	for _, s := range d.services {
		if s.drains != drain {
			continue
		}
		d.shut(s)
	}
}

// shut stops a service within DrainTimeout.
func (d *Daemon) shut(s listedService) {
	ctx, cancel := context.WithTimeout(context.Background(), d.c.DrainTimeout)
	defer cancel()
	s.Shutdown(ctx)
}

// allSockets returns copies of all sockets that this process listens on.
func (d *Daemon) allSockets() (sockets.Passed, error) {
	all, err := d.front.Sockets()
	for _, s := range d.services {
		name := s.line.place(&d.c).Name()
		err = errors.Join(err, all.Add(name, s.ln, d.c.Inherited.Passed().Lent(name)))
	}
	return all, err
}

// servicePause is how long the services may take for the requests that are under way.
const servicePause = 300 * time.Millisecond

// pauseServices ends the services and the UDP port; requests under way get their answers.
func (d *Daemon) pauseServices() {
	var all sync.WaitGroup
	for _, s := range d.services {
		all.Go(func() { d.shut(s) })
	}
	d.front.PauseUDP()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(servicePause): // for example a profile that is being taken: it goes on
	}
}

// restartServices serves the services' sockets and the UDP port again.
func (d *Daemon) restartServices(passed sockets.Passed) error {
	var again []listedService
	for _, s := range d.services {
		ln, err := passed.Listener(s.line.place(&d.c))
		if err != nil {
			return err
		}
		again = append(again, listedService{service: s.line.service(d), name: s.name, ln: ln, drains: s.drains, line: s.line})
	}
	d.services = again
	d.startServices()
	return d.front.ResumeUDP(passed, d.fail)
}

// dropServices closes the listeners of services that will never start.
func (d *Daemon) dropServices() {
	for _, s := range d.services {
		if s.ln != nil {
			s.ln.Close()
		}
	}
}

// An httpService makes an HTTP server a service.
type httpService struct{ server httpapi.Server }

func (s httpService) Serve(ln net.Listener) error {
	if err := s.server.Serve(s.server.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s httpService) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		s.server.Close()
	}
	return err
}
