package image

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limits are what this machine's processes may have, where podman would want more; and crun needs no cgroups
// of its own for what is tested here.
var limits = []string{"--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--cgroups=disabled"}

var number atomic.Int32

// network makes a network namespace in which there is nothing but loopback.
func network(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("katsubushi-image-%d-%d", os.Getpid(), number.Add(1))
	must(t, exec.Command("ip", "netns", "add", name))
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	must(t, exec.Command("ip", "-n", name, "link", "set", "lo", "up"))
	return name
}

// A container runs the image as docs/CONTAINERS.md says: read-only, without capabilities. It has no
// /etc/hosts, and no name can be resolved.
type container struct {
	t    *testing.T
	id   string
	netw string
}

// options are those of "podman run" for every container.
func options(netw string) []string {
	return append([]string{"--network=ns:/run/netns/" + netw, "--no-hosts", "--read-only", "--read-only-tmpfs=false",
		"--cap-drop=ALL", "--security-opt=no-new-privileges"}, limits...)
}

func start(t *testing.T, netw string, more []string, args ...string) *container {
	t.Helper()
	all := append(append(append([]string{"run", "-d"}, options(netw)...), more...), images.local)
	c := &container{t, must(t, podman(append(all, args...)...)), netw}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v logged:\n%s", args, c.logs())
		}
		podman("rm", "-f", "-t", "0", c.id).Run()
	})
	return c
}

func (c *container) logs() string {
	out, err := podman("logs", c.id).CombinedOutput()
	if err != nil {
		c.t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

func (c *container) awaitLog(text string) {
	c.t.Helper()
	await(c.t, "it logs "+text, func() bool { return strings.Contains(c.logs(), text) })
}

// healthy runs the image's own HEALTHCHECK in the container.
func (c *container) healthy() bool { return podman("healthcheck", "run", c.id).Run() == nil }

// state is a field of what podman says about the container.
func (c *container) state(field string) int {
	c.t.Helper()
	n, err := strconv.Atoi(must(c.t, podman("inspect", "--format", "{{.State."+field+"}}", c.id)))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// ask asks for an id over TCP, from within the container's network.
func (c *container) ask() uint64 {
	c.t.Helper()
	type answer struct {
		conn net.Conn
		err  error
	}
	got := make(chan answer)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine
		f, err := os.Open("/run/netns/" + c.netw)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			f.Close()
		}
		var conn net.Conn
		if err == nil {
			conn, err = net.DialTimeout("tcp", "127.0.0.1:11212", time.Minute)
		}
		got <- answer{conn, err}
	}()
	a := <-got
	if a.err != nil {
		c.t.Fatal(a.err)
	}
	defer a.conn.Close()
	a.conn.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(a.conn, "get id\r\n")
	lines := bufio.NewScanner(a.conn)
	for lines.Scan() {
		if id, err := strconv.ParseUint(lines.Text(), 10, 64); err == nil {
			return id
		}
	}
	c.t.Fatalf("no id: %v", lines.Err())
	return 0
}

func TestAContainerKeepsItsStateInTheVolume(t *testing.T) {
	built(t)
	netw := network(t)
	volume := "--volume=state:/var/lib/katsubushi"
	c := start(t, netw, []string{volume}, "-worker-id=1")
	c.awaitLog("msg=listening")
	first := c.ask()
	pid := c.state("Pid")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.Contains(string(status), "\nUid:\t65532\t65532\t65532\t65532\n") ||
		!strings.Contains(string(status), "\nCapEff:\t0000000000000000\n") {
		t.Errorf("%v: %s", err, status)
	}
	if !strings.Contains(c.logs(), `msg="windows are recorded" state_dir=/var/lib/katsubushi`) {
		t.Error("nothing is recorded")
	}

	await(t, "the container is healthy", c.healthy)
	for _, s := range []struct {
		signal  syscall.Signal
		healthy bool
	}{{syscall.SIGSTOP, false}, {syscall.SIGCONT, true}} {
		if err := syscall.Kill(pid, s.signal); err != nil {
			t.Fatal(err)
		}
		await(t, fmt.Sprintf("healthy is %v", s.healthy), func() bool { return c.healthy() == s.healthy })
	}

	must(t, podman("stop", "-t", "120", c.id)) // SIGTERM
	if code, log := c.state("ExitCode"), c.logs(); code != 0 || !strings.Contains(log, "msg=stopping signal=terminated") ||
		!strings.HasSuffix(log, "msg=stopped\n") {
		t.Errorf("exit code %d:\n%s", code, log)
	}
	run := append(append([]string{"run", "--rm"}, options(netw)...), volume, images.local, "state", "show")
	shown := must(t, podman(run...))
	if !strings.Contains(shown, "worker-1") {
		t.Error(shown)
	}

	again := start(t, netw, []string{volume}, "-worker-id=1")
	again.awaitLog("msg=listening")
	if second := again.ask(); second <= first {
		t.Errorf("%d after %d", second, first)
	}
	t.Logf("ids before and after: %d, %d; between them:\n%s", first, again.ask(), shown)
}

// TestHealthWhileThereIsNoWorkerID: a restart would not help, so the container is healthy, if the
// HTTP port can be asked; but not ready.
func TestHealthWhileThereIsNoWorkerID(t *testing.T) {
	built(t)
	netw := network(t)
	c := start(t, netw, []string{"--env=HTTP_PORT=8081"}, "-redis=redis://127.0.0.1:6399/0")
	await(t, "the container is healthy", c.healthy)
	if out, err := podman("exec", c.id, "/katsubushi", "healthcheck", "-ready").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "unhealthy:") {
		t.Errorf("%v: %s", err, out)
	}
	alone := start(t, network(t), nil, "-redis=redis://127.0.0.1:6399/0")
	alone.awaitLog("127.0.0.1:6399")
	if alone.healthy() {
		t.Error("without the HTTP port nothing answers")
	}
}

