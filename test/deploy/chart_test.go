package deploy

import (
	"bytes"
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

// settings has, for each value of the chart, one that differs from the default, and text that is in the
// objects because of it. An empty mode is the default.
var settings = map[string]struct {
	mode string
	sets []string
	want string
}{
	"mode":         {"", []string{"mode=deployment"}, "kind: Deployment"},
	"replicas":     {"", []string{"replicas=5"}, "replicas: 5"},
	"firstOrdinal": {"", []string{"firstOrdinal=100"}, "ordinals: {start: 100}"},
	"image.repository": {"", []string{"image.repository=registry.example/ids"},
		"image: registry.example/ids:3.0.0"},
	"image.tag":        {"", []string{"image.tag=3.1.4"}, "image: katsubushi:3.1.4"},
	"image.pullPolicy": {"", []string{"image.pullPolicy=Always"}, "imagePullPolicy: Always"},
	"imagePullSecrets": {"", []string{"imagePullSecrets[0].name=pull"},
		"imagePullSecrets:\n        - name: pull"},
	"store.url": {"deployment", []string{"store.url=etcd://e1:2379"}, `value: "etcd://e1:2379"`},
	"store.secret.name": {"deployment", []string{"store.secret.name=redis"},
		"secretKeyRef: {name: redis, key: url}"},
	"store.secret.key": {"deployment", []string{"store.secret.key=uri"}, "{name: katsubushi-store, key: uri}"},
	"store.ports":      {"deployment", []string{"store.ports={2379}"}, "{protocol: TCP, port: 2379}"},
	"store.autoInit":   {"deployment", []string{"store.autoInit=true"}, "- -lease-auto-init\n"},
	"counters.url": {"", []string{"counters.url=etcd://e1:2379"},
		"name: KATSUBUSHI_COUNTERS\n              value: \"etcd://e1:2379\""},
	"counters.secret.name": {"", []string{"counters.secret.name=pg"}, "secretKeyRef: {name: pg, key: url}"},
	"counters.secret.key": {"", []string{"counters.secret.name=pg", "counters.secret.key=uri"},
		"{name: pg, key: uri}"},
	"counters.ports": {"", []string{"counters.ports={5432}"},
		"{protocol: UDP, port: 53}\n        - {protocol: TCP, port: 53}\n        - {protocol: TCP, port: 5432}"},
	"names": {"", []string{"names=a uuid7"}, `names: "a uuid7"`},
	"ports.memcached": {"", []string{"ports.memcached=11211"},
		"- -port=11211\n            - -advertise=$(POD_IP):11211\n"},
	"ports.http":       {"", []string{"ports.http=9090"}, "{name: http, containerPort: 9090}"},
	"ports.redis":      {"", []string{"ports.redis=6379"}, "{name: redis, port: 6379, targetPort: redis}"},
	"ports.grpc":       {"", []string{"ports.grpc=8080"}, "- -grpc-port=8080\n"},
	"advertise":        {"", []string{"advertise=[$(POD_IP)]"}, "- -advertise=[$(POD_IP)]:11212\n"},
	"tls.secret":       {"", []string{"tls.secret=cert"}, "secretName: cert"},
	"auth.secret":      {"", []string{"auth.secret=users"}, "- -auth-file=/etc/katsubushi-auth/users\n"},
	"auth.forwardUser": {"", []string{"auth.secret=users", "auth.forwardUser=fleet"}, "- -forward-user=fleet\n"},
	"socket.directory": {"daemonset", []string{"socket.directory=/run/ids"},
		"hostPath: {path: /run/ids, type: DirectoryOrCreate}"},
	"socket.mode": {"daemonset", []string{"socket.mode=0660"}, "- -sock-mode=0660\n"},
	"socket.initImage": {"daemonset", []string{"socket.initImage=registry.example/busybox"},
		"image: registry.example/busybox\n"},
	"shutdownDelaySeconds": {"", []string{"shutdownDelaySeconds=15"}, "terminationGracePeriodSeconds: 40"},
	"drainTimeoutSeconds":  {"", []string{"drainTimeoutSeconds=25"}, "- -drain-timeout=25s\n"},
	"args":                 {"", []string{"args={-lanes=2}"}, `- "-lanes=2"`},
	"env": {"", []string{"env[0].name=GOGC,env[0].value=off"},
		"- name: GOGC\n              value: \"off\""},
	"persistence.size":         {"", []string{"persistence.size=1Gi"}, "requests: {storage: 1Gi}"},
	"persistence.storageClass": {"", []string{"persistence.storageClass=local"}, "storageClassName: local"},
	"persistence.accessMode": {"", []string{"persistence.accessMode=ReadWriteOncePod"},
		"accessModes: [ReadWriteOncePod]"},
	"resources": {"", []string{"resources.limits.memory=1Gi"}, "memory: 1Gi"},
	"seccompProfile": {"", []string{"seccompProfile.type=Localhost", "seccompProfile.localhostProfile=uring.json"},
		"localhostProfile: uring.json"},
	"podLabels":      {"", []string{"podLabels.team=ids"}, "team: ids"},
	"podAnnotations": {"", []string{"podAnnotations.team=ids"}, "annotations:\n        team: ids"},
	"nodeSelector":   {"", []string{"nodeSelector.disk=local"}, "nodeSelector:\n        disk: local"},
	"tolerations":    {"", []string{"tolerations[0].operator=Exists"}, "tolerations:\n        - operator: Exists"},
	"affinity": {"", []string{"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution=null"},
		"affinity:"},
	"priorityClassName": {"", []string{"priorityClassName=high"}, "priorityClassName: high"},
	"topologySpread":    {"", []string{"topologySpread={rack}"}, "topologyKey: rack"},
	"podDisruptionBudget.enabled": {"", []string{"podDisruptionBudget.enabled=false"},
		"-kind: PodDisruptionBudget"},
	"podDisruptionBudget.maxUnavailable": {"", []string{"podDisruptionBudget.maxUnavailable=2"},
		"maxUnavailable: 2"},
	"networkPolicy.enabled": {"", []string{"networkPolicy.enabled=false"}, "-kind: NetworkPolicy"},
	"networkPolicy.clients": {"", []string{"networkPolicy.clients[0].podSelector.matchLabels.ids=yes"},
		"ids: \"yes\""},
	"networkPolicy.metrics": {"", []string{"networkPolicy.metrics[0].podSelector.matchLabels.app=prometheus"},
		"app: prometheus"},
	"networkPolicy.egress":   {"", []string{"networkPolicy.egress[0].ports[0].port=123"}, "port: 123"},
	"serviceMonitor.enabled": {"", []string{"serviceMonitor.enabled=true"}, "kind: ServiceMonitor"},
	"serviceMonitor.interval": {"", []string{"serviceMonitor.enabled=true", "serviceMonitor.interval=30s"},
		"interval: 30s"},
	"serviceMonitor.labels": {"", []string{"serviceMonitor.enabled=true", "serviceMonitor.labels.release=prom"},
		"    release: prom\n"},
	"prometheusRule.enabled": {"", []string{"prometheusRule.enabled=true"}, "kind: PrometheusRule"},
	"prometheusRule.labels": {"", []string{"prometheusRule.enabled=true", "prometheusRule.labels.release=prom"},
		"    release: prom\n"},
	"dashboard.enabled": {"", []string{"dashboard.enabled=true"}, "name: blue-katsubushi-dashboard"},
	"dashboard.labels": {"", []string{"dashboard.enabled=true", "dashboard.labels.folder=ids"},
		"    folder: ids\n"},
}

// TestEverySettingOfTheChartDoesSomething, and the result is taken by Kubernetes' types.
func TestEverySettingOfTheChartDoesSomething(t *testing.T) {
	c := load(t, chartPath)
	for path, s := range settings {
		mode := "mode=" + s.mode
		if s.mode == "" {
			mode = "mode=statefulset"
		}
		before, err := template(c, mode)
		if err != nil {
			t.Fatal(err)
		}
		after, err := template(c, append([]string{mode}, s.sets...)...)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want, goes := strings.CutPrefix(s.want, "-"); goes && strings.HasPrefix(want, "kind") {
			before, after, s.want = after, before, want
		}
		if !bytes.Contains(after, []byte(s.want)) || bytes.Contains(before, []byte(s.want)) {
			t.Errorf("%s has no effect, %q:\n%s", path, s.want, after)
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
