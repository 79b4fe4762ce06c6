package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
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

// startServices serves all services in background, in the order of the table of listeners. It calls
// fail when one ends by itself.
func (d *Daemon) startServices(background *sync.WaitGroup, fail func(error)) {
	for _, s := range d.services {
		name := strings.ToLower(s.name)
		d.c.Log.Info(name+" listening", "address", s.ln.Addr().String())
		background.Go(func() {
			if err := s.Serve(s.ln); err != nil {
				fail(fmt.Errorf("%s server: %w", name, err))
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
