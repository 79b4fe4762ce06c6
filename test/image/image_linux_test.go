package image

import (
	"crypto/x509"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// An inspected image, as podman image inspect prints it.
type inspected struct {
	Architecture, User string
	Size               int64
	HealthCheck        struct{ Test []string } `json:"Healthcheck"`
	Config             struct {
		User, StopSignal string
		Env, Entrypoint  []string
		Volumes          map[string]struct{}
		ExposedPorts     map[string]struct{}
		Labels           map[string]string
	}
}

func inspect(t *testing.T, image string) inspected {
	t.Helper()
	var list []inspected
	if err := json.Unmarshal([]byte(must(t, podman("image", "inspect", image))), &list); err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	return list[0]
}

// takeOut copies a file out of an image.
func takeOut(t *testing.T, image, path string) string {
	t.Helper()
	id := must(t, podman("create", image))
	defer podman("rm", id).Run()
	as := t.TempDir() + "/file"
	must(t, podman("cp", id+":"+path, as))
	return as
}

func TestTheImageSaysWhatItIs(t *testing.T) {
	built(t)
	i := inspect(t, images.local)
	if i.Size > 32<<20 || i.Config.User != "65532:65532" || i.Config.StopSignal != "SIGTERM" &&
		i.Config.StopSignal != "15" ||
		!slices.Equal(i.HealthCheck.Test, []string{"CMD", "/katsubushi", "healthcheck"}) ||
		!slices.Equal(i.Config.Entrypoint, []string{"/katsubushi"}) {
		t.Errorf("%+v", i)
	}
	if _, volume := i.Config.Volumes["/var/lib/katsubushi"]; !volume || len(i.Config.ExposedPorts) != 1 {
		t.Errorf("%+v", i.Config)
	}
	for label, want := range map[string]string{"title": "katsubushi", "licenses": "MIT", "version": "3.9.1",
		"revision": images.head, "created": "2026-01-02T03:04:05Z"} {
		if got := i.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s: %q, want %q", label, got, want)
		}
	}
	t.Logf("%s: %.1f MB for %s; labels %v", images.local, float64(i.Size)/1e6, i.Architecture, i.Config.Labels)
	// built without .git
	if out := must(t,
		podman("run", "--rm", "--network=none", limits[0], limits[1], images.local, "-version")); !strings.HasPrefix(out,
		"katsubushi version: 3.9.1\ncommit: "+images.head+"\n") {
		t.Error(out)
	}
}

// TestTheOtherPlatform is built without emulation, from a checkout, which says its commit by itself.
func TestTheOtherPlatform(t *testing.T) {
	built(t)
	i := inspect(t, images.clone)
	path := takeOut(t, images.clone, "/katsubushi")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if i.Architecture != "arm64" || f.Machine != elf.EM_AARCH64 || f.Section(".interp") != nil {
		t.Errorf("an image for %s with a program for %v; its interpreter: %v", i.Architecture, f.Machine,
			f.Section(".interp"))
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	// Were a file missing from the context that git knows, it would be modified.
	if said["vcs.revision"] != images.head || said["vcs.modified"] != "false" || said["GOARCH"] != "arm64" ||
		said["CGO_ENABLED"] != "0" {
		t.Errorf("%v, and the commit is %s", said, images.head)
	}
	t.Logf("%s: %.1f MB for %s, %s, commit %s", images.clone, float64(i.Size)/1e6, i.Architecture, f.Machine,
		said["vcs.revision"])
}

// TestTheImageHasTheAuthorities and nothing but them and the program.
func TestTheImageHasTheAuthorities(t *testing.T) {
	built(t)
	text, err := os.ReadFile(takeOut(t, images.local, "/etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 100 {
		t.Errorf("%d authorities", n)
	}
	id := must(t, podman("create", images.local))
	defer podman("rm", id).Run()
	var files []string
	archive := t.TempDir() + "/archive"
	must(t, podman("export", "-o", archive, id))
	list := must(t, exec.Command("tar", "-tf", archive))
	for name := range strings.FieldsSeq(list) {
		if !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
	}
	// the engine adds files of its own to the container
	files = slices.DeleteFunc(files, func(name string) bool {
		return slices.Contains([]string{"etc/hosts", "etc/resolv.conf", "etc/hostname", "etc/mtab", "run/.containerenv"},
			name)
	})
	slices.Sort(files)
	if want := []string{"etc/ssl/certs/ca-certificates.crt", "katsubushi"}; !slices.Equal(files, want) {
		t.Errorf("%v, want %v", files, want)
	}
	t.Logf("%d authorities; files: %v", n, files)
}
