// Package deploy reads deploy/ with the libraries of those who will: kustomize, helm, Kubernetes' own types,
// and Docker's reader of compose files. It is a module of its own: make test-kubernetes.
package deploy

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var variants = []string{"statefulset", "deployment", "daemonset"}

// build does what kubectl kustomize does with testdata's folder, which stands for a user's.
func build(t *testing.T, variant string) []byte {
	t.Helper()
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // kubectl's
	made, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), "testdata/"+variant)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// decode reads objects as strictly as an API server does: a field that Kubernetes does not know is
// an error, and so is one that is there twice.
func decode(t *testing.T, text []byte) ([]runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, networking.AddToScheme,
		policy.AddToScheme, monitoring.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	var list []runtime.Object
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		o, _, err := strict.Decode(part, nil, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// parts are what a variant has.
type parts struct {
	set        *apps.StatefulSet
	deployment *apps.Deployment
	nodes      *apps.DaemonSet
	service    *core.Service
	budget     *policy.PodDisruptionBudget
	monitor    *monitoring.ServiceMonitor
	rule       *monitoring.PrometheusRule
	configs    []*core.ConfigMap
	policies   []*networking.NetworkPolicy
}

// outputs are what users apply: each kustomization of testdata, and the chart in each mode.
func outputs(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, variant := range variants {
		all["kustomize "+variant] = build(t, variant)
	}
	for _, mode := range variants {
		all["helm "+mode] = render(t, "mode="+mode, "image.repository=registry.example/katsubushi", "image.tag=3.1.4",
			"serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")
	}
	return all
}

func read(t *testing.T, variant string, text []byte) (p parts, pod core.PodTemplateSpec) {
	t.Helper()
	list, err := decode(t, text)
	if err != nil {
		t.Fatalf("%s: %v", variant, err)
	}
	for _, o := range list {
		if m, ok := o.(meta.Object); !ok || m.GetNamespace() != "ids" {
			t.Errorf("%T is not in the namespace", o)
		}
		switch o := o.(type) {
		case *apps.StatefulSet:
			p.set, pod = o, o.Spec.Template
		case *apps.Deployment:
			p.deployment, pod = o, o.Spec.Template
		case *apps.DaemonSet:
			p.nodes, pod = o, o.Spec.Template
		case *core.Service:
			p.service = o
		case *core.ConfigMap:
			p.configs = append(p.configs, o)
		case *monitoring.PrometheusRule:
			p.rule = o
		case *policy.PodDisruptionBudget:
			p.budget = o
		case *monitoring.ServiceMonitor:
			p.monitor = o
		case *networking.NetworkPolicy:
			p.policies = append(p.policies, o)
		default:
			t.Errorf("%T", o)
		}
	}
	if p.service == nil || p.monitor == nil || len(p.policies) == 0 || len(pod.Labels) == 0 ||
		(p.budget == nil) != (p.nodes != nil) { // a drain leaves the pods of a DaemonSet alone
		t.Fatalf("%s: %+v", variant, p)
	}
	return p, pod
}

func TestKubernetesTakesTheVariants(t *testing.T) {
	for variant, text := range outputs(t) {
		p, pod := read(t, variant, text)
		set := labels.Set(pod.Labels)
		selectors := []*meta.LabelSelector{&p.monitor.Spec.Selector}
		if p.budget != nil {
			selectors = append(selectors, p.budget.Spec.Selector)
		}
		for _, n := range p.policies {
			selectors = append(selectors, &n.Spec.PodSelector)
		}
		switch {
		case p.set != nil:
			selectors = append(selectors, p.set.Spec.Selector)
			if u := p.set.Spec.UpdateStrategy.Type; u != "" && u != apps.RollingUpdateStatefulSetStrategyType {
				t.Error(u)
			}
			if r := p.set.Spec.PersistentVolumeClaimRetentionPolicy; r == nil ||
				r.WhenDeleted != apps.RetainPersistentVolumeClaimRetentionPolicyType || r.WhenScaled != r.WhenDeleted {
				t.Errorf("%+v", r)
			}
			if p.set.Spec.PodManagementPolicy != apps.ParallelPodManagement ||
				!slices.Equal(p.set.Spec.VolumeClaimTemplates[0].Spec.AccessModes,
					[]core.PersistentVolumeAccessMode{core.ReadWriteOnce}) {
				t.Errorf("%+v", p.set.Spec)
			}
		case p.nodes != nil:
			selectors = append(selectors, p.nodes.Spec.Selector)
			if u := p.nodes.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge.IntValue() != 0 {
				t.Errorf("two daemons cannot have one socket: %+v", u)
			}
		default:
			selectors = append(selectors, p.deployment.Spec.Selector)
			if u := p.deployment.Spec.Strategy; u.Type != apps.RollingUpdateDeploymentStrategyType ||
				u.RollingUpdate.MaxUnavailable.IntValue() != 0 {
				t.Errorf("%+v", u)
			}
		}
		for _, s := range selectors {
			if l, err := meta.LabelSelectorAsSelector(s); err != nil || l.Empty() || !l.Matches(set) {
				t.Errorf("%s: %v does not select %v: %v", variant, s, set, err)
			}
		}
		if !labels.SelectorFromSet(p.service.Spec.Selector).Matches(set) || p.service.Spec.ClusterIP != core.ClusterIPNone {
			t.Errorf("%s: %+v", variant, p.service.Spec)
		}
		// They compare clocks, and ask the one that leads a sequence.
		if mayReach(p.policies, set, 11212) == (p.nodes != nil) || mayReach(p.policies, set, 22) {
			t.Errorf("%s: the daemons do not reach each other, or more than each other", variant)
		}
		container(t, variant, p, pod.Spec)
	}
}

// container checks what is typed as text, so that decoding does not.
func container(t *testing.T, variant string, p parts, pod core.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	if len(pod.Containers) != 1 || c.Image != "registry.example/katsubushi:3.1.4" {
		t.Errorf("%s: %s", variant, c.Image)
	}
	named := func(port intstr.IntOrString) bool {
		return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port.StrVal })
	}
	for _, port := range p.service.Spec.Ports {
		if !named(port.TargetPort) {
			t.Errorf("%s: no port %v", variant, port.TargetPort)
		}
	}
	for _, n := range p.policies {
		for _, in := range n.Spec.Ingress {
			for _, port := range in.Ports {
				if !named(*port.Port) || *port.Protocol != core.ProtocolTCP {
					t.Errorf("%s: no port %v", variant, port)
				}
			}
		}
		for _, kind := range n.Spec.PolicyTypes {
			if kind != networking.PolicyTypeIngress && kind != networking.PolicyTypeEgress {
				t.Error(kind)
			}
		}
	}
	hardened(t, variant, c)
	for _, s := range pod.TopologySpreadConstraints {
		if s.WhenUnsatisfiable != core.ScheduleAnyway || s.MaxSkew < 1 {
			t.Errorf("%+v", s)
		}
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", s)
	}
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks {
		t.Errorf("%+v", pod)
	}
	if p.budget != nil && *p.budget.Spec.UnhealthyPodEvictionPolicy != policy.AlwaysAllow {
		t.Errorf("%+v", p.budget.Spec)
	}
}

