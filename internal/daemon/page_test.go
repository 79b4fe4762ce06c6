package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
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

// TestPageIsServed: a running daemon shows on its page what it has issued, where it listens, and ids
// that it issued taken apart.
func TestPageIsServed(t *testing.T) {
	port := redistest.FreePort(t)
	d, address := run(t, func(c *Config) {
		c.HTTPPort, c.WorkerIDs, c.StateDir = port, []uint64{77}, t.TempDir()
		c.Counters.Dir, c.AnyDisk, c.MaxWait = c.StateDir, true, patience
		c.Definitions = "orders sequence start=5; old snowflake layout=twitter; older snowflake layout=twitter; own " +
			"snowflake layout=katsubushi"
	})
	ask := func(target, accept string) (int, string) {
		t.Helper()
		r, _ := http.NewRequest("GET", fmt.Sprintf("http://127.0.0.1:%d%s", port, target), nil)
		r.Header.Set("Accept", accept)
		return answer(t, r)
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
	await(t, "the page shows 8 ids", func() bool { return d.observer.View().IDs == 8 })
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
	if here := "\n127.0.0.1 "; runtime.GOOS == "linux" && !strings.Contains(text, here) {
		t.Errorf("the clients are not there: %s", text)
	}
	_, apart := ask(fmt.Sprintf("/?id=%d", id), "")
	if !strings.Contains(apart, "worker id  77 (this daemon has it now)") || !strings.Contains(apart, "layout twitter") ||
		strings.Count(apart, "sequence ") != 2 {
		t.Errorf("an id: %s", apart)
	}
	for range 3 {
		ask("/", "text/html")
	}
	if v := d.observer.View(); v.IDs != 8 || before != 200 || v.Requests < 8 {
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
		if v := d.observer.View(); v.Stopping || v.NotReady != "" {
			t.Errorf("%+v", v)
		}
		d.observer.Leave()
		if v := d.observer.View(); !v.Stopping || v.NotReady != "" {
			t.Errorf("stopping: %v %q", v.Stopping, v.NotReady)
		}
		w := httptest.NewRecorder()
		d.overHTTP().Page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if !strings.Contains(w.Body.String(), "shutting down") || strings.Contains(w.Body.String(), "katsu:bushi") {
			t.Error(w.Body.String())
		}
	})
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
	d.c.Log.Error("what happened", "lane", 7, "user", "ann", "peer", "10.9.8.7:6543", "error", errors.New("disk full"))
	all := d.observer.View().Events // the daemon may log something too
	if !slices.ContainsFunc(all, func(e page.Event) bool {
		return e.Level == "ERROR" && e.Text == "what happened lane=7 error=disk full" && !e.At.IsZero()
	}) {
		t.Errorf("%+v", all)
	}
	for i := range 2 * page.MaxEvents {
		d.c.Log.Info("more", "i", i)
	}
	if n := len(d.observer.View().Events); n != page.MaxEvents {
		t.Errorf("%d events", n)
	}
}

// TestAFailedReloadIsShown: until one succeeds, or until the users can be read.
func TestAFailedReloadIsShown(t *testing.T) {
	auth, names := filepath.Join(t.TempDir(), "auth"), filepath.Join(t.TempDir(), "names")
	write := func(users, definitions string) {
		if err := errors.Join(os.WriteFile(auth, []byte(users), 0o600),
			os.WriteFile(names, []byte(definitions), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("katsu:bushi\n", "a uuid7\n")
	d, _ := run(t, func(c *Config) { c.AuthFile, c.DefinitionsFile = auth, names })
	for _, c := range []struct{ users, names, wrong string }{
		{"no colon\n", "a uuid7\n", "users: "}, {"katsu:other\n", "a ulid\n", "names: "}, {"katsu:other\n", "b ulid\n", ""},
	} {
		write(c.users, c.names)
		d.Reload()
		got := d.observer.View().NotReloaded
		if (len(got) > 0) != (c.wrong != "") || len(got) > 0 && !strings.HasPrefix(got[0], c.wrong) {
			t.Errorf("after a reload of %q and %q the page shows %q", c.users, c.names, got)
		}
	}
	if !d.names.Catalog.Declares([]byte("b")) {
		t.Error("a name that is new is not served")
	}
	for _, users := range []string{"no colon\n", "katsu:bushi\n"} { // which are read without a reload
		write(users, "b ulid\n")
		await(t, fmt.Sprintf("the page shows users %q", users), func() bool {
			return (d.observer.View().NotReloaded == nil) == strings.Contains(users, ":")
		})
	}
}

// TestAnEndedSequenceIsShown: it issues nothing any more, and its refusals count.
func TestAnEndedSequenceIsShown(t *testing.T) {
	d, _ := run(t, func(c *Config) {
		c.StateDir, c.AnyDisk, c.MaxWait = t.TempDir(), true, patience
		c.Counters.Dir, c.Definitions = c.StateDir, "few sequence max=3; many sequence"
	})
	for range 3 {
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("few"), 1); err != nil {
			t.Fatal(err)
		}
	}
	before := d.observer.Sample().Troubles[page.NamesRefused]
	for range 16 {
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("few"), 1); err == nil {
			t.Fatal("a fourth value of three")
		}
	}
	if n := d.observer.Sample().Troubles[page.NamesRefused] - before; n != 16 {
		t.Errorf("%d refusals are shown of 16", n)
	}
	for _, n := range d.observer.View().Names {
		ended := n.Name == "few"
		if n.Over != ended || ended != strings.Contains(n.Refusal, "has ended at 3") {
			t.Errorf("%+v", n)
		}
	}
	d.names.Catalog.Metrics(d.windows.Clock.Now(), false, func(f figure.Figure) {
		if f.Metric == "generator_ready" && f.Value != (f.Labels[1] == "many") {
			t.Errorf("/metrics says of %s: ready %v", f.Labels[1], f.Value)
		}
	})
	stats := map[string]any{}
	d.names.Catalog.Stats(d.windows.Clock.Now(), func(f figure.Figure) { stats[f.Stat] = f.Value })
	if stats["few:ready"] != false || stats["few:not_ready_reason"] != "sequence few has ended at 3" ||
		stats["many:ready"] != true {
		t.Errorf("stats: %v", stats)
	}
	if err := d.observer.Ready(); err != nil {
		t.Error("an ended sequence is no reason to use another daemon:", err)
	}
}
