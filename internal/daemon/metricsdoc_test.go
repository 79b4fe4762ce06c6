package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
)

// A family is a metric as /metrics shows it.
type family struct {
	name, kind, help string
	labels           []string
}

// families reads the text format. What it adds to metrics of ours is Prometheus's own.
func families(t *testing.T, lines []string) map[string]family {
	t.Helper()
	all := map[string]family{}
	var f family
	for _, line := range lines {
		word := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			f = family{name: word[2], help: word[3]}
		case strings.HasPrefix(line, "# TYPE "):
			f.kind = word[3]
		default:
			for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(line, -1) {
				if !slices.Contains(f.labels, l[1]) && l[1] != "le" {
					f.labels = append(f.labels, l[1])
				}
			}
		}
		if f.kind != "" {
			all[f.name] = f
		}
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, f.name) {
			t.Errorf("%s does not belong to %s", line, f.name)
		}
	}
	return all
}

// A note is what the figures say of a metric beside /metrics: when to worry, and its names in the statistics.
type note struct {
	worry string
	stats []string
}

var numbered = regexp.MustCompile(`\b(lane|group)_[0-9]+`)

// expositions returns /metrics of daemons that have everything together: every kind of store of worker ids,
// all kinds of names, users, certificates, peers, leaders; and what the figures say beside it of each metric.
func expositions(t *testing.T) (all [][]string, notes map[string]note) {
	t.Helper()
	dir := t.TempDir()
	notes = map[string]note{}
	show := func(d *Daemon) {
		all = append(all, d.metricLines())
		d.fitsARegistry(t)
		d.observer.Figures(func(f figure.Figure) {
			if f.Metric != "" {
				n := notes[f.Metric]
				n.worry = f.Worry
				if stat := numbered.ReplaceAllString(f.Stat, "${1}_N"); stat != "" && !slices.Contains(n.stats, stat) {
					n.stats = append(n.stats, stat)
				}
				notes[f.Metric] = n
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		leadAll(t, d)
		show(d)
	})
	for _, url := range []string{"etcd://127.0.0.1:1/?ns=doc", "zookeeper://127.0.0.1:1/?ns=doc", "", "none"} {
		c := testConfig()
		c.StateDir, c.RuntimeDir = t.TempDir(), t.TempDir()
		c.Counters.Dir, c.AnyDisk = filepath.Join(c.StateDir, "sequences"), true
		c.Definitions = "orders sequence; sessions uuid7; tx snowflake layout=katsubushi order=strict node=1023"
		switch url {
		case "":
		case "none":
			c.StateDir = ""
		default:
			c.Store.URL, c.WorkerIDs, c.Lanes, c.StateDir = url, nil, 1, ""
			c.Store.Min, c.Store.Max, c.Store.Lease, c.Store.MaxSkew = 1, 9, time.Minute, 2*time.Second
		}
		d, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(url, err)
		}
		show(d)
		d.names.Stop()
		d.windows.Stop(true)
	}
	return all, notes
}

// A soleBoard is a leader.Board that gives its daemon whatever it wants.
type soleBoard struct {
	leader.State
	revision int64
}

func (b *soleBoard) Commit(_ context.Context, c leader.Change) (bool, leader.State, error) {
	b.revision++
	for g, l := range c.Lead {
		l.Revision = b.revision
		b.Leaders[g] = l
	}
	if c.Put != nil {
		b.Nodes = []leader.NodeKey{{Node: *c.Put, Revision: b.revision}}
	}
	if c.Drop != nil {
		b.Nodes = nil
	}
	return true, b.State, nil
}

func (b *soleBoard) Watch(ctx context.Context, _ func(map[int]leader.Leader)) error {
	<-ctx.Done()
	return ctx.Err()
}

// leadAll gives the daemon an election in which it leads everything, and the sequence orders.
func leadAll(t *testing.T, d *Daemon) {
	began := time.Now()
	r := leader.NewRunner(leader.Config{
		Me: leader.Node{ID: "me", Redis: "h:1"}, Board: new(soleBoard), Clock: func() int64 {
			return int64(time.Since(began)) + 1
		},
		Log: slog.New(slog.DiscardHandler), Begin: func(leader.Term) {}, End: func(leader.Term) {},
	})
	place := at(reflect.ValueOf(d.names).Elem(), "sequences", "election")
	place.Set(reflect.New(place.Type().Elem()))
	election := place.Elem()
	at(election, "of").Set(reflect.ValueOf(d.names))
	runnerOf(d).Store(r)
	known := at(election, "known")
	known.Set(reflect.MakeMap(known.Type()))
	known.SetMapIndex(reflect.ValueOf("orders"), reflect.New(known.Type().Elem().Elem()))
	forwarders := at(election, "forward")
	for g := range leader.MaxGroups {
		forwarders.Index(g).Set(reflect.ValueOf(forward.New(forward.Config{})))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	cancel()
	<-ended
}

// runnerOf returns the place of what elects the leaders, for a daemon that may lead.
func runnerOf(d *Daemon) *atomic.Pointer[leader.Runner] {
	election := at(reflect.ValueOf(d.names).Elem(), "sequences", "election")
	return at(election.Elem(), "runner").Addr().Interface().(*atomic.Pointer[leader.Runner])
}

// everyMetric returns all metrics that there are, the text that shows them, and what the figures say beside it.
func everyMetric(t *testing.T) (all map[string]family, texts []string, notes map[string]note) {
	t.Helper()
	shown, notes := expositions(t)
	all = map[string]family{}
	for _, lines := range shown {
		for name, f := range families(t, lines) {
			if old, ok := all[name]; ok && (old.kind != f.kind || old.help != f.help) {
				if !strings.HasPrefix(name, "katsubushi_generator_") { // figuresDaemon makes some up
					t.Errorf("%s is described twice: %v, %v", name, old, f)
				}
			}
			f.labels = append(f.labels, all[name].labels...)
			slices.Sort(f.labels)
			f.labels = slices.Compact(f.labels)
			all[name] = f
		}
		texts = append(texts, strings.Join(lines, "\n")+"\n")
	}
	delete(all, "katsubushi_generator_rate") // made up
	return all, texts, notes
}

const metricsDoc = "../../docs/METRICS.md"

// TestMetricsDoc: docs/METRICS.md lists every metric; -update writes it again. What this program says of
// a metric comes from /metrics, and when to worry from the figures.
func TestMetricsDoc(t *testing.T) {
	all, _, notes := everyMetric(t)
	alerts := alertsOf(t, all)
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, part := range metricParts {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		if part.text != "" {
			b.WriteString(part.text + "\n\n")
		}
		b.WriteString("| metric, statistic | labels | meaning | when to worry |\n|---|---|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if partOf(name) == part.title {
				f := all[name]
				n := notes[strings.TrimPrefix(name, "katsubushi_")]
				names, worry := "`"+name+"`", n.worry
				if len(n.stats) > 0 {
					names += "<br>`" + strings.Join(n.stats, "`<br>`") + "`"
				}
				if worry != "" {
					worry = withAlerts(t, name, worry, alerts)
				}
				labels := "`" + strings.Join(f.labels, "` `") + "`"
				if f.labels == nil {
					labels = ""
				}
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", names, labels, f.help, worry)
			}
		}
	}
	if *update {
		if err := os.WriteFile(metricsDoc, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(metricsDoc); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the program says: go test ./internal/daemon -run TestMetricsDoc -update writes it (%v)",
			metricsDoc, err)
	}
}

// alertsOf returns which alerts ask for each metric.
func alertsOf(t *testing.T, all map[string]family) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for _, r := range readRules(t) {
		for _, m := range regexp.MustCompile(`katsubushi_[a-z_]+`).FindAllString(r.Expr, -1) {
			name := metricOf(m, all)
			if r.Alert != "" && !slices.Contains(list[name], r.Alert) {
				list[name] = append(list[name], r.Alert)
			}
		}
	}
	return list
}

