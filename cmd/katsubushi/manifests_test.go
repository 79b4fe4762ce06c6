package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// These tests compare deploy/kubernetes and deploy/compose.yaml with the program's own flags. Whether
// Kubernetes takes the files, make test-kubernetes says.

type labels map[string]string

// A manifest holds what the tests look at of any object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ServiceName    string `yaml:"serviceName"`
		ClusterIP      string `yaml:"clusterIP"`
		Replicas       int
		MaxUnavailable int       `yaml:"maxUnavailable"`
		Selector       yaml.Node // labels of a Service, matchLabels elsewhere
		PodSelector    yaml.Node `yaml:"podSelector"` // of a NetworkPolicy
		JobLabel       string    `yaml:"jobLabel"`
		Endpoints      []struct{ Port, Path string }
		Ports          []struct {
			Name   string
			Target string `yaml:"targetPort"`
			Port   int
		}
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Metadata struct{ Labels labels }
			Spec     pod
		}
		Claims []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type pod struct {
	Grace           int `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		NonRoot    bool                  `yaml:"runAsNonRoot"`
		User       int                   `yaml:"runAsUser"`
		FSGroup    int                   `yaml:"fsGroup"`
		SeccompPro struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container
}

type container struct {
	Image string
	Args  []string
	Env   []struct{ Name string }
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Startup         probe     `yaml:"startupProbe"`
	Readiness       probe     `yaml:"readinessProbe"`
	Liveness        probe     `yaml:"livenessProbe"`
	Resources       yaml.Node // compared as they are
	SecurityContext struct {
		Escalation *bool                   `yaml:"allowPrivilegeEscalation"`
		ReadOnly   bool                    `yaml:"readOnlyRootFilesystem"`
		Caps       struct{ Drop []string } `yaml:"capabilities"`
	} `yaml:"securityContext"`
	Mounts []struct {
		Name string
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests reads the objects of the base and of a variant, each by its kind and name.
func manifests(t *testing.T, folders ...string) map[string]*manifest {
	t.Helper()
	found := map[string]*manifest{}
	for _, folder := range folders {
		paths, err := filepath.Glob("../../deploy/kubernetes/" + folder + "/*.yaml")
		if err != nil || len(paths) < 2 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			if filepath.Base(path) == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
				m := new(manifest)
				if err := d.Decode(m); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(path, err)
				}
				key := m.Kind + " " + m.Metadata.Name
				if found[key] != nil {
					t.Errorf("%s is there twice", key)
				}
				found[key] = m
			}
		}
	}
	return found
}

// selects returns the labels by which an object selects pods, or nil if it does not.
func (m *manifest) selects(t *testing.T) (l labels) {
	t.Helper()
	node := &m.Spec.Selector
	if m.Kind == "NetworkPolicy" {
		node = &m.Spec.PodSelector
	}
	if m.Kind == "Service" {
		if err := node.Decode(&l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	var wrapped struct {
		Labels labels `yaml:"matchLabels"`
	}
	if err := node.Decode(&wrapped); err != nil {
		t.Fatal(m.Kind, err)
	}
	return wrapped.Labels
}

// fits says what is wrong with the objects around a StatefulSet or Deployment, and returns its settings as the
// daemon reads them, and its container.
func fits(t *testing.T, found map[string]*manifest, workload *manifest, args []string, env variables) (*parsed,
	container) {
	t.Helper()
	service, budget := found["Service katsubushi"], found["PodDisruptionBudget katsubushi"]
	if workload == nil || service == nil || budget == nil || len(workload.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("found %v", found)
	}
	template := workload.Spec.Template
	c := template.Spec.Containers[0]
	for key, m := range found {
		l := m.selects(t)
		if len(l) == 0 {
			t.Errorf("%s selects nothing", key)
		}
		for k, v := range l {
			if template.Metadata.Labels[k] != v {
				t.Errorf("%s selects pods with %s=%s", key, k, v)
			}
		}
	}
	if budget.Spec.MaxUnavailable != 1 || workload.Spec.Replicas < 2 ||
		workload.Spec.Strategy.RollingUpdate.MaxUnavailable != 0 || service.Spec.ClusterIP != "None" {
		t.Errorf("%d pods, %d may be missing; the service is %+v", workload.Spec.Replicas, budget.Spec.MaxUnavailable,
			service.Spec)
	}
	p, _, err := parse(settings, args, env, nil)
	if err != nil || p.validate() != nil || len(p.args) > 0 || len(p.notes) > 0 || len(p.unknown) > 0 {
		t.Fatalf("%v: %v %v, %v, %v, %v", args, err, p.problems, p.args, p.notes, p.unknown)
	}
	want := map[string]int{"memcached": p.Port, "http": p.HTTPPort}
	got := map[string]int{}
	for _, port := range c.Ports {
		got[port.Name] = port.Port
	}
	if !reflect.DeepEqual(got, want) || p.HTTPPort == 0 || len(service.Spec.Ports) != len(want) {
		t.Errorf("ports %v, the daemon's are %v, and those of the service %v", got, want, service.Spec.Ports)
	}
	for _, port := range service.Spec.Ports {
		if want[port.Target] != port.Port || port.Name != port.Target {
			t.Errorf("the service's port %+v", port)
		}
	}
	// A daemon that waits for its lease, its clock or its store must not be restarted: only
	// readiness asks for ids.
	for path, probes := range map[string][]probe{"/healthz": {c.Startup, c.Liveness}, "/readyz": {c.Readiness}} {
		for _, probe := range probes {
			if probe.Get.Path != path || probe.Get.Port != "http" {
				t.Errorf("%+v does not ask %s", probe, path)
			}
		}
	}
	if grace := time.Duration(template.Spec.Grace) * time.Second; p.ShutdownDelay == 0 ||
		grace < p.ShutdownDelay+p.DrainTimeout+5*time.Second {
		t.Errorf("killed after %v, and stopping takes %v and %v", grace, p.ShutdownDelay, p.DrainTimeout)
	}
	s, own := template.Spec.SecurityContext, c.SecurityContext
	if !s.NonRoot || s.User != 65532 || s.SeccompPro.Type != "RuntimeDefault" || own.Escalation == nil ||
		*own.Escalation || !own.ReadOnly || !slices.Equal(own.Caps.Drop, []string{"ALL"}) {
		t.Errorf("security: %+v, %+v", s, own)
	}
	return p, c
}

// fromServices are variables that Kubernetes makes of a service called katsubushi, unless it is told not to.
var fromServices = []string{"KATSUBUSHI_PORT", "tcp://10.3.2.1:11212", "KATSUBUSHI_SERVICE_PORT_HTTP", "8081"}

func TestTheStatefulSetFitsTheDaemon(t *testing.T) {
	found := manifests(t, "base", "statefulset")
	set := found["StatefulSet katsubushi"]
	if set == nil {
		t.Fatal(found)
	}
	args := slices.Clone(set.Spec.Template.Spec.Containers[0].Args)
	i := slices.Index(args, "-worker-id=ordinal")
	if id, err := ordinalOf(set.Metadata.Name+"-3", ""); i < 0 || err != nil || id != 3 {
		t.Fatalf("%v: of %s-3 the worker id is %d, %v", args, set.Metadata.Name, id, err)
	}
	args[i] = "-worker-id=3"
	p, c := fits(t, found, set, args, environment(fromServices...))
	if set.Spec.ServiceName != found["Service katsubushi"].Metadata.Name {
		t.Errorf("serviceName %s", set.Spec.ServiceName)
	}
	if p.StateDir == "" || p.StateDirByDefault || len(c.Mounts) != 1 || c.Mounts[0].Path != p.StateDir ||
		len(set.Spec.Claims) != 1 || set.Spec.Claims[0].Metadata.Name != c.Mounts[0].Name ||
		set.Spec.Template.Spec.SecurityContext.FSGroup != 65532 {
		t.Errorf("windows are recorded in %s; mounted are %v of %v", p.StateDir, c.Mounts, set.Spec.Claims)
	}
}

func TestTheDeploymentFitsTheDaemon(t *testing.T) {
	found := manifests(t, "base", "deployment")
	deployment := found["Deployment katsubushi"]
	if deployment == nil {
		t.Fatal(found)
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args
	p, c := fits(t, found, deployment, args,
		environment(append(slices.Clone(fromServices), "KATSUBUSHI_STORE", "rediss://:secret@redis:6380/0")...))
	if len(c.Env) != 1 || c.Env[0].Name != "KATSUBUSHI_STORE" || p.Store.URL == "" || len(p.WorkerIDs) > 0 {
		t.Errorf("%+v, %+v", c.Env, p.Store)
	}
	if p.Counters.Dir != "" || len(c.Mounts) > 0 {
		t.Errorf("sequences would be recorded in %q, which is lost with the pod; mounted: %v", p.Counters.Dir, c.Mounts)
	}
	// What both variants have alike stays alike.
	other := manifests(t, "statefulset")["StatefulSet katsubushi"].Spec.Template.Spec.Containers[0]
	both := func(c container) []any {
		var resources any
		if err := c.Resources.Decode(&resources); err != nil {
			t.Fatal(err)
		}
		shared := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool {
			return strings.HasPrefix(a, "-worker-id=") || strings.HasPrefix(a, "-state-dir=")
		})
		return []any{c.Image, shared, c.Ports, resources, c.SecurityContext}
	}
	if a, b := both(c), both(other); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestTheServiceMonitorFindsTheMetrics under the job's name that the alerts expect of a fleet.
func TestTheServiceMonitorFindsTheMetrics(t *testing.T) {
	m := manifests(t, "servicemonitor")["ServiceMonitor katsubushi"]
	service := manifests(t, "base")["Service katsubushi"]
	if m == nil || len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Path != "/metrics" ||
		m.Spec.Endpoints[0].Port != "http" ||
		!slices.ContainsFunc(service.Spec.Ports, func(p struct {
			Name   string
			Target string `yaml:"targetPort"`
			Port   int
		}) bool {
			return p.Name == "http"
		}) || m.selects(t)[m.Spec.JobLabel] != "katsubushi" {
		t.Errorf("%+v", m)
	}
}

// TestTheComposeFileFitsTheDaemon: three daemons on one pool, and the image is that of Kubernetes.
func TestTheComposeFileFitsTheDaemon(t *testing.T) {
	type service struct {
		Image       string
		Command     []string
		Environment map[string]string
		Ports       []string
		Grace       string `yaml:"stop_grace_period"`
		Restart     string
		Health      struct{ Test []string } `yaml:"healthcheck"`
	}
	var file struct{ Services map[string]service }
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	image := manifests(t, "statefulset")["StatefulSet katsubushi"].Spec.Template.Spec.Containers[0].Image
	if image != "katsubushi:"+untagged {
		t.Errorf("the image is %s, and make image makes %s", image, untagged)
	}
	pool := file.Services["pool"]
	if pool.Image != image || len(pool.Command) < 2 || pool.Command[0] != "lease" || pool.Command[1] != "init" {
		t.Errorf("%+v", pool)
	}
	published := map[string]bool{}
	for name, s := range file.Services {
		if !strings.HasPrefix(name, "ids") {
			continue
		}
		var env []string
		for k, v := range s.Environment {
			env = append(env, k, v)
		}
		p, _, err := parse(settings, s.Command, environment(env...), nil)
		if err != nil || p.validate() != nil || len(p.args) > 0 || len(p.notes) > 0 || len(p.unknown) > 0 {
			t.Fatalf("%v: %v %v, %v, %v, %v", s.Command, err, p.problems, p.args, p.notes, p.unknown)
		}
		if s.Image != image || s.Restart != "unless-stopped" || !slices.Contains(pool.Command, "-store="+p.Store.URL) ||
			p.Counters.Dir != "" {
			t.Errorf("%s: %+v", name, s)
		}
		// The health check knows the environment and no flags.
		if p.HTTPPort == 0 || s.Environment["HTTP_PORT"] == "" ||
			!slices.Equal(s.Health.Test, []string{"CMD", "/katsubushi", "healthcheck", "-ready"}) || p.Port != 11212 {
			t.Errorf("%s: %+v", name, s)
		}
		grace, err := time.ParseDuration(s.Grace)
		if err != nil || grace < p.ShutdownDelay+p.DrainTimeout+5*time.Second {
			t.Errorf("%s is killed after %v: %v", name, grace, err)
		}
		for _, port := range s.Ports {
			if published[port] || !strings.HasSuffix(port, ":11212") {
				t.Errorf("%s: port %s", name, port)
			}
			published[port] = true
		}
	}
	if len(published) != 3 {
		t.Errorf("ports %v", published)
	}
}

// TestEveryRecipeNamesTheSameImage, and the chart its tag.
func TestEveryRecipeNamesTheSameImage(t *testing.T) {
	for path, want := range map[string]string{
		"kubernetes/daemonset/daemonset.yaml": "image: katsubushi:" + untagged + " ",
		"kubernetes/sidecar/sidecar.yaml":     "image: katsubushi:" + untagged + " ",
		"helm/katsubushi/Chart.yaml":          "\nappVersion: " + untagged + "\n",
	} {
		if text, err := os.ReadFile("../../deploy/" + path); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s has no %q: %v", path, want, err)
		}
	}
}
