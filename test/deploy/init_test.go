package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"helm.sh/helm/v3/pkg/action"
)

// combinations calls do with every combination of answers to the last four questions of katsubushi init.
func combinations(do func(store, ports, tls, sequences string)) {
	for _, store := range []string{"none", "redis://h:7000/0", "etcd://u@a,b", "zookeeper://zk/p"} {
		for _, ports := range []string{"11212 8081", "11300 9090"} {
			for _, tls := range []string{"none", "/etc/tls/cert.pem /etc/tls/key.pem"} {
				for _, sequences := range []string{"none", "orders,eu:items etcds://u@e:1/p", "orders mysql://u@h/$d"} {
					do(store, ports, tls, sequences)
				}
			}
		}
	}
}

// TestHelmTakesTheValuesOfInit: schema, templates and Kubernetes' types, for every combination of answers.
func TestHelmTakesTheValuesOfInit(t *testing.T) {
	katsubushi, c := program(t), load(t, chartPath)
	n := 0
	combinations(func(store, ports, tls, sequences string) {
		n++
		dir := fmt.Sprintf("%s/%d", t.TempDir(), n)
		out, err := exec.Command(katsubushi, "init", "-dir", dir, "-hosts", "helm:5", "-store", store, "-ports", ports,
			"-tls", tls, "-sequences", sequences).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(dir + "/values.yaml")
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &values); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
		install.ReleaseName, install.Namespace, install.DryRun, install.ClientOnly = "blue", "ids", true, true
		made, err := install.Run(c, values)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		list, err := decode(t, []byte(strings.TrimSpace(made.Manifest)))
		if err != nil {
			t.Fatalf("%v\n%s", err, made.Manifest)
		}
		for _, o := range list {
			switch o := o.(type) {
			case *apps.StatefulSet:
				if store != "none" || *o.Spec.Replicas != 5 {
					t.Errorf("%s\n%s", text, made.Manifest)
				}
			case *apps.Deployment:
				if store == "none" || *o.Spec.Replicas != 5 {
					t.Errorf("%s\n%s", text, made.Manifest)
				}
			}
		}
		port, _, _ := strings.Cut(ports, " ")
		for answer, want := range map[string]string{ports: "containerPort: " + port, tls: "katsubushi-tls",
			sequences: "orders sequence", store: "KATSUBUSHI_STORE"} {
			if answer != "none" && !strings.Contains(made.Manifest, want) {
				t.Errorf("%s is not in\n%s", want, made.Manifest)
			}
		}
		for url, port := range map[string]int{"redis://h:7000": 7000, "etcd://": 2379, "zookeeper://": 2181} {
			if strings.HasPrefix(store, url) && !egress(made.Manifest, t, port) {
				t.Errorf("the NetworkPolicy does not open %d\n%s", port, text)
			}
		}
	})
}

// egress reports whether daemons may connect to a port.
func egress(manifest string, t *testing.T, port int) bool {
	list, err := decode(t, []byte(strings.TrimSpace(manifest)))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		n, ok := o.(*networking.NetworkPolicy)
		if ok && slices.ContainsFunc(n.Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool {
			return slices.ContainsFunc(r.Ports, func(p networking.NetworkPolicyPort) bool {
				return p.Port != nil && p.Port.IntValue() == port
			})
		}) {
			return true
		}
	}
	return false
}

// TestDockerTakesTheComposeFileOfInit, for every combination of answers, and it leads to files that are there.
func TestDockerTakesTheComposeFileOfInit(t *testing.T) {
	katsubushi := program(t)
	n := 0
	combinations(func(store, ports, tls, sequences string) {
		n++
		dir := fmt.Sprintf("%s/%d", t.TempDir(), n)
		out, err := exec.Command(katsubushi, "init", "-dir", dir, "-hosts", "compose:3", "-store", store, "-ports", ports,
			"-tls", tls, "-sequences", sequences).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(dir + "/compose.yaml")
		if err != nil {
			t.Fatal(err)
		}
		project, err := compose(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		want := []string{"ids1", "ids2", "ids3"}
		if store != "none" {
			want = append(want, "pool")
		}
		if got := project.ServiceNames(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if c := project.Services["pool"].Command; store != "none" && !slices.Equal(c[:2], []string{"lease", "init"}) ||
			slices.Contains(c, "-how=new") {
			t.Errorf("the pool's command is %q", c)
		}
		var published []string
		configs := map[string]bool{}
		for _, name := range want[:3] {
			s := project.Services[name]
			published = append(published, s.Ports[0].Published)
			if fmt.Sprint(s.Ports[0].Target) != strings.Fields(ports)[0] ||
				s.Volumes[0].Target != *s.Environment["KATSUBUSHI_CONFIG"] {
				t.Errorf("%s: %+v", name, s)
			}
			file := strings.TrimPrefix(s.Volumes[0].Source, "../../deploy/")
			if _, err := os.Stat(dir + "/" + file); err != nil {
				t.Error(err)
			}
			configs[file] = true
			state := s.Volumes[len(s.Volumes)-1]
			if (state.Type == "volume" && state.Source == name && state.Target == "/var/lib/katsubushi") != (store == "none") {
				t.Errorf("%s: state in %+v", name, state)
			}
		}
		slices.Sort(published)
		if len(slices.Compact(published)) != 3 || (len(configs) == 3) != (store == "none") {
			t.Errorf("ports %q, settings %v", published, configs)
		}
	})
}
