package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
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
			name == ".Sample.p99" || name == ".Store.Facts":
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
	walk("", reflect.ValueOf(d.view()))
	return lines
}

// TestPageIsServed: a running daemon shows on its page what it has issued, where it listens, and ids
// that it issued taken apart.
func TestPageIsServed(t *testing.T) {
	port := redistest.FreePort(t)
	d, address := run(t, func(c *Config) {
		c.HTTPPort, c.WorkerIDs, c.StateDir = port, []uint64{77}, t.TempDir()
		c.Counters.Dir, c.AnyDisk, c.MaxWait = c.StateDir, true, patience
		c.Generators = "orders sequence start=5; old snowflake layout=twitter; older snowflake layout=twitter; own " +
			"snowflake layout=katsubushi"
	})
	ask := func(target, accept string) (int, string) {
		t.Helper()
		r, _ := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, target), nil)
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	c := dial(t, address)
	id := get(t, c)
	for range 6 {
		get(t, c)
	}
	if status, body := ask("/id/orders", ""); status != 200 || body != "5" {
		t.Fatal(status, body)
	}
	before, _ := ask("/stats", "")
	await(t, "the page shows 8 ids", func() bool { return d.view().IDs == 8 })
	status, body := ask("/", "text/html")
	for _, want := range []string{"<!doctype html>", "8 since the start", ">77<", d.c.StateDir, address,
		fmt.Sprintf("127.0.0.1:%d", port), "orders", "sequence, free", "serving", "3.4.5"} {
		if !strings.Contains(body, want) {
			t.Errorf("status %d: the page has no %s", status, want)
		}
	}
	_, text := ask("/", "")
	if !strings.Contains(text,
		fmt.Sprintf("\nmemcached port         %s\nHTTP port              127.0.0.1:%d\n", address, port)) {
		t.Errorf("the ports are not there: %s", text)
	}
	if !strings.HasPrefix(text, "katsubushi 3.4.5: issuing ids\nworker id 77, ") {
		t.Errorf("as text: %s", text)
	}
	_, apart := ask(fmt.Sprintf("/?id=%d", id), "")
	if !strings.Contains(apart, "worker id  77 (this daemon has it now)") || !strings.Contains(apart, "layout twitter") ||
		strings.Count(apart, "sequence ") != 2 {
		t.Errorf("an id: %s", apart)
	}
	for range 3 {
		ask("/", "text/html")
	}
	if v := d.view(); v.IDs != 8 || before != 200 || v.Requests < 8 {
		t.Errorf("looking at the page issues ids: %d, %d requests", v.IDs, v.Requests)
	}
	await(t, "something is kept for the charts", func() bool {
		_, body := ask("/", "text/html")
		return strings.Contains(body, `class="line"`)
	})
}

// TestPageOfADaemonThatStops: it says so, and not that ids cannot be issued.
func TestPageOfADaemonThatStops(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		if v := d.view(); v.Stopping || v.NotReady != "" {
			t.Errorf("%+v", v)
		}
		d.stopping.Store(true)
		if v := d.view(); !v.Stopping || v.NotReady != "" {
			t.Errorf("stopping: %v %q", v.Stopping, v.NotReady)
		}
		w := httptest.NewRecorder()
		d.overHTTP().Page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if !strings.Contains(w.Body.String(), "shutting down") || strings.Contains(w.Body.String(), "katsu:bushi") {
			t.Error(w.Body.String())
		}
	})
}

// TestPageNamesTheStore: its kind, what it says of itself, and what findings need.
func TestPageNamesTheStore(t *testing.T) {
	d := &Daemon{windows: windows.New(windows.Config{}), c: testConfig()}
	if s := d.pageStore(nil); s.Kind != "none" || s.Full != 0 {
		t.Errorf("without a record: %+v", s)
	}
	d.c.StateDir = "/var/lib/k"
	if s := d.pageStore(nil); s.Kind != "state directory" || s.Where != "/var/lib/k" || s.Full != 2*time.Second ||
		s.Short != 500*time.Millisecond {
		t.Errorf("a state directory: %+v", s)
	}
	if s := d.pageStore([]page.Lane{{Left: 27 * time.Second}}); s.Full != 30*time.Second {
		t.Errorf("a state directory with memory: %+v", s)
	}
	d.c.Store.URL = "redis://h/"
	d.lease(factual{figures: func(func(figure.Figure)) workerid.Condition {
		return workerid.Condition{Server: "h:1", ClockAhead: 2, FloorWait: 3, Replicas: 4, Needed: 5}
	}})
	if s := d.pageStore(nil); s.Server != "h:1" || s.ClockOff != 2 || s.Wait != 3 || s.Replicas != 4 || s.Needed != 5 {
		t.Errorf("a server: %+v", s)
	}
}

