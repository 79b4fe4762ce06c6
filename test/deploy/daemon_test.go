package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// program builds the daemon.
func program(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/katsubushi"
	build := exec.Command("go", "build", "-C", "../..", "-o", path, "./cmd/katsubushi")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// inPod returns a container's arguments and variables as in a pod whose files are below dir and whose
// secrets are the ones given.
func inPod(t *testing.T, c core.Container, dir string, secrets map[string]string) (args, env []string) {
	t.Helper()
	mounts := []string{"$(POD_IP)", "10.0.0.7", "-worker-id=ordinal", "-worker-id=3"}
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.MountPath, dir+m.MountPath)
		if err := os.MkdirAll(dir+m.MountPath, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range c.Args {
		args = append(args, strings.NewReplacer(mounts...).Replace(a))
	}
	for _, e := range c.Env {
		value := e.Value
		if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
			if value = secrets[from.SecretKeyRef.Name]; value == "" {
				t.Errorf("no secret %s", from.SecretKeyRef.Name)
			}
		}
		env = append(env, e.Name+"="+value)
	}
	return args, env
}

// certificate writes one, and its key.
func certificate(t *testing.T, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(),
		NotAfter: time.Now().Add(100 * 24 * time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed},
		key: {Type: "PRIVATE KEY", Bytes: private}} {
		write(t, path, string(pem.EncodeToMemory(block)))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTheDaemonTakesTheArguments of every output, with all that the chart can add.
func TestTheDaemonTakesTheArguments(t *testing.T) {
	katsubushi := program(t)
	all := outputs(t)
	for _, mode := range variants {
		all["everything in helm "+mode] = render(t, "mode="+mode, "image.repository=registry.example/katsubushi",
			"image.tag=3.1.4", "serviceMonitor.enabled=true", "names=orders", "tls.secret=tls",
			"auth.secret=users", "auth.forwardUser=fleet", "counters.secret.name=etcd", "ports.redis=6379",
			"ports.grpc=8080", "args={-max-wait=2s}", "env[0].name=KATSUBUSHI_IDLE_TIMEOUT,env[0].value=60s")
	}
	for name, text := range all {
		_, pod := read(t, name, text)
		dir := t.TempDir()
		args, env := inPod(t, pod.Spec.Containers[0], dir,
			map[string]string{"katsubushi-store": "rediss://:secret@redis:6380/0", "etcd": "etcd://e1:2379"})
		if strings.HasPrefix(name, "everything") {
			order := "free" // nobody reaches a daemon on a socket, so it can lead nothing
			write(t, dir+"/etc/katsubushi-auth/users", "app:secret\nfleet:other\n")
			write(t, dir+"/etc/katsubushi-auth/forward-password", "other\n")
			if !strings.HasSuffix(name, "daemonset") {
				order = "strict"
				certificate(t, dir+"/etc/katsubushi-tls/tls.crt", dir+"/etc/katsubushi-tls/tls.key")
			}
			write(t, dir+"/etc/katsubushi/names", "orders sequence order="+order+"\n")
		}
		c := exec.Command(katsubushi, append([]string{"check-config"}, args...)...)
		c.Env = env
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %q: %v\n%s", name, args, err, out)
		}
	}
}
