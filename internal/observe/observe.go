// Package observe is the room of what operators see of a daemon: its statistics and metrics, its page, whether it is
// ready, and what it does now. It asks the other rooms, and none of them asks it.
//
// The life of an Observer: New makes it, for those who are handed its methods before there is anything to see. Watch
// hands it the rooms; from then on it answers. Start keeps what the page's charts show. Leave says that the daemon is
// about to stop, so it is ready no more. Stop ends the charts; the Observer answers as before.
//
// What it reads are plain atomics and copies: nobody who issues ids waits for those who look.
package observe

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clients"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/internal/names"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/services"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
)

// Config is what an Observer shows of settings, which it only reads, and what is kept of the log. It has no Validate:
// each of its settings belongs to another room, which judges it.
type Config struct {
	Version   string
	Advertise string // see daemon.Config
	Started   time.Time
	Log       *slog.Logger
	Events    *events.Log // what Log keeps
	// LogDropped returns how many lines Log has lost so far; nil = it loses none.
	LogDropped func() uint64

	Windows  *windows.Config
	Store    stores.Settings // where worker ids are leased; without a URL they are fixed
	Front    *front.Config
	Services *services.Config
}

// Rooms are those that an Observer asks.
type Rooms struct {
	Windows  *windows.Holder
	Names    *names.Names
	Front    *front.Front
	Services *services.Services
}

// An Observer says what a daemon does. Any goroutine may call its methods, but those of its life only one after the
// other.
type Observer struct {
	c        Config
	windows  *windows.Holder
	names    *names.Names
	front    *front.Front
	services *services.Services

	stopping    atomic.Bool
	history     page.History // what the status page's charts show
	named       shownNames   // what it shows of names
	counted     page.NameHistory
	notReloaded notReloaded
	watched     clients.Watch

	keeping    context.Context // ends with Stop
	endKeeping context.CancelFunc
	background sync.WaitGroup // what Stop waits for
}

// New makes an Observer, which answers from when Watch has returned.
func New(c Config) *Observer {
	o := &Observer{c: c}
	o.keeping, o.endKeeping = context.WithCancel(context.Background())
	return o
}

// Watch says whom to ask.
func (o *Observer) Watch(r Rooms) {
	o.windows, o.names, o.front, o.services = r.Windows, r.Names, r.Front, r.Services
}

// Start takes samples for the charts and of the names every few seconds, if there is a port that shows them.
func (o *Observer) Start() {
	if o.services.Serves("http-port") {
		o.background.Go(func() { o.history.Run(o.keeping, o.windows.Clock.Next, o.Sample) })
		o.background.Go(func() { o.counted.Run(o.keeping, o.windows.Clock.Next, o.nameCounts) })
	}
}

// Leave makes the daemon not ready, for good: it is about to stop.
func (o *Observer) Leave() { o.stopping.Store(true) }

// Stop ends what Start began.
func (o *Observer) Stop() {
	o.endKeeping()
	o.background.Wait()
}

// Reloaded says how a reload of something has ended; nil = it is in force. The page shows what is not.
func (o *Observer) Reloaded(what string, err error) {
	for _, p := range problem.Of(err) {
		o.c.Log.Error("not reloaded, the old one stays in force", "what", what, "error", p)
	}
	if o.notReloaded.note(what, err); err == nil {
		o.c.Log.Info("reloaded", "what", what)
	}
}

// Page is the status page.
func (o *Observer) Page() http.Handler {
	return page.Handler(page.Config{Read: o.View, History: &o.history, Fleet: o.Fleet,
		Clients: o.clients})
}

// Runbook is what the page's findings link to.
func (o *Observer) Runbook() http.Handler { return page.Runbook() }

// Metrics answers with the figures, for Prometheus.
func (o *Observer) Metrics() http.Handler { return metrics.Handler(o.c.Started, o.Figures) }
