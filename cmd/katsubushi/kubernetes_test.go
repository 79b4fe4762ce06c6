package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestTheOrdinalOfAHost(t *testing.T) {
	for _, c := range []struct {
		host, offset string
		want         uint64
	}{
		{"katsubushi-0", "", 0}, {"katsubushi-17", "", 17}, {"ids-eu-2", "+100", 102}, {"ids-2.ids.prod.svc.cluster.local", "", 2}, {"a-007", "+0", 7},
	} {
		if got, err := ordinalOf(c.host, c.offset); err != nil || got != c.want {
			t.Errorf("%s%s: %d, %v, want %d", c.host, c.offset, got, err, c.want)
		}
	}
	for _, host := range []string{"", "katsubushi", "katsubushi7", "7", "katsubushi-", "katsubushi-7b", "a-1.b", "katsubushi-4294967296", "katsubushi-+1", "a.b-7", "katsubushi-6f7b9c"} {
		got, err := ordinalOf(host, "")
		if host == "a-1.b" {
			if got != 1 || err != nil {
				t.Errorf("%s: %d, %v", host, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "StatefulSet") {
			t.Errorf("%s: %d, %v", host, got, err)
		}
	}
	for _, offset := range []string{"+", "1", "-1", "+-1", "++1", "+x", "s", "+4294967296"} {
		if got, err := ordinalOf("a-1", offset); err == nil || !strings.Contains(err.Error(), "ordinal+OFFSET") {
			t.Errorf("ordinal%s: %d, %v", offset, got, err)
		}
	}
}

// TestTheOrdinalIsASetting: it depends on this host's name, which is asked for here too.
func TestTheOrdinalIsASetting(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	id, bad := ordinalOf(host, "+3")
	p, _, err := parse(settings(), []string{"-worker-id=ordinal+3"}, environment("HOME", "/h"), nil)
	switch {
	case err != nil:
		t.Fatal(err)
	case bad == nil:
		if !slices.Equal(p.WorkerIDs, []uint64{id}) || !p.Ordinal || len(p.problems) > 0 {
			t.Errorf("on %s: %v, %v, %v", host, p.WorkerIDs, p.Ordinal, p.problems)
		}
	default:
		got := complaints(t, []string{"-worker-id=ordinal+3", "-loops=0"})
		if !strings.Contains(got, "-worker-id=ordinal+3: "+bad.Error()+"\n") || !strings.Contains(got, "-loops: 0") || strings.Contains(got, "none given") {
			t.Errorf("on %s: %s", host, got)
		}
	}
	if got := complaints(t, []string{"-worker-id=ordinal3", "-loops=0"}); !strings.Contains(got, "ordinal+OFFSET is allowed") {
		t.Error(got)
	}
}

// TestAnOrdinalOfZeroIsAnID: kayac's 0 beside -redis means "not set", an ordinal does not.
func TestAnOrdinalOfZeroIsAnID(t *testing.T) {
	p, _, err := parse(settings(), []string{"-redis=redis://h/0"}, environment(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.WorkerIDs, p.Ordinal = []uint64{0}, true
	p.combineStore()
	if err := p.validate(); err == nil || !strings.Contains(err.Error(), "with -redis worker ids are leased, not given") {
		t.Errorf("%v, worker ids %v", err, p.WorkerIDs)
	}
}

type labels map[string]string

// A manifest holds what the test looks at of any object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ServiceName    string `yaml:"serviceName"`
		ClusterIP      string `yaml:"clusterIP"`
		Replicas       int
		MaxUnavailable int       `yaml:"maxUnavailable"`
		Selector       yaml.Node // labels of a Service, matchLabels elsewhere
		Ports          []struct {
			Target string `yaml:"targetPort"`
			Port   int
		}
		Template struct {
			Metadata struct{ Labels labels }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
			}
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type container struct {
	Args  []string
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Mounts    []struct {
		Name string
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests reads the objects of a file by their kind.
func manifests(t *testing.T, path string) map[string]*manifest {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		m := new(manifest)
		if err := d.Decode(m); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		found[m.Kind] = m
	}
}

// selects returns the labels by which an object selects pods.
func (m *manifest) selects(t *testing.T) (l labels) {
	t.Helper()
	var wrapped struct {
		Labels labels `yaml:"matchLabels"`
	}
	if m.Kind == "Service" {
		if err := m.Spec.Selector.Decode(&l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := m.Spec.Selector.Decode(&wrapped); err != nil {
		t.Fatal(err)
	}
	return wrapped.Labels
}

// TestTheStatefulSetFitsTheDaemon: its flags exist and are valid together, and its ports, probes,
// volume and times are those that the flags name.
func TestTheStatefulSetFitsTheDaemon(t *testing.T) {
	found := manifests(t, "../../deploy/statefulset.yaml")
	set, service, budget := found["StatefulSet"], found["Service"], found["PodDisruptionBudget"]
	if set == nil || service == nil || budget == nil || len(found) != 3 || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("found %v", found)
	}
	pod := set.Spec.Template
	c := pod.Spec.Containers[0]
	for _, m := range []*manifest{set, service, budget} {
		l := m.selects(t)
		if len(l) == 0 {
			t.Errorf("%s selects nothing", m.Kind)
		}
		for k, v := range l {
			if pod.Metadata.Labels[k] != v {
				t.Errorf("%s selects pods with %s=%s", m.Kind, k, v)
			}
		}
	}
	if set.Spec.ServiceName != service.Metadata.Name || service.Spec.ClusterIP != "None" {
		t.Errorf("serviceName %s, and the service is %s with clusterIP %s", set.Spec.ServiceName, service.Metadata.Name, service.Spec.ClusterIP)
	}
	if budget.Spec.MaxUnavailable != 1 || set.Spec.Replicas < 2 {
		t.Errorf("%d pods, %d may be missing", set.Spec.Replicas, budget.Spec.MaxUnavailable)
	}

	args := slices.Clone(c.Args)
	i := slices.Index(args, "-worker-id=ordinal")
	if id, err := ordinalOf(set.Metadata.Name+"-3", ""); i < 0 || err != nil || id != 3 {
		t.Fatalf("%v: of %s-3 the worker id is %d, %v", args, set.Metadata.Name, id, err)
	}
	args[i] = "-worker-id=3"
	// a Service makes these variables
	p, _, err := parse(settings(), args, environment("KATSUBUSHI_PORT", "tcp://10.3.2.1:11212", "KATSUBUSHI_SERVICE_PORT_HTTP", "8081"), nil)
	if err != nil || p.validate() != nil || len(p.args) > 0 || len(p.notes) > 0 || len(p.unknown) > 0 {
		t.Fatalf("%v: %v %v, %v, %v, %v", args, err, p.problems, p.args, p.notes, p.unknown)
	}
	want := map[string]int{"memcached": p.Port, "http": p.HTTPPort}
	got := map[string]int{}
	for _, port := range c.Ports {
		got[port.Name] = port.Port
	}
	for name, number := range want {
		if got[name] != number || number == 0 {
			t.Errorf("port %s is %d, the daemon's is %d", name, got[name], number)
		}
	}
	if len(got) != len(want) || len(service.Spec.Ports) != len(want) {
		t.Errorf("ports %v, and those of the service %v", got, service.Spec.Ports)
	}
	for _, port := range service.Spec.Ports {
		if want[port.Target] != port.Port {
			t.Errorf("the service's port %d leads to %s", port.Port, port.Target)
		}
	}
	if c.Readiness.Get.Path != "/readyz" || c.Liveness.Get.Path != "/healthz" || c.Readiness.Get.Port != "http" || c.Liveness.Get.Port != "http" {
		t.Errorf("probes %+v and %+v", c.Readiness, c.Liveness)
	}
	if p.StateDir == "" || p.StateDirByDefault || len(c.Mounts) != 1 || c.Mounts[0].Path != p.StateDir ||
		len(set.Spec.Claims) != 1 || set.Spec.Claims[0].Metadata.Name != c.Mounts[0].Name {
		t.Errorf("windows are recorded in %s; mounted are %v of %v", p.StateDir, c.Mounts, set.Spec.Claims)
	}
	if grace := time.Duration(pod.Spec.Grace) * time.Second; grace < p.ShutdownDelay+p.DrainTimeout+5*time.Second {
		t.Errorf("killed after %v, and stopping takes %v and %v", grace, p.ShutdownDelay, p.DrainTimeout)
	}
}
