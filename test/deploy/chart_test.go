package deploy

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const chartPath = "../../deploy/helm/katsubushi"

// load reads a chart. Helm logs that it follows the links to the alerts and the dashboard.
func load(t *testing.T, path string) *chart.Chart {
	t.Helper()
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	c, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// template does what helm template does with these arguments of --set.
func template(c *chart.Chart, sets ...string) ([]byte, error) {
	values := map[string]any{}
	for _, set := range sets {
		if err := strvals.ParseInto(set, values); err != nil {
			return nil, err
		}
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly = "blue", "ids", true, true
	made, err := install.Run(c, values)
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(made.Manifest)), nil
}

func render(t *testing.T, sets ...string) []byte {
	t.Helper()
	text, err := template(load(t, chartPath), sets...)
	if err != nil {
		t.Fatal(sets, err)
	}
	return text
}

func TestHelmLintsTheChart(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	lint := action.NewLint()
	lint.Strict = true
	if r := lint.Run([]string{chartPath}, nil); len(r.Errors) > 0 || r.TotalChartsLinted != 1 {
		t.Error(r.Errors)
	}
	// The packed chart has what the links lead to.
	pack := action.NewPackage()
	pack.Destination = t.TempDir()
	archive, err := pack.Run(chartPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"prometheusRule.enabled=true", "dashboard.enabled=true"}
	if text, err := template(load(t, archive), all...); err != nil || !bytes.Equal(text, render(t, all...)) {
		t.Errorf("the packed chart gives something else: %v", err)
	}
}

// TestTheChartHasTheSameAlertsAndDashboard as Prometheus and Grafana without Kubernetes.
func TestTheChartHasTheSameAlertsAndDashboard(t *testing.T) {
	p, _ := read(t, "helm statefulset", outputs(t)["helm statefulset"])
	text, err := os.ReadFile("../../deploy/prometheus/katsubushi.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict(text, &rules); err != nil || len(rules.Groups) == 0 {
		t.Fatal(err)
	}
	if p.rule == nil || !reflect.DeepEqual(p.rule.Spec, rules) {
		t.Errorf("other alerts: %+v", p.rule)
	}
	text, err = os.ReadFile("../../deploy/grafana/katsubushi.json")
	if err != nil || !json.Valid(text) {
		t.Fatal(err)
	}
	if len(p.configs) != 1 || p.configs[0].Data["katsubushi.json"] != string(text) {
		t.Error("another dashboard")
	}
}

// settings are those of testdata/settings.yaml.
var settings = func() (all map[string]struct {
	Mode, Want, Gone string
	Sets             []string
}) {
	if err := yaml.UnmarshalStrict(settingsFile, &all); err != nil {
		panic(err)
	}
	return all
}()

//go:embed testdata/settings.yaml
var settingsFile []byte

// TestEverySettingOfTheChartDoesSomething, and the result is taken by Kubernetes' types.
func TestEverySettingOfTheChartDoesSomething(t *testing.T) {
	c := load(t, chartPath)
	for path, s := range settings {
		mode := "mode=" + cmp.Or(s.Mode, "statefulset")
		before, err := template(c, mode)
		if err != nil {
			t.Fatal(err)
		}
		after, err := template(c, append([]string{mode}, s.Sets...)...)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		has, hasNot, want := after, before, s.Want
		if s.Gone != "" {
			has, hasNot, want = before, after, s.Gone
		}
		if want == "" || !bytes.Contains(has, []byte(want)) || bytes.Contains(hasNot, []byte(want)) {
			t.Errorf("%s has no effect, %q:\n%s", path, want, after)
		}
		if _, err := decode(t, after); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	var untried func(prefix string, values map[string]any)
	untried = func(prefix string, values map[string]any) {
		for key, value := range values {
			path := prefix + key
			if _, ok := settings[path]; ok {
				continue
			}
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
				untried(path+".", inner)
			} else {
				t.Errorf("no test sets %s", path)
			}
		}
	}
	untried("", c.Values)
}

// TestDaemonsReachTheCounterStore where only its URL is known, or a secret with it: Redis's ports are open.
func TestDaemonsReachTheCounterStore(t *testing.T) {
	const redis = "- {protocol: TCP, port: 53}\n        - {protocol: TCP, port: 6379}"
	for set, open := range map[string]bool{"counters.url=": false, "counters.url=redis://r": true,
		"counters.secret.name=r": true} {
		if text := render(t, set); bytes.Contains(text, []byte(redis)) != open {
			t.Errorf("%s:\n%s", set, text)
		}
	}
}

// TestTheSchemaRefusesWhatCannotBeMeant, and a word that the chart does not know, in every group. The templates refuse
// pairs of values that do not fit.
func TestTheSchemaRefusesWhatCannotBeMeant(t *testing.T) {
	c := load(t, chartPath)
	wrong := []string{"mode=pod", "replicas=0", "ports.http=0", "ports.redis=70000", "unknown=1", "args={lanes}",
		"store.url=redis://:secret@redis:6379", "persistence.accessMode=ReadWriteMany", "socket.mode=666",
		"serviceMonitor.interval=often", "drainTimeoutSeconds=5s", "image.pullPolicy=Sometimes"}
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		group, ok := c.Values[key].(map[string]any)
		if _, free := settings[key]; ok && !free && len(group) > 0 {
			wrong = append(wrong, key+".unknown=1")
		}
	}
	for _, set := range wrong {
		if _, err := template(c, set); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("%s: %v", set, err)
		}
	}
	for _, pair := range []struct {
		sets []string
		why  string
	}{
		{[]string{"mode=deployment", "store.secret.name="}, "store.url or store.secret.name is missing"},
		{[]string{"ports.redis=11212"}, "ports.memcached and ports.redis are the same"},
		{[]string{"mode=daemonset", "ports.grpc=8081"}, "ports.grpc and ports.http are the same"},
		{[]string{"firstOrdinal=1020", "replicas=5"}, "worker ids end at 1023"},
	} {
		if _, err := template(c, pair.sets...); err == nil || !strings.Contains(err.Error(), pair.why) {
			t.Errorf("%s: %v", pair.sets, err)
		}
	}
	for _, fits := range [][]string{{"firstOrdinal=1020", "replicas=4"}, {"mode=daemonset", "ports.redis=11212"}} {
		if _, err := template(c, fits...); err != nil {
			t.Errorf("%s: %v", fits, err)
		}
	}
}

// TestWriteRendered leaves the chart's output for kubeconform, if KATSUBUSHI_RENDERED names a folder.
func TestWriteRendered(t *testing.T) {
	dir := os.Getenv("KATSUBUSHI_RENDERED")
	if dir == "" {
		t.Skip("KATSUBUSHI_RENDERED is not set")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range outputs(t) {
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