// TestPageOfASequence: what it shows of a sequence, and of a sequence alone.
func TestPageOfASequence(t *testing.T) {
	d, _ := run(t, func(c *Config) { c.Generators = "random uuid4" })
	orders := kinds.Declared(counter.Definition{Name: "orders"})
	d.names.Catalog.Declare([]issuer.Declared{{Definition: orders, From: &judged{}}})
	got := map[string]*page.Sequence{}
	for _, n := range d.pageNames(d.clock.Now()) {
		got[n.Name] = n.Sequence
	}
	want := page.Sequence{Order: "strict", Leader: "10.0.0.9:1", Last: 3, Left: 4, DaysLeft: 5.5}
	if len(got) != 2 || got["orders"] == nil || *got["orders"] != want || got["random"] != nil {
		t.Errorf("%+v", got)
	}
}

// judged is a kind with a condition.
type judged struct{ reporting }

func (*judged) Figures(func(figure.Figure)) issuer.Condition {
	return issuer.Condition{Order: "strict", Leader: "10.0.0.9:1", Last: 3, Left: 4, DaysLeft: 5.5}
}

// TestPageShowsAlarms: each by its kind.
func TestPageShowsAlarms(t *testing.T) {
	d := &Daemon{windows: windows.New(windows.Config{})}
	var v page.View
	if d.showPeers(&v); v.Alarms != nil {
		t.Errorf("%v", v.Alarms)
	}
	d.held("peers", "checker").Set(reflect.ValueOf(new(announce.Checker)))
	alarms := at(reflect.ValueOf(d.windows.Checker()).Elem(), "alarms")
	for k := range announce.NumKinds {
		alarms.Set(reflect.Zero(alarms.Type()))
		alarms.Index(int(k)).SetString("a text")
		v = page.View{}
		if d.showPeers(&v); len(v.Alarms) != 1 || v.Alarms[0] != (page.Alarm{Kind: k.String(), Text: "a text"}) {
			t.Errorf("%v: %v", k, v.Alarms)
		}
	}
	at(reflect.ValueOf(d.windows.Checker()).Elem(), "figures").
		Set(reflect.ValueOf(announce.Figures{Peers: 3, Asked: 2, Answered: 1}))
	if d.showPeers(&v); v.Peers != 3 || v.PeersAsked != 2 || v.Told != 1 {
		t.Errorf("%+v", v)
	}
}

// TestPageShowsLatencyAndEvents: the latency of all loops; what was logged, without users and clients.
func TestPageShowsLatencyAndEvents(t *testing.T) {
	d, address := run(t, func(c *Config) { c.HTTPPort, c.Loops = redistest.FreePort(t), 2 })
	before := d.sample()
	get(t, dial(t, address))
	histograms := d.met("latency").Interface().([]latency.Histogram)
	histograms[0].Observe(3*time.Second, 40)
	histograms[1].Observe(3*time.Second, 60)
	if got := d.sample().Latency.Since(*before.Latency); got.Count() < 100 ||
		got.Quantile(0.9).Round(time.Second) != 3*time.Second {
		t.Errorf("%d answers, p90 %v", got.Count(), got.Quantile(0.9))
	}
	d.c.Log.Error("what happened", "lane", 7, "user", "ann", "peer", "10.9.8.7:6543", "error", errors.New("disk full"))
	if all := d.view().Events; !slices.ContainsFunc(all, func(e page.Event) bool { // the daemon may log something too
		return e.Level == "ERROR" && e.Text == "what happened lane=7 error=disk full" && !e.At.IsZero()
	}) {
		t.Errorf("%+v", all)
	}
	for i := range 2 * page.MaxEvents {
		d.c.Log.Info("more", "i", i)
	}
	if n := len(d.view().Events); n != page.MaxEvents {
		t.Errorf("%d events", n)
	}
}

// TestManyNamesAreReadOnceASecond: many lookers must not cost the clients of many names their time.
// Few names are always fresh.
func TestManyNamesAreReadOnceASecond(t *testing.T) {
	for _, n := range []int{fewNames, fewNames + 1} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("n%d snowflake layout=twitter", i))
		}
		lines[7] = "n7 uuid4"
		d, _ := run(t, func(c *Config) { c.Generators = strings.Join(lines, ";") })
		issue := func() {
			if _, err := d.names.Catalog.Batch(t.Context(), []byte("n7"), 1); err != nil {
				t.Fatal(err)
			}
		}
		d.view()
		if kept := !d.named.until.IsZero(); kept != (n > fewNames) || kept && time.Until(d.named.until) > time.Second {
			t.Errorf("%d names: kept until %v", n, d.named.until)
		}
		if n > fewNames {
			d.named.until = time.Now().Add(time.Hour)
			issue()
			if v := d.view(); v.Names[7].Issued != 0 || len(v.Others) != 1 {
				t.Errorf("%d issued, %d layouts: they were read again", v.Names[7].Issued, len(v.Others))
			}
			d.named.until = time.Now().Add(-time.Millisecond)
		} else {
			issue()
		}
		if v := d.view(); v.Names[7].Issued != 1 || len(v.Names) != n || len(v.Others) != 1 {
			t.Errorf("%d of %d names, %d issued, %d layouts", len(v.Names), n, v.Names[7].Issued, len(v.Others))
		}
	}
}

