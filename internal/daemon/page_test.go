package daemon

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// troubles are the names of page.Trouble, in its order, for testdata/page.golden.
var troubles = [page.NumTroubles]string{
	page.NoWorkerID: "NoWorkerID", page.LeaseExpired: "LeaseExpired", page.ClockBehind: "ClockBehind",
	page.RateExceeded: "RateExceeded",
	page.TimeFieldEnd: "TimeFieldEnd", page.NamesRefused: "NamesRefused",
	page.ConnectionsRefused: "ConnectionsRefused", page.HTTPRefused: "HTTPRefused", page.MemoryClosed: "MemoryClosed",
	page.AcceptErrors: "AcceptErrors", page.LogDropped: "LogDropped", page.LoginErrors: "LoginErrors",
	page.StoreFailed: "StoreFailed",
	page.StoreLost:   "StoreLost", page.ClockStepped: "ClockStepped", page.AnnounceErrors: "AnnounceErrors",
}

// pageLines returns what the status page shows, each field of its view in a line. Durations are in ns.
func (d *Daemon) pageLines() (lines []string) {
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		switch {
		case slices.Contains([]string{".Host", ".Engine", ".Events"}, name) || name == ".Sample.Latency" ||
			name == ".Sample.p99" || name == ".Sample.Process" || name == ".Store.Facts":
		case v.Type() == reflect.TypeFor[time.Time]():
			lines = append(lines, name+" "+v.Interface().(time.Time).UTC().Format(time.DateTime))
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.Type() == reflect.TypeFor[[page.NumTroubles]uint64]():
			for i, t := range troubles {
				lines = append(lines, fmt.Sprintf("%s.%s %d", name, t, v.Index(i).Uint()))
			}
		case v.Kind() == reflect.Slice:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", name, i), v.Index(i))
			}
		case v.Kind() == reflect.Pointer:
			if !v.IsNil() {
				walk(name, v.Elem())
			}
		case v.CanInt(): // without String
			lines = append(lines, fmt.Sprintf("%s %d", name, v.Int()))
		default:
			lines = append(lines, fmt.Sprintf("%s %v", name, v.Interface()))
		}
	}
	walk("", reflect.ValueOf(d.observer.View()))
	return lines
}

// TestPageShowsLatencyAndEvents: the latency of all loops; what was logged, without users and clients.
func TestPageShowsLatencyAndEvents(t *testing.T) {
	d, address := run(t, func(c *Config) { c.HTTPPort, c.Loops = redistest.FreePort(t), 2 })
	before := d.observer.Sample()
	get(t, dial(t, address))
	histograms := d.met("latency").Interface().([]latency.Histogram)
	histograms[0].Observe(3*time.Second, 40)
	histograms[1].Observe(3*time.Second, 60)
	if got := d.observer.Sample().Latency.Since(*before.Latency); got.Count() < 100 ||
		got.Quantile(0.9).Round(time.Second) != 3*time.Second {
		t.Errorf("%d answers, p90 %v", got.Count(), got.Quantile(0.9))
	}
	for i := range 2 * page.MaxEvents {
		d.c.Log.Info("more", "i", i)
	}
	if n := len(d.observer.View().Events); n != page.MaxEvents {
		t.Errorf("%d events", n)
	}
}
