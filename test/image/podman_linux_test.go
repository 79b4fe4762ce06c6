package image

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	asked = "KATSUBUSHI_IMAGE" // in the environment: the tests run
	apart = "KATSUBUSHI_APART" // this process has its own mounts; the value is where podman keeps all that it has
)

var images struct {
	local, clone string // for amd64 or whatever this machine is, from this directory; for arm64, from a clone of it
	head         string // the commit
	tried        bool
}

// TestMain runs the tests in a process with its own mounts. crun refuses to work beside an unused hierarchy of
// cgroups v2, which some machines mount; here it can be taken away.
func TestMain(m *testing.M) {
	switch dir := os.Getenv(apart); {
	case os.Getenv(asked) == "":
		os.Exit(m.Run()) // they say why they skip
	case dir != "":
		syscall.Unmount("/sys/fs/cgroup/unified", syscall.MNT_DETACH)
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "katsubushi-image")
	if err != nil {
		panic(err)
	}
	c := exec.Command(os.Args[0], os.Args[1:]...)
	c.Env = append(os.Environ(), apart+"="+dir)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	err = c.Run()
	os.RemoveAll(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// podman is a command whose images and containers are nobody else's.
func podman(args ...string) *exec.Cmd {
	dir := os.Getenv(apart)
	c := exec.Command("podman", append([]string{
		"--root", dir + "/root", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp", "--storage-driver", "overlay",
		// no systemd here that could run health checks
		"--runtime", "crun", "--cgroup-manager", "cgroupfs", "--log-level", "panic",
	}, args...)...)
	c.Env = append(os.Environ(), "BUILDAH_FORMAT=docker")
	return c
}

// must runs a command and returns what it prints on stdout.
func must(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", c.Args, err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String())
}

func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in two minutes: %s", what)
		}
	}
}

// base sees to it that there is an image golang:1.26 to build from: the real one if a registry can be
// reached. Else it makes one of this machine's programs, and returns where Go is to be mounted.
func base(t *testing.T) (mounts []string) {
	name := "docker.io/library/golang:1.26"
	c := podman("pull", "-q", name)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	timer := time.AfterFunc(3*time.Minute, func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if out, err := c.CombinedOutput(); err == nil {
		t.Log("built from ", name)
		return nil
	} else if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); len(lines) > 0 {
		t.Logf("%s cannot be pulled: %s", name, lines[len(lines)-1])
	}
	programs := []string{"sh", "make", "git", "mkdir", "sed", "uname"}
	t.Logf("REPLACED: it is made of this machine's %s and their libraries, its CA certificates, Go and Go's caches of "+
		"modules and builds", strings.Join(programs, ", "))
	dir := t.TempDir()
	copied := map[string]bool{}
	place := func(path, as string) {
		if copied[as] {
			return
		}
		copied[as] = true
		for _, c := range []*exec.Cmd{
			exec.Command("mkdir", "-p", filepath.Dir(dir+as)), exec.Command("cp", "-L", path, dir+as),
		} {
			must(t, c)
		}
	}
	for _, p := range programs {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		place(path, "/bin/"+p)
		for word := range strings.FieldsSeq(must(t, exec.Command("ldd", path))) {
			if strings.HasPrefix(word, "/") {
				place(word, word)
			}
		}
	}
	place("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt")
	if err := os.Mkdir(dir+"/tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	text := "FROM scratch\nCOPY . /\nENV PATH=/usr/local/go/bin:/bin GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local " +
		"GOMODCACHE=/go/pkg/mod GOCACHE=/go/cache\n"
	if err := os.WriteFile(dir+"/.base", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, podman("build", "-q", "-t", name, "-f", dir+"/.base", dir))
	must(t, exec.Command("go", "mod", "download"))
	goEnv := func(name string) string { return must(t, exec.Command("go", "env", name)) }
	return []string{
		"-v", goEnv("GOROOT") + ":/usr/local/go:ro", "-v", goEnv("GOMODCACHE") + ":/go/pkg/mod", "-v",
		goEnv("GOCACHE") + ":/go/cache",
	}
}

// built builds both images once.
func built(t *testing.T) {
	t.Helper()
	if os.Getenv(asked) == "" {
		t.Skip("make test-image runs it")
	}
	if images.tried {
		if images.clone == "" {
			t.Fatal("they could not be built: see above")
		}
		return
	}
	images.tried = true
	if os.Getuid() != 0 {
		t.Fatal("it takes root")
	}
	mounts := base(t)
	tree, clone := must(t, exec.Command("git", "rev-parse", "--show-toplevel")), t.TempDir()+"/clone"
	images.head = must(t, exec.Command("git", "rev-parse", "HEAD"))
	// as make image does
	args := append([]string{"build", "-t", "katsubushi:local", "--build-arg=VERSION=3.9.1",
		"--build-arg=COMMIT=" + images.head, "--build-arg=CREATED=2026-01-02T03:04:05Z"}, mounts...)
	without := t.TempDir() // an archive has no .git
	must(t, exec.Command("sh", "-c",
		`cd "$1" && git ls-files -z | tar -cf - --null -T - --ignore-failed-read | tar -xf - -C "$2"`, "sh", tree, without))
	must(t, podman(append(args, without)...))
	images.local = "katsubushi:local"

	must(t, exec.Command("git", "clone", "-q", "--no-hardlinks", tree, clone))
	// Podman 4.3 does not know BUILDPLATFORM by itself.
	args = append([]string{"build", "-t", "katsubushi:arm64", "--platform=linux/arm64",
		"--build-arg=BUILDPLATFORM=linux/" + runtime.GOARCH}, mounts...)
	must(t, podman(append(args, clone)...))
	images.clone = "katsubushi:arm64"
}