// hardened checks the daemon's container in any pod.
func hardened(t *testing.T, variant string, c core.Container) {
	t.Helper()
	named := func(port intstr.IntOrString) bool {
		return slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port.StrVal })
	}
	for _, probe := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || !named(probe.HTTPGet.Port) || probe.TimeoutSeconds < 1 {
			t.Errorf("%s: %+v", variant, probe)
		}
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
		t.Errorf("%+v", s)
	}
	if c.Resources.Requests.Memory().Cmp(*c.Resources.Limits.Memory()) > 0 {
		t.Errorf("%+v", c.Resources)
	}
}

// mayReach reports whether the policies that select pods with these labels let one of them open this
// port of another: policies add up, and no policy of a direction permits all.
func mayReach(policies []*networking.NetworkPolicy, pod labels.Set, port int) bool {
	out, in := true, true
	for _, n := range policies {
		for _, kind := range n.Spec.PolicyTypes {
			out = out && kind != networking.PolicyTypeEgress
			in = in && kind != networking.PolicyTypeIngress
		}
	}
	opens := func(peers []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort) bool {
		selected := len(peers) == 0 || slices.ContainsFunc(peers, func(p networking.NetworkPolicyPeer) bool {
			l, err := meta.LabelSelectorAsSelector(p.PodSelector)
			return err == nil && p.NamespaceSelector == nil && p.IPBlock == nil && l.Matches(pod)
		})
		return selected && (len(ports) == 0 || slices.ContainsFunc(ports, func(p networking.NetworkPolicyPort) bool {
			return p.Port == nil || p.Port.IntValue() == port || p.Port.StrVal == "memcached"
		}))
	}
	for _, n := range policies {
		out = out || slices.ContainsFunc(n.Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool {
			return opens(r.To, r.Ports)
		})
		in = in || slices.ContainsFunc(n.Spec.Ingress, func(r networking.NetworkPolicyIngressRule) bool {
			return opens(r.From, r.Ports)
		})
	}
	return out && in
}

