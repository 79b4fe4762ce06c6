package daemon

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden with what is shown now")

// TestFigures compares every figure that operators see with testdata/*.golden. It finds every
// counter of the daemon by reflection, raises them one by one, and checks which lines change. So
// the golden files show after each line which counter it comes from, and a figure that is swapped,
// scaled wrongly or forgotten shows up as a difference. After a change, -update writes the files
// again; read the diff.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		sources := d.figureSources(t)
		seen := map[string]bool{}
		for _, view := range []struct {
			name string
			show func() []string
		}{
			{"stats", func() []string { return d.statLines("") }},
			{"stats-json", d.jsonLines},
			{"stats-lanes", func() []string { return d.statLines("lanes") }},
			{"stats-leases", func() []string { return d.statLines("leases") }},
			{"stats-generators", func() []string { return d.statLines("generators") }},
			{"stats-settings", func() []string { return d.statLines("settings") }},
			{"stats-slabs", func() []string { return d.statLines("slabs") }},
			{"stats-items", func() []string { return d.statLines("items") }},
			{"metrics", d.metricLines},
			{"page", d.pageLines},
		} {
			compare(t, view.name, explain(t, view.show, sources, seen))
		}
		// kayac's exporters, and others, treat every line as a number except those that memcached has as text
		d.observer.Stats(nil, func(name, value string) {
			if _, err := strconv.ParseFloat(value, 64); err != nil && name != "version" {
				t.Errorf("%s %s is no number", name, value)
			}
		})
		d.fitsARegistry(t)
		d.observer.Leave()
		compare(t, "stats-lanes-stopping", d.statLines("lanes"))
		for _, s := range sources {
			if !seen[s.name] {
				t.Errorf("%s is shown nowhere", s.name)
			}
		}
	})
}

// granted is a store with known windows: worker id 5 for 61 s, worker id 9 without end, and no
// others.
type granted struct{ now func() int64 }

func (g granted) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	grant := workerid.Grant{Worker: want.Min, Owner: want.Owner, Lo: g.now(), Hi: g.now() + 61000}
	switch want.Min {
	case 5:
		return grant, nil
	case 9:
		grant.Hi = workerid.Forever
		return grant, nil
	}
	return workerid.Grant{}, workerid.ErrNoID
}

func (granted) Extend(context.Context, []workerid.Grant) ([]workerid.Result, error) { return nil, nil }
func (granted) Release(context.Context, workerid.Grant, int64) error                { return nil }

