package systemd

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestReleaseRuns takes what goreleaser made as a user does: sums, SBOMs, archives, the deb under systemd.
func TestReleaseRuns(t *testing.T) {
	dir := os.Getenv("KATSUBUSHI_RELEASE")
	if dir == "" {
		t.Skip("make release-check runs it")
	}
	t.Run("Sums", func(t *testing.T) { sumsFit(t, dir) })
	archives := releaseArchives(t, dir)
	for _, path := range archives {
		t.Run(filepath.Base(path), func(t *testing.T) {
			listsModules(t, path+".spdx.json")
			files := unpack(t, path, t.TempDir())
			for _, want := range []string{"LICENSE", "README.md", "CHANGELOG.md", "katsubushi.service", "katsubushi.1",
				"completions/_katsubushi", "completions/katsubushi.bash", "completions/katsubushi.fish"} {
				if files[want] == "" {
					t.Errorf("there is no %s", want)
				}
			}
			if strings.Contains(path, "_linux_"+runtime.GOARCH) {
				issues(t, files["katsubushi"])
			}
		})
	}
	t.Run("Deb", func(t *testing.T) {
		deb := made(t, dir, "_"+runtime.GOARCH+".deb")
		root := t.TempDir()
		if out, err := exec.Command("dpkg-deb", "-x", deb, root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		issues(t, root+program)
		installed(t, deb)
	})
}

// releaseArchives returns the six.
func releaseArchives(t *testing.T, dir string) []string {
	t.Helper()
	tars, _ := filepath.Glob(dir + "/katsubushi_*.tar.gz")
	zips, _ := filepath.Glob(dir + "/katsubushi_*.zip")
	if len(tars) != 4 || len(zips) != 2 {
		t.Fatalf("archives %q %q", tars, zips)
	}
	return append(tars, zips...)
}

// sumsFit: every archive, package and SBOM has a line in checksums.txt, and it is right.
func sumsFit(t *testing.T, dir string) {
	text, err := os.ReadFile(dir + "/checksums.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 {
			sums[f[1]] = f[0]
		}
	}
	for _, ending := range []string{".tar.gz", ".zip", ".deb", ".rpm", ".spdx.json"} {
		found, _ := filepath.Glob(dir + "/*" + ending)
		if len(found) == 0 {
			t.Errorf("there is no %s", ending)
		}
		for _, path := range found {
			file, err := os.ReadFile(path)
			if name := filepath.Base(path); err != nil || sums[name] != fmt.Sprintf("%x", sha256.Sum256(file)) {
				t.Errorf("%s has the sum %q: %v", name, sums[name], err)
			}
			delete(sums, filepath.Base(path))
		}
	}
	if len(sums) > 0 {
		t.Errorf("sums of files that are not there: %v", sums)
	}
}

// listsModules: an SBOM names the modules that go.mod requires of the daemon.
func listsModules(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sbom struct{ Packages []struct{ Name string } }
	if err := json.Unmarshal(text, &sbom); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"google.golang.org/grpc", "golang.org/x/sys", "stdlib"} {
		if !slices.ContainsFunc(sbom.Packages, func(p struct{ Name string }) bool { return p.Name == module }) {
			t.Errorf("%s names %d packages, and not %s", filepath.Base(path), len(sbom.Packages), module)
		}
	}
}

// unpack writes the files of an archive below dir and returns where each of them is.
func unpack(t *testing.T, path, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	keep := func(name string, mode os.FileMode, from io.Reader) {
		t.Helper()
		files[name] = filepath.Join(dir, filepath.Clean("/"+name))
		if err := os.MkdirAll(filepath.Dir(files[name]), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(from)
		if err == nil && len(text) == 0 {
			err = fmt.Errorf("%s is empty", name)
		}
		if err == nil {
			err = os.WriteFile(files[name], text, mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, f := range z.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			keep(f.Name, f.Mode(), from)
			from.Close()
		}
		return files
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for all := tar.NewReader(packed); ; {
		h, err := all.Next()
		if err == io.EOF {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		keep(h.Name, h.FileInfo().Mode(), all)
	}
}

// issues starts a program and asks it for an id.
func issues(t *testing.T, path string) {
	t.Helper()
	c := exec.Command(path, "-worker-id", "7", "-bind", "127.0.0.1", "-port", "0", "-http-port", "0", "-state-dir", "none")
	c.Env = []string{}
	log, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Signal(syscall.SIGTERM)
	listening := regexp.MustCompile(`msg=listening address=(127\.0\.0\.1:\d+)`)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		at := listening.FindStringSubmatch(lines.Text())
		if at == nil {
			continue
		}
		conn, err := net.Dial("tcp", at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "get id\r\nquit\r\n")
		if answer, err := io.ReadAll(conn); err != nil ||
			!regexp.MustCompile(`^VALUE id 0 \d+\r\n\d{18,19}\r\nEND\r\n$`).Match(answer) {
			t.Errorf("get id: %q, %v", answer, err)
		} else {
			t.Logf("%s: %q", filepath.Base(path), answer)
		}
		return
	}
	t.Errorf("%s did not listen", path)
}

// installed installs the deb under a real systemd, where that can be: as root, with systemd-nspawn.
func installed(t *testing.T, deb string) {
	if _, err := exec.LookPath("systemd-nspawn"); err != nil || os.Getuid() != 0 {
		t.Skip("not installed under systemd: that needs root and systemd-nspawn; make test-deb does more of it")
	}
	text, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	m := boot(t, func(m *machine) {
		os.Remove(m.root + "/usr/sbin/policy-rc.d")
		m.write("/root/1.deb", string(text))
	})
	m.do("dpkg -i /root/1.deb")
	m.write(hostFile, "WORKER_ID=7\nKATSUBUSHI_STATE_ANY_DISK=true\n")
	m.do("systemctl enable --now katsubushi")
	if id := m.id(); !regexp.MustCompile(`^\d{18,19}$`).MatchString(id) || m.show("ActiveState") != "active" {
		t.Errorf("get id: %q\n%s", id, m.run("journalctl", "-u", "katsubushi", "--no-pager"))
	} else {
		t.Logf("get id: %s", id)
	}
}
