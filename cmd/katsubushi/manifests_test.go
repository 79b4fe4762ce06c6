package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// These tests compare deploy/kubernetes and deploy/compose.yaml with the program's own flags. Whether
// Kubernetes takes the files, make test-kubernetes says.

// part returns what stands in an object at a path of keys and indices, or nil.
func part(object any, path string) any {
	for key := range strings.FieldsSeq(path) {
		switch o := object.(type) {
		case map[string]any:
			object = o[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(o) {
				return nil
			}
			object = o[i]
		default:
			return nil
		}
	}
	return object
}

// texts returns the strings of a list.
func texts(object any, path string) (list []string) {
	all, _ := part(object, path).([]any)
	for _, text := range all {
		list = append(list, fmt.Sprint(text))
	}
	return list
}

// has compares parts of an object with what they must be.
func has(t *testing.T, object any, want map[string]any) {
	t.Helper()
	for path, want := range want {
		if got := part(object, path); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// manifests reads the objects of the base and of a variant, each by its kind and name.
func manifests(t *testing.T, folders ...string) map[string]any {
	t.Helper()
	found := map[string]any{}
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
				var m any
				if err := d.Decode(&m); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(path, err)
				}
				key := fmt.Sprint(part(m, "kind"), " ", part(m, "metadata name"))
				if found[key] != nil {
					t.Errorf("%s is there twice", key)
				}
				found[key] = m
			}
		}
	}
	return found
}

// accepted returns settings as the daemon reads them; it must have nothing to say of them.
func accepted(t *testing.T, args []string, env variables) *parsed {
	t.Helper()
	p, _, err := parse(settings, args, env, nil)
	if err != nil || p.validate() != nil || len(p.args) > 0 || len(p.notes) > 0 || len(p.unknown) > 0 {
		t.Fatalf("%v: %v %v, %v, %v, %v", args, err, p.problems, p.args, p.notes, p.unknown)
	}
	return p
}

// stopsWithin fails the test if a daemon may be killed before it has stopped.
func stopsWithin(t *testing.T, grace string, p *parsed) {
	t.Helper()
	if d, err := time.ParseDuration(grace); err != nil || d < p.ShutdownDelay+p.DrainTimeout+5*time.Second {
		t.Errorf("killed after %s, and stopping takes %v and %v", grace, p.ShutdownDelay, p.DrainTimeout)
	}
}

// Where kinds of objects say which pods they select.
var selectors = map[string]string{"Service": "spec selector", "NetworkPolicy": "spec podSelector matchLabels"}

// fits says what is wrong with a StatefulSet or Deployment and the objects around it, and returns its settings as the
// daemon reads them.
func fits(t *testing.T, found map[string]any, workload any, args []string, env variables) *parsed {
	t.Helper()
	for key, m := range found {
		kind, _, _ := strings.Cut(key, " ")
		has(t, m, map[string]any{
			cmp.Or(selectors[kind], "spec selector matchLabels"): part(workload, "spec template metadata labels")})
	}
	p := accepted(t, args, env)
	if p.ShutdownDelay == 0 {
		t.Error("no -shutdown-delay")
	}
	has(t, found["PodDisruptionBudget katsubushi"], map[string]any{"spec maxUnavailable": 1})
	has(t, found["Service katsubushi"], map[string]any{
		"spec clusterIP": "None",
		"spec ports": fmt.Sprintf("[map[name:memcached port:%d targetPort:memcached] map[name:http port:%d targetPort:http]]",
			p.Port, p.HTTPPort),
	})
	has(t, workload, map[string]any{
		"spec replicas": 3,
		"spec template metadata labels app.kubernetes.io/name": "katsubushi",
	})
	stopsWithin(t, fmt.Sprint(part(workload, "spec template spec terminationGracePeriodSeconds"), "s"), p)
	// A daemon that waits for its lease, its clock or its store must not be restarted: only readiness asks for ids.
	has(t, part(workload, "spec template spec"), map[string]any{
		"containers 1": nil,
		"containers 0 ports": fmt.Sprintf("[map[containerPort:%d name:memcached] map[containerPort:%d name:http]]",
			p.Port, p.HTTPPort),
		"containers 0 startupProbe httpGet":   "map[path:/healthz port:http]",
		"containers 0 livenessProbe httpGet":  "map[path:/healthz port:http]",
		"containers 0 readinessProbe httpGet": "map[path:/readyz port:http]",
		"containers 0 securityContext": "map[allowPrivilegeEscalation:false capabilities:map[drop:[ALL]] " +
			"readOnlyRootFilesystem:true]",
		"securityContext runAsNonRoot":        true,
		"securityContext runAsUser":           65532,
		"securityContext seccompProfile type": "RuntimeDefault",
	})
	return p
}

// fromServices are variables that Kubernetes makes of a service called katsubushi, unless it is told not to.
var fromServices = []string{"KATSUBUSHI_PORT", "tcp://10.3.2.1:11212", "KATSUBUSHI_SERVICE_PORT_HTTP", "8081"}

