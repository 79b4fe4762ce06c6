package deploy

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
)

// sidecars are the pods of a user's that got a daemon: by kustomize, and by a chart that has ours below it.
func sidecars(t *testing.T) map[string]core.PodSpec {
	t.Helper()
	parent := load(t, "testdata/parent")
	parent.AddDependency(load(t, chartPath))
	text, err := template(parent)
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]core.PodSpec{}
	for name, text := range map[string][]byte{"helm sidecar": text, "kustomize sidecar": build(t, "sidecar")} {
		list, err := decode(t, text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, o := range list {
			d, ok := o.(*apps.Deployment)
			if !ok {
				t.Fatalf("%s: %T", name, o)
			}
			if d.Name == "shop" {
				pods[name] = d.Spec.Template.Spec
			} else if len(d.Spec.Template.Spec.InitContainers) > 0 {
				t.Errorf("%s: %s got a daemon too", name, d.Name)
			}
		}
	}
	return pods
}

func TestSidecarsServeThePod(t *testing.T) {
	pods := sidecars(t)
	if len(pods) != 2 {
		t.Fatal(pods)
	}
	for name, pod := range pods {
		if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 || len(pod.Volumes) != 1 {
			t.Fatalf("%s: %+v", name, pod)
		}
		c := pod.InitContainers[0]
		hardened(t, name, c)
		// Kubernetes starts the others when the startup probe succeeds.
		if c.RestartPolicy == nil || *c.RestartPolicy != core.ContainerRestartPolicyAlways ||
			c.StartupProbe.HTTPGet.Path != "/readyz" || c.Image != "registry.example/katsubushi:3.1.4" ||
			!*c.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: %+v", name, c)
		}
		ours, theirs := c.VolumeMounts[0], pod.Containers[0].VolumeMounts[0]
		if v := pod.Volumes[0]; v.EmptyDir == nil || ours.Name != v.Name || theirs.Name != v.Name ||
			ours.MountPath != theirs.MountPath || ours.ReadOnly || !theirs.ReadOnly {
			t.Errorf("%s: %+v, %+v, %+v", name, v, ours, theirs)
		}
	}
}

// TestTheDaemonMayWriteTheFolderOfTheNode, which the kubelet makes for root.
func TestTheDaemonMayWriteTheFolderOfTheNode(t *testing.T) {
	for name, text := range outputs(t) {
		p, pod := read(t, name, text)
		if p.nodes == nil {
			continue
		}
		init, dir := pod.Spec.InitContainers[0], pod.Spec.Volumes[0].HostPath
		user := fmt.Sprintf("%d:%d", *pod.Spec.SecurityContext.RunAsUser, *pod.Spec.SecurityContext.RunAsGroup)
		if len(pod.Spec.InitContainers) != 1 || !slices.Equal(init.Command, []string{"chown", user, dir.Path}) ||
			!slices.Equal(init.SecurityContext.Capabilities.Add, []core.Capability{"CHOWN"}) {
			t.Errorf("%s: %+v", name, init)
		}
		for _, c := range []core.Container{init, pod.Spec.Containers[0]} {
			if m := c.VolumeMounts; len(m) != 1 || m[0].Name != pod.Spec.Volumes[0].Name || m[0].MountPath != dir.Path {
				t.Errorf("%s: %s: %+v", name, c.Name, m)
			}
		}
	}
}

// TestDaemonsOnSocketsIssueIDs starts the real daemon with the arguments of each recipe, and a real Redis.
func TestDaemonsOnSocketsIssueIDs(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	katsubushi, redis := program(t), t.TempDir()
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", redis+"/s", "--dir", redis, "--save", "",
		"--maxmemory-policy", "noeviction")
	started(t, server, "accept connections")
	store := "unix://" + redis + "/s"
	if out, err := exec.Command(katsubushi, "lease", "init", "-how", "new", "-store", store).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	containers := map[string]core.Container{}
	for name, pod := range sidecars(t) {
		containers[name] = pod.InitContainers[0]
	}
	for name, text := range outputs(t) {
		if p, pod := read(t, name, text); p.nodes != nil {
			containers[name] = pod.Spec.Containers[0]
		}
	}
	if len(containers) != 4 {
		t.Fatal(slices.Collect(maps.Keys(containers)))
	}
	seen := map[string]string{}
	for name, c := range containers {
		dir := t.TempDir()
		args, env := inPod(t, c, dir, map[string]string{"katsubushi-store": store})
		// On this host others may have the port.
		args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-http-port=") })
		daemon := exec.Command(katsubushi, append(args, "-http-port=0")...)
		daemon.Env = env
		started(t, daemon, `"msg":"listening"`)
		path := dir + c.VolumeMounts[0].MountPath + "/katsubushi.sock"
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
			t.Errorf("%s: other users cannot connect: %v", name, err)
			continue
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer conn.Close()
		fmt.Fprint(conn, "get id\r\nquit\r\n")
		var answer bytes.Buffer
		answer.ReadFrom(conn)
		id := regexp.MustCompile(`^VALUE id 0 \d+\r\n(\d+)\r\nEND\r\n$`).FindStringSubmatch(answer.String())
		if id == nil || seen[id[1]] != "" {
			t.Errorf("%s: %q, %s had it", name, answer.String(), seen[id[1]])
			continue
		}
		seen[id[1]] = name
	}
}

// started starts a program, waits until a line of its output has this text, and ends it with the test.
func started(t *testing.T, c *exec.Cmd, text string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
	})
	var all strings.Builder
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if strings.Contains(lines.Text(), text) {
			go func() { // so that it never waits for a reader
				for lines.Scan() {
				}
				r.Close()
			}()
			return
		}
	}
	t.Fatalf("%s ended:\n%s", c.Path, all.String())
}
