package windows

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// TestAnAlarmHasItsOwnFigure: of its kind, in the statistics and the metrics.
func TestAnAlarmHasItsOwnFigure(t *testing.T) {
	for kind := range announce.NumKinds {
		h := New(fixed(new(said)))
		h.keeper = h.newKeeper()
		h.peers.checker = new(announce.Checker)
		alarms := reflect.ValueOf(h.peers.checker).Elem().FieldByName("alarms")
		alarms = reflect.NewAt(alarms.Type(), alarms.Addr().UnsafePointer()).Elem()
		alarms.Index(int(kind)).SetString("a text")
		var on []string
		h.peerFigures(func(f figure.Figure) {
			if f.Number() == 1 {
				on = append(on, f.Stat, f.Metric+strings.Join(f.Labels, "="))
			}
		})
		if want := []string{"peers_alarm_" + kind.String(), "peers_alarmkind=" + kind.String()}; !slices.Equal(on, want) {
			t.Errorf("%v: %v", kind, on)
		}
		if got := h.Notes(); !slices.Contains(got, "a text") {
			t.Errorf("%v: notes %q", kind, got)
		}
	}
	New(fixed(new(said))).peerFigures(func(f figure.Figure) { t.Errorf("without peers there is %+v", f) })
}

// TestAnAskerHasTheIDClock: peers' clocks are compared with it.
func TestAnAskerHasTheIDClock(t *testing.T) {
	c := announcing(new(said), &fake{})
	c.Peers.Ask = announce.Asker{Now: nil, Secret: true}
	h := New(c)
	defer h.Stop(true)
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	if h.peers.checker.Ask == nil || h.c.Peers.Ask.Now != nil {
		t.Error("it asks nobody, or the settings have changed")
	}
}