// figuresDaemon makes a daemon that has run for a few seconds, with lanes of all kinds. No two
// settings are equal.
func figuresDaemon(t *testing.T, dir string) (*Daemon, func()) {
	// a synctest bubble starts before the layout's epoch
	time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
	cert, auth := filepath.Join(dir, "cert"), filepath.Join(dir, "auth")
	if _, err := selfsigned.Write(cert, cert+".key", 1); err != nil {
		t.Fatal(err)
	}
	tempfile.Write(t, auth, "katsu:bushi\n")
	d, err := New(t.Context(), Config{
		Version: "3.4.5", Log: slog.New(slog.DiscardHandler),
		Store: stores.Settings{
			URL:   "redis://127.0.0.1:1/?ns=figures",
			Terms: workerid.Terms{Min: 5, Max: 700, Lease: time.Hour, MaxSkew: 2 * time.Second},
		},
		Windows: Windows{Lanes: 3, Layout: generator.Katsubushi(), MaxRunAhead: 1100 * time.Millisecond},
		Front: Front{
			Bind: "127.0.0.1", SockMode: 0o751, TLSCert: cert, TLSKey: cert + ".key", AuthFile: auth,
			Engine: "auto", Loops: 2, MaxConnections: 1234, MaxBufferMemory: 123 << 20, IdleTimeout: 77 * time.Second,
		},
		Names: Names{Definitions: "{u}:7 uuid7; random uuid4"},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.c.Port, d.c.HTTPPort, d.c.UDPPort, d.c.GRPCPort = 11213, 8083, 11214, 11215 // they are not opened
	d.held("keeper").Set(reflect.ValueOf(workerid.NewKeeper(workerid.Config{
		Store: granted{d.windows.Clock.Now}, Lanes: d.windows.Issuer,
		Requests: []workerid.Request{{Min: 5, Max: 5}, {Min: 9, Max: 9}, {Min: 3, Max: 3}},
		Now:      d.windows.Clock.Now, RunAhead: d.c.MaxRunAhead, Heartbeat: 30 * time.Minute, Log: d.c.Log,
	})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.held("keeper").Interface().(*workerid.Keeper).Run(ctx)
	}()
	synctest.Wait()
	time.Sleep(3500 * time.Millisecond)
	synctest.Wait()
	if _, err := d.names.Catalog.Batch(t.Context(), nil, 1); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1700 * time.Millisecond)
	synctest.Wait()
	at(d.held("store").Elem().Elem(), "status").Set(reflect.ValueOf(redis.Status{
		Addr: "10.0.0.5:6379", Incarnation: "aa:bb", Ahead: 21 * time.Millisecond, Needed: 8, Replicas: 6,
	}))
	keeper := d.held("keeper").Elem()
	mu := at(keeper, "mu").Addr().Interface().(sync.Locker) // the keeper goes on: callers let time pass
	mu.Lock()
	at(keeper, "counts").Set(reflect.ValueOf(workerid.Counts{LastExtended: time.Now().Add(-1300 * time.Millisecond)}))
	mu.Unlock()
	d.held("peers", "announcer").Set(reflect.ValueOf(announce.NewAnnouncer(announce.AnnouncerConfig{})))
	d.held("peers", "checker").Set(reflect.ValueOf(new(announce.Checker)))
	waiting := d.met("logins").Elem()
	waiting = at(at(waiting, "verifier").Elem(), "pending")
	waiting.SetMapIndex(reflect.Zero(waiting.Type().Key()), reflect.Zero(waiting.Type().Elem()))
	return d, func() {
		cancel()
		<-ended
		d.windows.Stop(true)
	}
}

// reporting is a kind with figures of its own.
type reporting struct {
	issued, waits atomic.Uint64
	left          atomic.Int64
	rate          time.Duration
}

func (*reporting) Source(int) id.Source { return nil }
func (*reporting) Ready(int64) error    { return errors.New("no block for 1.0s: disk full") }
func (r *reporting) Issued() uint64     { return r.issued.Load() }
func (*reporting) Refused() uint64      { return 0 }

func (r *reporting) Figures(emit func(figure.Figure)) issuer.Condition {
	c := issuer.Condition{Order: "strict", Left: r.left.Load(), DaysLeft: 1e6}
	for _, f := range []figure.Figure{
		{Stat: "order", Value: c.Order},
		{Stat: "left", Metric: "generator_left", Help: "Values left.", Value: c.Left},
		{Stat: "waits", Metric: "generator_waits_total", Help: "Requests that waited.", Value: r.waits.Load(), Count: true},
		{Stat: "days_left", Value: c.DaysLeft},
		{Metric: "generator_time_left_seconds", Help: "Days left.", Value: c.DaysLeft * 86400},
		{Stat: "rate", Metric: "generator_rate", Help: "Values a second.", Value: r.rate.Seconds()},
	} {
		emit(f)
	}
	return c
}

// held returns a nested field of what has the worker ids.
func (d *Daemon) held(path ...string) reflect.Value {
	return at(reflect.ValueOf(d.windows).Elem(), path...)
}

// lease makes a store the daemon's.
func (d *Daemon) lease(store workerid.Backend) { d.held("store").Set(reflect.ValueOf(store)) }

// at returns a nested field, even one that another package does not export.
func at(v reflect.Value, path ...string) reflect.Value {
	for _, name := range path {
		v = open(v.FieldByName(name))
	}
	return v
}

func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// met returns a field of what clients meet.
func (d *Daemon) met(path ...string) reflect.Value {
	return at(reflect.ValueOf(d.front).Elem(), path...)
}

// overHTTP returns what the HTTP port answers with. Its metrics are fresh: they are kept for readers of one moment.
func (d *Daemon) overHTTP() httpapi.Config {
	c := at(reflect.ValueOf(d.services).Elem(), "g", "HTTP").Interface().(httpapi.Config)
	c.Metrics = d.observer.Metrics()
	return c
}

// A source is one counter of the daemon.
type source struct {
	name string
	add  func(n int64)
}

// figureSources finds all counters. Of counters that every loop has, it takes the last loop's.
func (d *Daemon) figureSources(t *testing.T) []source {
	var list []source
	find := func(name string, v reflect.Value, index func(i int) string) {
		list = append(list, countersOf(name, v, index)...)
	}
	find("connections", reflect.ValueOf(&d.front.Connections).Elem(), nil)
	for _, field := range []string{"limit", "held", "closed"} {
		find("budget."+field, at(reflect.ValueOf(d.front.Budget).Elem(), field), nil)
	}
	last := func(list reflect.Value) reflect.Value { return open(list.Index(list.Len() - 1)) }
	histogram := last(d.met("latency"))
	find("latency.sum", at(histogram, "sum"), nil)
	find("latency.count", open(at(histogram, "counts").Index(200)), nil)
	find("requests", reflect.ValueOf(&d.services.Requests).Elem(), nil)
	find("called", reflect.ValueOf(&d.services.Called).Elem(), nil)
	for _, field := range []string{"Logins", "LoginErrors"} { // it issues nothing
		find("administered."+field, at(reflect.ValueOf(&d.services.Administered).Elem(), field), nil)
	}
	find("logins.compared", at(at(d.met("logins").Elem(), "verifier").Elem(), "compared"), nil)
	find("logins.busy", at(d.met("logins").Elem(), "busy"), nil)
	find("commands", at(last(d.met("commands")), "n"), func(i int) string {
		return counterName(t, protocol.Counter(i))
	})
	find("refused", at(reflect.ValueOf(d.windows.Issuer).Elem(), "refused"), func(i int) string {
		return issuer.Reason(i).String()
	})
	find("clock.steps", at(reflect.ValueOf(d.windows.Clock).Elem(), "steps"), func(i int) string {
		return clock.Kind(i).String()
	})
	find("clock.stepped", at(reflect.ValueOf(d.windows.Clock).Elem(), "stepped"), nil)
	find("sequences.refused", at(reflect.ValueOf(d.names).Elem(), "sequences", "refused"), nil)
	find("clock.apart", at(reflect.ValueOf(d.windows.Clock).Elem(), "apart"), nil)
	find("keeper", at(d.held("keeper").Elem(), "counts"), func(i int) string {
		return workerid.Outcome(i).String()
	})
	find("redis", at(d.held("store").Elem().Elem(), "status"), nil)
	for _, field := range []string{"written", "failed"} {
		find("announcer."+field, at(reflect.ValueOf(d.windows.Announcer()).Elem(), field), nil)
	}
	find("checker", at(reflect.ValueOf(d.windows.Checker()).Elem(), "figures"), strconv.Itoa)
	orders := &reporting{rate: 250 * time.Millisecond}
	d.names.Catalog.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: "orders"}),
		From: orders}})
	find("orders", reflect.ValueOf(orders).Elem(), nil)
	for _, g := range d.names.Catalog.Names()[:2] {
		v := reflect.ValueOf(g).Elem()
		find(g.Name+".apart", at(v, "apart"), nil)
		loops := at(v, "loops")
		find(g.Name+".loop", at(open(loops.Index(loops.Len()-1)).Elem(), "n"), nil)
	}
	var dropped atomic.Uint64
	at(reflect.ValueOf(d.observer).Elem(), "c", "LogDropped").Set(reflect.ValueOf(dropped.Load))
	find("logDropped", reflect.ValueOf(&dropped).Elem(), nil)
	return slices.DeleteFunc(list, func(s source) bool { // see workerid.Counts
		return s.name == "keeper.Acquisitions.lost" || s.name == "keeper.Extensions.none_free" ||
			s.name == "keeper.Extensions.none_yet"
	})
}

