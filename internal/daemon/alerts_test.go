package daemon

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const alerts = "../../deploy/prometheus/katsubushi.rules"

// TestAlerts: the alerts ask for metrics and labels that there are. If promtool is installed, it runs
// their own tests, and each alert has one.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile(alerts + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(alerts + "_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tests), "alertname: "+m[1]+"\n") {
			t.Errorf("%s is not tested", m[1])
		}
	}
	if found := asksForMetrics(t, string(rules)); found < 20 {
		t.Errorf("%d metrics found in the rules", found)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("the alerts' own tests were not run: there is no promtool (Debian's package prometheus)")
	}
	if out, err := exec.Command(promtool, "test", "rules", alerts+"_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// asksForMetrics checks that some daemon exports each metric of ours that a text names, with the labels and
// values that it selects. It returns how many it found.
func asksForMetrics(t *testing.T, text string) (found int) {
	t.Helper()
	all, expositions := everyMetric(t)
	exported := strings.Join(expositions, "")
	for _, m := range regexp.MustCompile(`(katsubushi_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(text, -1) {
		found++
		name := m[1]
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && (all[base].kind == "histogram" || all[base].kind == "summary") {
				name = base
			}
		}
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
				if value != "" && !regexp.MustCompile(`(?m)^`+m[1]+`\{.*`+label[1]+`="`+regexp.QuoteMeta(value)+`"`).MatchString(exported) {
					t.Errorf("no %s has %s=%q", m[1], label[1], value)
				}
			}
		}
	}
	return found
}