// TestVolumesThatTheUserMayNotWrite: what was mounted over the image's directory has another owner.
func TestVolumesThatTheUserMayNotWrite(t *testing.T) {
	built(t)
	dir, err := os.MkdirTemp("/var/tmp", "katsubushi-image") // on a disk
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mounted := []string{"--volume=" + dir + ":/var/lib/katsubushi"}
	advice := "/var/lib/katsubushi belongs to user 0, group 0 (drwxr-xr-x), and this process is user 65532, group " +
		"65532: chown 65532:65532 /var/lib/katsubushi"

	c := start(t, network(t), mounted, "-worker-id=2")
	must(t, podman("wait", c.id))
	if code := c.state("ExitCode"); code != 1 ||
		!strings.Contains(c.logs(), advice) || !strings.Contains(c.logs(), "-state-dir none") {
		t.Errorf("exit code %d: it should say who owns the directory:\n%s", code, c.logs())
	}
	c = start(t, network(t), mounted, "-worker-id=2", "-state-dir=none")
	c.awaitLog("msg=listening")
	c = start(t, network(t), mounted, "-worker-id=2", "-state-dir=/var/lib/katsubushi")
	must(t, podman("wait", c.id))
	if code := c.state("ExitCode"); code != 1 || !strings.Contains(c.logs(), advice) {
		t.Errorf("exit code %d", code)
	}
	t.Logf("a directory of root's, named:\n%s", c.logs())
	if err := os.Chown(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	c = start(t, network(t), mounted, "-worker-id=2", "-state-dir=/var/lib/katsubushi")
	c.awaitLog("msg=listening")
	if _, err := os.Stat(filepath.Join(dir, "worker-2.lock")); err != nil {
		t.Error(err)
	}
	c = start(t, network(t), []string{"--tmpfs=/var/lib/katsubushi"}, "-worker-id=2")
	must(t, podman("wait", c.id))
	if code := c.state("ExitCode"); code != 1 || !strings.Contains(c.logs(), "it is on tmpfs") {
		t.Errorf("exit code %d: a tmpfs forgets", code)
	}
}

// TestRedisWithACertificateOfAnAuthority: a managed Redis has a certificate of a public authority.
// Here is one that the image knows only when the test has added it to the bundle.
func TestRedisWithACertificateOfAnAuthority(t *testing.T) {
	built(t)
	netw := network(t)
	dir := t.TempDir()
	authority := certify(t, dir)
	redis := exec.Command("ip", "netns", "exec", netw, "redis-server", "--port", "0", "--tls-port", "6390", "--bind",
		"127.0.0.1", "--save", "", "--dir", dir,
		"--tls-cert-file", dir+"/cert.pem", "--tls-key-file", dir+"/key.pem", "--tls-ca-cert-file", dir+"/ca.pem",
		"--tls-auth-clients", "no")
	redis.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes when the thread ends
	defer runtime.UnlockOSThread()
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		redis.Process.Kill()
		redis.Wait()
	}()

	known, err := os.ReadFile(takeOut(t, images.local, "/etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/bundle.pem", append(known, authority...), 0o644); err != nil {
		t.Fatal(err)
	}
	const url = "-store=rediss://127.0.0.1:6390/0"
	trusted := "--volume=" + dir + "/ca.pem:/etc/ssl/certs/ours.pem:ro"
	await(t, "Redis answers", func() bool {
		run := append(append([]string{"run", "--rm"}, options(netw)...), trusted, images.local, "lease", "init", "-how",
			"new", url)
		out, err := podman(run...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "connection refused") {
			t.Fatalf("%v: %s", err, out)
		}
		return err == nil
	})
	for _, mount := range []string{
		dir + "/bundle.pem:/etc/ssl/certs/ca-certificates.crt:ro", // as if it were public
		dir + "/ca.pem:/etc/ssl/certs/ours.pem:ro",                // as docs/CONTAINERS.md says for a private one
	} {
		c := start(t, netw, []string{"--volume=" + mount}, url)
		c.awaitLog("msg=listening")
		t.Logf("with %s: id %d", filepath.Base(mount), c.ask())
		must(t, podman("rm", "-f", "-t", "60", c.id))
	}
	c := start(t, netw, nil, url) // nobody has told it about the authority
	c.awaitLog("certificate signed by unknown authority")
	if strings.Contains(c.logs(), "msg=listening") {
		t.Error("it trusts an authority that nobody named")
	}
}

// certify makes an authority, and a certificate for 127.0.0.1 that it has signed. It returns the authority's.
func certify(t *testing.T, dir string) []byte {
	t.Helper()
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		}
	}
	keys := make([]*ecdsa.PrivateKey, 2)
	for i := range keys {
		var err error
		if keys[i], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	root, leaf := template("An authority"), template("A managed Redis")
	root.IsCA, root.KeyUsage = true, x509.KeyUsageCertSign
	leaf.IPAddresses, leaf.ExtKeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	write := func(name, kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
		return text
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, keys[0].Public(), keys[0])
	authority := write("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, root, keys[1].Public(), keys[0])
	write("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(keys[1])
	write("key.pem", "PRIVATE KEY", der, err)
	return authority
}