// countersOf finds the numbers in v at any depth, but nothing behind a pointer. index names the
// elements of arrays.
func countersOf(name string, v reflect.Value, index func(i int) string) (list []source) {
	v = open(v)
	switch p := v.Addr().Interface().(type) {
	case *atomic.Int64:
		return []source{{name, func(n int64) { p.Add(n) }}}
	case *atomic.Uint64:
		return []source{{name, func(n int64) { p.Add(uint64(n)) }}}
	case *time.Time:
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i).Name; field != "_" {
				list = append(list, countersOf(name+"."+field, v.Field(i), index)...)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			list = append(list, countersOf(name+"."+index(i), v.Index(i), index)...)
		}
	case reflect.Int, reflect.Int64:
		return []source{{name, func(n int64) { v.SetInt(v.Int() + n) }}}
	case reflect.Uint64:
		return []source{{name, func(n int64) { v.SetUint(v.Uint() + uint64(n)) }}}
	}
	return list
}

// counterName returns the name of a protocol counter in docs and golden files.
func counterName(t *testing.T, c protocol.Counter) string {
	name, ok := map[protocol.Counter]string{
		protocol.CmdOther: "CmdOther", protocol.CmdGet: "CmdGet", protocol.CmdGets: "CmdGets", protocol.CmdGat: "CmdGat",
		protocol.CmdMetaGet: "CmdMetaGet", protocol.CmdIDs: "CmdIDs", protocol.CmdMeta: "CmdMeta", protocol.CmdSet: "CmdSet",
		protocol.CmdTouch:  "CmdTouch",
		protocol.CmdDelete: "CmdDelete", protocol.CmdIncr: "CmdIncr", protocol.CmdFlush: "CmdFlush",
		protocol.CmdStats:   "CmdStats",
		protocol.CmdVersion: "CmdVersion", protocol.CmdAuth: "CmdAuth", protocol.IDs: "IDs", protocol.Refused: "Refused",
		protocol.Malformed: "Malformed", protocol.TooLong: "TooLong", protocol.Unauthenticated: "Unauthenticated",
		protocol.AuthErrors: "AuthErrors", protocol.IncrHits: "IncrHits",
	}[c]
	if !ok {
		t.Errorf("counter %d of package protocol: add its name to this test", c)
	}
	return name
}

