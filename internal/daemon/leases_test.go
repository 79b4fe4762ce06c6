package daemon

import (
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// factual is a store of which something is known.
type factual struct {
	workerid.Backend
	facts []workerid.Fact
}

func (f factual) Facts() []workerid.Fact { return f.facts }

// Of a store's facts, /readyz and the statistics show all, the metrics all but texts that change too
// often.
func TestWhatIsKnownOfAStoreIsShown(t *testing.T) {
	facts := []workerid.Fact{
		{Name: "etcd", Help: "Where.",
			Value: []workerid.Text{{Name: "servers", Label: "address", Value: "h:1"}, {Name: "error", Value: "no answer"}}},
		{Name: "etcd_floor", Help: "Floor.", Value: 1500 * time.Millisecond},
		{Name: "etcd_epoch", Help: "Epoch.", Value: 7},
		{Name: "etcd_error", Value: []workerid.Text{{Name: "last", Value: "no answer"}}},
	}
	d := &Daemon{tenure: tenure{store: factual{facts: facts}}}
	if got, want := d.storeFacts(),
		[]string{"etcd_servers h:1", "etcd_error no answer", "etcd_floor 1.5s", "etcd_epoch 7",
			"etcd_error_last no answer"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	d.store = factual{}
	if got := d.storeFacts(); got != nil {
		t.Errorf("%q of nothing", got)
	}
	want := []metrics.Gauge{
		{Name: "etcd_info", Help: "Where.", Value: 1, Labels: []string{"address", "h:1"}},
		{Name: "etcd_floor_seconds", Help: "Floor.", Value: 1.5},
		{Name: "etcd_epoch", Help: "Epoch.", Value: 7},
	}
	if got := gauges(facts); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestReadyzNamesLanesThatDoNotServe: also while others issue ids.
func TestReadyzNamesLanesThatDoNotServe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		w := httptest.NewRecorder()
		httpapi.NewServer(d.httpConfig()).Handler.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if want := "ready\nlane 2: acquiring for 5s: no worker id is free\n"; w.Code != 200 || w.Body.String() != want {
			t.Errorf("%d\n%s\nwant 200\n%s", w.Code, w.Body, want)
		}
	})
}