// TestOtherLayouts: those of names, each once, and not the daemon's own.
func TestOtherLayouts(t *testing.T) {
	d, _ := run(t, func(c *Config) {
		c.Generators = "a snowflake layout=twitter; b snowflake layout=twitter; c snowflake layout=katsubushi; d uuid7; e " +
			"snowflake layout=sonyflake"
	})
	var names []string
	for _, l := range d.otherLayouts() {
		names = append(names, l.Name)
	}
	if !slices.Equal(names, []string{"twitter", "sonyflake"}) || d.c.Layout != generator.Katsubushi() {
		t.Errorf("%v", names)
	}
}

// TestManyLanesAreOneEvent: what happens to 64 lanes at once is a line, and hides nothing that was before.
func TestManyLanesAreOneEvent(t *testing.T) {
	var list []events.Event // the newest first
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	event := func(text string, ago time.Duration, attrs ...slog.Attr) {
		list = append(list, events.Event{At: now.Add(-ago), Text: text, Attrs: attrs})
	}
	for lane := range 64 {
		at := time.Duration(lane) * 10 * time.Millisecond
		number, worker := slog.Int("lane", 63-lane), slog.Uint64("worker_id", uint64(100-lane))
		event("lease", at, number, slog.String("state", "serving"), worker)
		event("lease", at, number, slog.String("state", "acquiring"))
	}
	event("lease", time.Hour, slog.Int("lane", 7), slog.String("state", "serving"), slog.Uint64("worker_id", 44))
	event("users", 2*time.Hour, slog.Int("count", 3), slog.String("lane", "x"))
	event("users", 2*time.Hour, slog.Int("count", 3), slog.String("lane", "x"))
	var got []string
	for _, e := range pageEvents(list) {
		got = append(got, e.Text)
	}
	want := []string{
		"lease lane=0–63 state=serving worker_id=37–100", "lease lane=0–63 state=acquiring",
		"lease lane=7 state=serving worker_id=44", "users count=3 lane=x", "users count=3 lane=x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAFailedReloadIsShown: until one succeeds.
func TestAFailedReloadIsShown(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth")
	write := func(text string) {
		if err := os.WriteFile(auth, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("katsu:bushi\n")
	d, _ := run(t, func(c *Config) { c.AuthFile = auth })
	for _, c := range []struct {
		text  string
		wrong bool
	}{{"no colon\n", true}, {"katsu:other\n", false}} {
		write(c.text)
		d.Reload()
		if got := d.view().NotReloaded; (len(got) > 0) != c.wrong || c.wrong && !strings.HasPrefix(got[0], "users: ") {
			t.Errorf("after a reload of %q the page shows %q", c.text, got)
		}
	}
}

// TestAnEndedSequenceIsShown: it issues nothing any more, and its refusals count.
func TestAnEndedSequenceIsShown(t *testing.T) {
	d, _ := run(t, func(c *Config) {
		c.StateDir, c.AnyDisk, c.MaxWait = t.TempDir(), true, patience
		c.Counters.Dir, c.Generators = c.StateDir, "few sequence max=3; many sequence"
	})
	for range 3 {
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("few"), 1); err != nil {
			t.Fatal(err)
		}
	}
	before := d.sample().Troubles[page.NamesRefused]
	for range 16 {
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("few"), 1); err == nil {
			t.Fatal("a fourth value of three")
		}
	}
	if n := d.sample().Troubles[page.NamesRefused] - before; n != 16 {
		t.Errorf("%d refusals are shown of 16", n)
	}
	for _, n := range d.view().Names {
		ended := n.Name == "few"
		if n.Over != ended || ended != strings.Contains(n.Refusal, "has ended at 3") {
			t.Errorf("%+v", n)
		}
	}
	d.names.Metrics(d.clock.Now(), func(f figure.Figure) {
		if f.Metric == "generator_ready" && f.Value != (f.Labels[1] == "many") {
			t.Errorf("/metrics says of %s: ready %v", f.Labels[1], f.Value)
		}
	})
	stats := map[string]any{}
	d.names.Stats(d.clock.Now(), func(f figure.Figure) { stats[f.Stat] = f.Value })
	if stats["few:ready"] != false || stats["few:not_ready_reason"] != "sequence few has ended at 3" ||
		stats["many:ready"] != true {
		t.Errorf("stats: %v", stats)
	}
	if err := d.ready(); err != nil {
		t.Error("an ended sequence is no reason to use another daemon:", err)
	}
}
