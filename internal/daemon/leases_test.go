package daemon

import (
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// factual is a store of which something is known.
type factual struct {
	workerid.Backend
	figures func(emit func(figure.Figure)) workerid.Condition
}

func (f factual) Figures(emit func(figure.Figure)) workerid.Condition { return f.figures(emit) }

// lease makes a store the daemon's.
func (d *Daemon) lease(store workerid.Backend) { d.held("store").Set(reflect.ValueOf(store)) }

// TestReadyzShowsTheStore: all that is known of it, as people read it.
func TestReadyzShowsTheStore(t *testing.T) {
	d := &Daemon{windows: windows.New(windows.Config{})}
	d.lease(factual{figures: func(emit func(figure.Figure)) (c workerid.Condition) {
		figure.Info(emit, "lease_etcd", "Where.", "", "servers", "address", "h:1", "error", "error", "")
		emit(figure.Figure{Stat: "lease_etcd_floor_ms", Value: 1500 * time.Millisecond})
		emit(figure.Figure{Stat: "lease_etcd_epoch", Value: 7})
		return c
	}})
	want := []string{"etcd_servers h:1", "etcd_error ", "etcd_floor 1.5s", "etcd_epoch 7"}
	if got := d.storeFacts(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReadyzNamesLanesThatDoNotServe: also while others issue ids.
func TestReadyzNamesLanesThatDoNotServe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		w := httptest.NewRecorder()
		httpapi.NewServer(d.overHTTP()).Handler.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if want := "ready\nlane 2: acquiring for 5s: no worker id is free\n"; w.Code != 200 || w.Body.String() != want {
			t.Errorf("%d\n%s\nwant 200\n%s", w.Code, w.Body, want)
		}
	})
}
