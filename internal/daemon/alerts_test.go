package daemon

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const alerts = "../../deploy/prometheus/katsubushi.rules"

// TestAlerts: the alerts ask for metrics and labels that there are. If promtool is installed, it runs
// their own tests.
func TestAlerts(t *testing.T) {
	rules, err := os.ReadFile(alerts + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	sequences, err := os.ReadFile("../issuer/sequence.go") // the golden file has made-up figures of names
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile(`(katsubushi_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(string(rules), -1) {
		found++
		if name, ok := strings.CutPrefix(m[1], "katsubushi_generator_"); ok {
			if !strings.Contains(string(sequences), `{"`+strings.TrimSuffix(name, "_total")+`", `) {
				t.Errorf("sequences have no %s", name)
			}
			continue
		}
		series := regexp.MustCompile(`(?m)^`+m[1]+`[{ ].*`).FindAllString(string(golden), -1)
		if len(series) == 0 {
			t.Errorf("no daemon has %s", m[1])
			continue
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)(?:=~|!=|=)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			if label[1] == "state" { // each lane has one
				continue
			}
			for value := range strings.SplitSeq(label[2], "|") {
				if !strings.Contains(strings.Join(series, "\n"), label[1]+`="`+value) {
					t.Errorf("no %s has %s=%q", m[1], label[1], value)
				}
			}
		}
	}
	if found < 13 {
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