const container = "spec template spec containers 0 "

func TestTheStatefulSetFitsTheDaemon(t *testing.T) {
	found := manifests(t, "base", "statefulset")
	set := found["StatefulSet katsubushi"]
	args := texts(set, container+"args")
	i := slices.Index(args, "-worker-id=ordinal")
	if id, err := ordinalOf("katsubushi-3", ""); i < 0 || err != nil || id != 3 {
		t.Fatalf("%v: of katsubushi-3 the worker id is %d, %v", args, id, err)
	}
	args[i] = "-worker-id=3"
	p := fits(t, found, set, args, environment(fromServices...))
	if p.StateDir == "" || p.StateDirByDefault {
		t.Errorf("windows are recorded in %q", p.StateDir)
	}
	has(t, set, map[string]any{
		"spec serviceName":                           "katsubushi",
		container + "volumeMounts":                   "[map[mountPath:" + p.StateDir + " name:state]]",
		"spec volumeClaimTemplates 0 metadata name":  "state",
		"spec volumeClaimTemplates 1":                nil,
		"spec template spec securityContext fsGroup": 65532,
	})
}

func TestTheDeploymentFitsTheDaemon(t *testing.T) {
	found := manifests(t, "base", "deployment")
	deployment := found["Deployment katsubushi"]
	args := texts(deployment, container+"args")
	p := fits(t, found, deployment, args,
		environment(append(slices.Clone(fromServices), "KATSUBUSHI_STORE", "rediss://:secret@redis:6380/0")...))
	if p.Store.URL == "" || len(p.WorkerIDs) > 0 || p.Counters.Dir != "" {
		t.Errorf("the store is %+v; sequences would be recorded in %q, which is lost with the pod", p.Store, p.Counters.Dir)
	}
	// What both variants have alike stays alike.
	other := manifests(t, "statefulset")["StatefulSet katsubushi"]
	has(t, deployment, map[string]any{
		"spec strategy rollingUpdate maxUnavailable": 0,
		container + "env 0 name":                     "KATSUBUSHI_STORE",
		container + "env 1":                          nil,
		container + "volumeMounts":                   nil,
		container + "image":                          part(other, container+"image"),
		container + "resources":                      part(other, container+"resources"),
	})
	shared := slices.DeleteFunc(texts(other, container+"args"), func(a string) bool {
		return strings.HasPrefix(a, "-worker-id=") || strings.HasPrefix(a, "-state-dir=")
	})
	if own := slices.DeleteFunc(args, func(a string) bool { return a == "-state-dir=none" }); !slices.Equal(own, shared) {
		t.Errorf("%q\n%q", own, shared)
	}
}

// TestTheServiceMonitorFindsTheMetrics under the job's name that the alerts expect of a fleet.
func TestTheServiceMonitorFindsTheMetrics(t *testing.T) {
	has(t, manifests(t, "servicemonitor")["ServiceMonitor katsubushi"], map[string]any{
		"spec endpoints":            "[map[interval:15s path:/metrics port:http]]",
		"spec jobLabel":             "app.kubernetes.io/name",
		"spec selector matchLabels": "map[app.kubernetes.io/name:katsubushi]",
	})
}

// TestTheComposeFileFitsTheDaemon: three daemons on one pool, and the image is that of Kubernetes.
func TestTheComposeFileFitsTheDaemon(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	has(t, file, map[string]any{"services ids4": nil})
	const image = "katsubushi:" + untagged // what make image makes
	has(t, manifests(t, "statefulset")["StatefulSet katsubushi"], map[string]any{container + "image": image})
	pool := part(file, "services pool")
	// not -how=new: docker compose up runs it again and again, also when the pool was lost
	has(t, pool, map[string]any{"image": image, "command 0": "lease", "command 1": "init", "command 3": nil})
	for n := range 3 {
		s := part(file, fmt.Sprint("services ids", n+1))
		env := variables{}
		given, _ := part(s, "environment").(map[string]any)
		for name, value := range given {
			env[name] = fmt.Sprint(value)
		}
		p := accepted(t, texts(s, "command"), env)
		if !slices.Contains(texts(pool, "command"), "-store="+p.Store.URL) || p.Counters.Dir != "" || p.HTTPPort == 0 {
			t.Errorf("%+v, %+v", p.Store, p.Counters)
		}
		// The health check knows the environment and no flags.
		has(t, s, map[string]any{
			"image":                 image,
			"restart":               "unless-stopped",
			"environment HTTP_PORT": p.HTTPPort,
			"healthcheck test":      "[CMD /katsubushi healthcheck -ready]",
			"ports":                 fmt.Sprintf("[%d:%d]", 11212+n, p.Port),
		})
		stopsWithin(t, fmt.Sprint(part(s, "stop_grace_period")), p)
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