// explain returns a view with, after each line, the counters that change it.
func explain(t *testing.T, show func() []string, sources []source, seen map[string]bool) []string {
	const step = 7e9 // seven seconds, for counts of nanoseconds
	before := show()
	from := make([][]string, len(before))
	for _, s := range sources {
		s.add(step)
		after := show()
		s.add(-step)
		if len(after) != len(before) {
			t.Fatalf("%s: %d lines become %d", s.name, len(before), len(after))
		}
		for i, line := range after {
			if line == before[i] {
				continue
			}
			seen[s.name] = true
			term := s.name
			if scale := (number(t, line) - number(t, before[i])) / step; scale != 1 {
				term = fmt.Sprintf("%.4g * %s", scale, s.name)
			}
			from[i] = append(from[i], term)
		}
	}
	for i, line := range before {
		if from[i] != nil {
			before[i] = line + "  <- " + strings.Join(from[i], " + ")
		}
	}
	return before
}

// number returns the last word of a line.
func number(t *testing.T, line string) float64 {
	n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
	if err != nil {
		t.Errorf("%q follows a counter and is no number", line)
	}
	return n
}

// varying are the statistics that differ in every run.
var varying = []string{"pid", "pointer_size", "rusage_user", "rusage_system", "lease_fingerprint"}

func (d *Daemon) statLines(group string) (lines []string) {
	ok := d.observer.Stats([]byte(group), func(name, value string) {
		if slices.Contains(varying, name) {
			value = "VARIES"
		}
		lines = append(lines, name+" "+value)
	})
	if !ok {
		lines = []string{"no such group"}
	}
	return lines
}

// jsonLines returns the content of /stats.
func (d *Daemon) jsonLines() (lines []string) {
	w := httptest.NewRecorder()
	httpapi.NewServer(d.overHTTP()).Handler.ServeHTTP(w, httptest.NewRequest("GET", "/stats", nil))
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimRight(line, ",\n")
		if name, _, _ := strings.Cut(strings.Trim(line, ` "`), `"`); slices.Contains(varying, name) {
			line = line[:strings.IndexByte(line, ':')+1] + " VARIES"
		}
		lines = append(lines, line)
	}
	return lines
}

// metricLines returns /metrics without what the Prometheus library itself adds.
func (d *Daemon) metricLines() (lines []string) {
	w := httptest.NewRecorder()
	d.overHTTP().Metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if regexp.MustCompile(`^(# (HELP|TYPE) )?katsubushi_`).MatchString(line) {
			lines = append(lines, strings.ReplaceAll(strings.TrimSuffix(line, "\n"), runtime.Version(), "VARIES"))
		}
	}
	return lines
}

// fitsARegistry lets a registry look at what /metrics shows without one: names and labels that are not allowed, and two
// metrics with the same labels.
func (d *Daemon) fitsARegistry(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(metrics.Collector(time.Now(), d.observer.Figures))
	if _, err := r.Gather(); err != nil {
		t.Error(err)
	}
}

// compare compares lines with a golden file.
func compare(t *testing.T, name string, lines []string) {
	path := filepath.Join("testdata", name+".golden")
	got := []byte(strings.Join(append(lines, ""), "\n"))
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(want)) {
		counts["- "+line]++
	}
	for line := range strings.Lines(string(got)) {
		if counts["- "+line]--; counts["- "+line] < 0 {
			delete(counts, "- "+line)
			counts["+ "+line]++
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n <= 0 })
	t.Errorf("%s is not what is shown now; -update rewrites it:\n%s", path,
		strings.Join(slices.Sorted(maps.Keys(counts)), ""))
}