// withAlerts adds links to the alerts that ask for a metric to what is said of it. If there are none, that must
// say so, and the dashboard must show it.
func withAlerts(t *testing.T, name, worry string, alerts map[string][]string) string {
	t.Helper()
	if strings.HasPrefix(worry, dashboardOnly) {
		dashboard, err := os.ReadFile(dashboardFile)
		if err != nil || !strings.Contains(string(dashboard), name) || len(alerts[name]) > 0 {
			t.Errorf("%s is %sit has alerts, %v, or is not there (%v)", name, dashboardOnly, alerts[name], err)
		}
		return worry
	}
	if len(alerts[name]) == 0 {
		t.Errorf("no alert asks for %s: make one, or say that it is %q", name, dashboardOnly)
	}
	for _, a := range alerts[name] {
		worry += fmt.Sprintf(" [%s](RUNBOOK.md#%s)", a, strings.ToLower(a))
	}
	return worry
}

// partOf returns the title of the first part that a metric belongs to.
func partOf(name string) string {
	for _, p := range metricParts {
		if slices.ContainsFunc(p.prefixes, func(s string) bool { return strings.HasPrefix(name, "katsubushi_"+s) }) {
			return p.title
		}
	}
	return metricParts[0].title
}

// TestMetricsPassPromtool checks every metric's name, type and help with promtool, if it is installed.
func TestMetricsPassPromtool(t *testing.T) {
	promtool := promtool(t)
	_, texts, _ := everyMetric(t)
	for _, text := range texts {
		// made up
		for _, counter := range regexp.MustCompile(`(?m)^(# [A-Z]+ )?katsubushi_generator_rate.*\n`).FindAllString(text, -1) {
			text = strings.Replace(text, counter, "", 1)
		}
		check := exec.Command(promtool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