// TestWrongFieldsAreNoticed: so the test above can fail.
func TestWrongFieldsAreNoticed(t *testing.T) {
	text := build(t, "statefulset")
	for _, c := range []struct{ old, new, want string }{
		{"  replicas: 3", "  replica: 3", "unknown field"},
		{"  replicas: 3", "  replicas: three", "cannot unmarshal"},
		{"  replicas: 3", "  replicas: 3\n  replicas: 3", "already set"},
		{"storage: 16Mi", "storage: 16Mib", "quantities must match"},
		{"kind: PodDisruptionBudget", "kind: PodBudget", "no kind"},
	} {
		if wrong := bytes.Replace(text, []byte(c.old), []byte(c.new), 1); bytes.Equal(wrong, text) {
			t.Errorf("there is no %q", c.old)
		} else if _, err := decode(t, wrong); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}

// TestKubectlBuildsTheSame, where there is one.
func TestKubectlBuildsTheSame(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip(err)
	}
	for _, variant := range variants {
		got, err := exec.Command(kubectl, "kustomize", "testdata/"+variant).Output()
		if err != nil || !bytes.Equal(got, build(t, variant)) {
			t.Errorf("%s: %v:\n%s", variant, err, got)
		}
	}
}

// compose reads a compose file as docker compose does.
func compose(text []byte) (*types.Project, error) {
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: "../../deploy", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	})
}

func TestDockerTakesTheComposeFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := compose(text)
	if err != nil {
		t.Fatal(err)
	}
	if names := project.ServiceNames(); !slices.Equal(names, []string{"ids1", "ids2", "ids3", "pool", "redis"}) {
		t.Error(names)
	}
	ids := project.Services["ids2"]
	if ids.DependsOn["pool"].Condition != types.ServiceConditionCompletedSuccessfully || !ids.ReadOnly ||
		ids.Ports[0].Published != "11213" || ids.Ports[0].Target != 11212 {
		t.Errorf("%+v", ids)
	}
	for _, c := range []struct{ old, new, want string }{
		{"    restart: on-failure", "    restarts: on-failure", "restarts"},
		{"condition: service_healthy", "condition: service_well", "condition"},
		{"    pool: {condition", "    pools: {condition", "pools"},
	} {
		if wrong := bytes.Replace(text, []byte(c.old), []byte(c.new), 1); bytes.Equal(wrong, text) {
			t.Errorf("there is no %q", c.old)
		} else if _, err := compose(wrong); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.new, err)
		}
	}
}
