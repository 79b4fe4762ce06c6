package daemon

import (
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestClientsLearnOfAStopBeforeThePortCloses: the store has that the daemon is not ready before the
// port closes, the announcement ends after the last id, and the session after that.
func TestClientsLearnOfAStopBeforeThePortCloses(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d, stop := figuresDaemon(t, t.TempDir())
			defer stop()
			d.c.ShutdownDelay = delay
			var order []string
			store := slow{granted{d.windows.Clock.Now}, &order}
			d.lease(store)
			d.held("started").SetBool(true)
			d.held("peers", "announcer").Set(reflect.ValueOf(announce.NewAnnouncer(announce.AnnouncerConfig{
				Directory: store, State: func() (a announcement.Announcement) { return a }, Now: d.windows.Clock.Now, Log: d.c.Log,
			})))
			began := time.Now()
			d.front.Start(nil)
			closes := context.CancelFunc(func() { order = append(order, "the port closes") })
			at(reflect.ValueOf(d.front).Elem(), "stop").Set(reflect.ValueOf(closes))
			sealed := context.CancelFunc(func() { order = append(order, "sealed") })
			at(reflect.ValueOf(d.observer).Elem(), "endKeeping").Set(reflect.ValueOf(sealed))
			var stopping atomic.Bool
			time.AfterFunc(delay/2, func() { stopping.Store(d.observer.View().Stopping) })
			d.stop(false)
			if delay > 0 && !stopping.Load() {
				t.Error("during the delay load balancers are told that it is ready")
			}
			want := "not ready, the port closes, sealed, deleted, session ends"
			if got := strings.Join(order, ", "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if took := time.Since(began); took > delay+2*time.Second {
				t.Errorf("stopping took %v", took)
			}
		})
	}
}

// slow is a store whose calls take half a second.
type slow struct {
	granted
	order *[]string
}

func (slow) Peers(context.Context) (map[string]string, error)   { return nil, nil }
func (slow) Figures(func(figure.Figure)) (c workerid.Condition) { return c }

func (s slow) Announce(_ context.Context, _, text string) error {
	time.Sleep(500 * time.Millisecond)
	a, err := announcement.Parse(text)
	switch {
	case text == "":
		*s.order = append(*s.order, "deleted")
	case err == nil && !a.Ready:
		*s.order = append(*s.order, "not ready")
	default:
		*s.order = append(*s.order, text)
	}
	return nil
}

func (s slow) Close() error {
	*s.order = append(*s.order, "session ends")
	return nil
}
