package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const alerts = "../../deploy/prometheus/katsubushi.rules"

// A rule of Prometheus's.
type rule struct{ Alert, Record, Expr string }

// readRules returns the rules.
func readRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile(alerts + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil || len(file.Groups) != 1 {
		t.Fatal(len(file.Groups), err)
	}
	return file.Groups[0].Rules
}

// promtool returns Prometheus's tool for tests. `make deps` puts it into bin/ if it is not installed.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path, err := filepath.Abs("../../bin/promtool")
	if err == nil {
		_, err = os.Stat(path)
	}
	switch {
	case err != nil && os.Getenv("KATSUBUSHI_REQUIRE") == "1":
		t.Fatal("there is no promtool: make deps")
	case err != nil:
		t.Skip("there is no promtool: make deps")
	}
	return path
}

// TestAlerts: the alerts ask for metrics and labels that there are, and promtool runs their own tests, where
// each alert fires once and is silent in healthy fleets.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(alerts + "_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var tests struct {
		Tests []struct {
			Name  string
			Rules []struct {
				Name string `yaml:"alertname"`
				Want []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, r := range test.Rules {
			fires[r.Name] = fires[r.Name] || len(r.Want) > 0
			silent[r.Name] = silent[r.Name] || len(r.Want) == 0 && strings.HasPrefix(test.Name, "healthy fleets")
		}
	}
	asked := ""
	for _, r := range readRules(t) {
		asked += r.Expr + "\n"
		if r.Alert != "" && (!fires[r.Alert] || !silent[r.Alert]) {
			t.Errorf("%s: tested that it fires: %v; that it is silent in healthy fleets: %v", r.Alert,
				fires[r.Alert], silent[r.Alert])
		}
	}
	if found := asksForMetrics(t, asked); found < 60 {
		t.Errorf("%d metrics found in the rules", found)
	}
	if out, err := exec.Command(promtool(t), "test", "rules", alerts+"_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// metricOf returns the name of the metric that a series belongs to.
func metricOf(series string, all map[string]family) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		base, ok := strings.CutSuffix(series, suffix)
		if kind := all[base].kind; ok && (kind == "histogram" || kind == "summary") {
			return base
		}
	}
	return series
}

// asksForMetrics checks that some daemon exports each metric of ours that a text names, with the labels and
// values that it selects. It returns how many it found.
func asksForMetrics(t *testing.T, text string) (found int) {
	t.Helper()
	all, expositions, _ := everyMetric(t)
	exported := strings.Join(expositions, "")
	for _, m := range regexp.MustCompile(`(katsubushi_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(text, -1) {
		found++
		name := metricOf(m[1], all)
		f, ok := all[name]
		if !ok {
			t.Errorf("no daemon has %s", m[1])
			continue
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			if label[1] == "job" || label[1] == "instance" { // Prometheus's own
				continue
			}
			if !slices.Contains(f.labels, label[1]) {
				t.Errorf("%s has no label %s", name, label[1])
			}
			if label[1] == "state" { // each lane has one
				continue
			}
			for value := range strings.SplitSeq(label[2], "|") {
				if value != "" &&
					!regexp.MustCompile(`(?m)^`+m[1]+`\{.*`+label[1]+`="`+regexp.QuoteMeta(value)+`"`).MatchString(exported) {
					t.Errorf("no %s has %s=%q", m[1], label[1], value)
				}
			}
		}
	}
	return found
}
