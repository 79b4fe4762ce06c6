package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources clones the repository with what was changed in it since: of a working tree of `git worktree`,
// go build does not record the commit, and without a remote goreleaser takes the present for its date.
func sources(t *testing.T) string {
	t.Helper()
	script := `root=$(git rev-parse --show-toplevel) && git clone -q --shared "$root" "$0" && git diff --binary HEAD >"$0.diff" &&
		cd "$0" && git remote set-url origin https://github.com/katsubushi/katsubushi && { test ! -s "$0.diff" || git apply "$0.diff"; } &&
		mkdir -p bin && cp -l "$root/bin/goreleaser" bin/ || cp "$root/bin/goreleaser" bin/`
	dir := t.TempDir() + "/src"
	c := exec.Command("sh", "-c", script, dir)
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// goreleaser makes the packages of a version as releases are made, only for this kind of machine. The
// result is the folder of what it made.
func goreleaser(t *testing.T, root, version string) string {
	t.Helper()
	config, err := os.ReadFile(root + "/.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, value := range map[string]string{"dist": dir + "/dist", "    goos": "[linux]",
		"    goarch": "[" + runtime.GOARCH + "]"} {
		line := regexp.MustCompile("(?m)^" + name + ": .*$")
		if len(line.FindAll(config, -1)) != 1 {
			t.Fatalf(".goreleaser.yaml: not one line %q", name)
		}
		config = line.ReplaceAllLiteral(config, []byte(name+": "+value))
	}
	if err := os.WriteFile(dir+"/config.yaml", config, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(root+"/bin/goreleaser", "release", "--snapshot", "--skip=sbom,archive", "-f", dir+"/config.yaml")
	c.Dir, c.Env = root, append(os.Environ(), "SNAPSHOT_VERSION="+version)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir + "/dist"
}

// made returns the one file with this ending.
func made(t *testing.T, dir, ending string) string {
	t.Helper()
	found, _ := filepath.Glob(dir + "/*" + ending)
	if len(found) != 1 {
		t.Fatalf("not one %s: %q", ending, found)
	}
	return found[0]
}

// shows runs a command of this host's, for the transcript.
func shows(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	t.Logf("# %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Errorf("%s: %v", args[0], err)
	}
	return string(out)
}

// do runs a command in the container, for the transcript.
func (m *machine) do(command string) string {
	m.t.Helper()
	out := m.run("sh", "-c", command)
	m.t.Logf("# %s\n%s", command, out)
	return out
}

func (m *machine) isThere(path string) bool {
	_, err := os.Lstat(m.root + path)
	return err == nil
}

// sequence asks for a value of orders.
func (m *machine) sequence() int {
	n, err := strconv.Atoi(m.ask("orders"))
	if err != nil {
		m.t.Errorf("get orders: %v", err)
	}
	return n
}

// TestPackages builds deb and rpm. The deb is installed, started, upgraded, removed, installed again,
// purged and installed once more under a real systemd: ids and a sequence go on every time.
func TestPackages(t *testing.T) {
	if os.Getenv("KATSUBUSHI_DEB") == "" {
		t.Skip("make test-deb runs it")
	}
	src := sources(t)
	first, second := goreleaser(t, src, "3.0.1"), goreleaser(t, src, "3.0.2")
	t.Run("Reproducible", func(t *testing.T) { sameAgain(t, first) })
	t.Run("Lintian", func(t *testing.T) {
		shows(t, "lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", "--info", made(t, first, ".deb"))
	})
	t.Run("RPM", func(t *testing.T) { looksRight(t, made(t, first, ".rpm")) })
	t.Run("Deb", func(t *testing.T) {
		m := boot(t, func(m *machine) {
			os.Remove(m.root + "/usr/sbin/policy-rc.d") // what keeps packages from starting services, in images of containers
			for i, dir := range []string{first, second} {
				text, err := os.ReadFile(made(t, dir, ".deb"))
				if err != nil {
					t.Fatal(err)
				}
				m.write("/root/"+strconv.Itoa(i+1)+".deb", string(text))
			}
		})
		m.debLives()
	})
}

// sameAgain: the same source, in another place, makes the same packages, byte for byte.
func sameAgain(t *testing.T, first string) {
	again := goreleaser(t, sources(t), "3.0.1")
	for _, ending := range []string{".deb", ".rpm"} {
		a, err := os.ReadFile(made(t, first, ending))
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(made(t, again, ending)); !bytes.Equal(a, b) {
			t.Errorf("two builds of one source differ: %s", ending)
		}
	}
}

// looksRight asks rpm what is in a package.
func looksRight(t *testing.T, path string) {
	files := strings.Fields(shows(t, "rpm", "-qlp", path))
	slices.Sort(files)
	want := []string{
		"/etc/default/katsubushi", "/etc/katsubushi", "/etc/katsubushi/katsubushi.conf", "/usr/bin/katsubushi",
		"/usr/lib/systemd/system/katsubushi.service", "/usr/share/bash-completion/completions/katsubushi",
		"/usr/share/doc/katsubushi/CHANGELOG.md", "/usr/share/fish/vendor_completions.d/katsubushi.fish",
		"/usr/share/licenses/katsubushi/LICENSE", "/usr/share/man/man1/katsubushi.1.gz",
		"/usr/share/zsh/site-functions/_katsubushi",
	}
	if !slices.Equal(files, want) {
		t.Errorf("the rpm has\n%s\nand not\n%s", strings.Join(files, "\n"), strings.Join(want, "\n"))
	}
	if got := shows(t, "rpm", "-qcp", path); got != "/etc/default/katsubushi\n/etc/katsubushi/katsubushi.conf\n" {
		t.Errorf("its settings are %q", got)
	}
	scripts := shows(t, "rpm", "-qp", "--scripts", path)
	for _, want := range []string{"postinstall scriptlet", "preuninstall scriptlet", "postuninstall scriptlet",
		"disable --now katsubushi.service", "try-restart katsubushi.service"} {
		if !strings.Contains(scripts, want) {
			t.Errorf("the scripts have no %q", want)
		}
	}
	shows(t, "rpm", "-qip", path)
	shows(t, "rpm", "-qp", "--requires", "--recommends", path)
}

// The places of a package's files that these tests look at.
const (
	stateFiles = "/var/lib/private/katsubushi"
	hostFile   = "/etc/default/katsubushi"
	fleetFile  = "/etc/katsubushi/katsubushi.conf"
	program    = "/usr/bin/katsubushi"
)

// debLives goes through the life of the package in a container that has /root/1.deb and /root/2.deb.
func (m *machine) debLives() {
	t := m.t
	const apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "
	install := func(n int) string {
		return m.do(apt + "install -y --no-install-recommends /root/" + strconv.Itoa(n) + ".deb")
	}
	at := uint64(0)
	ids := func(when string) { // they rise, and have the worker id
		t.Helper()
		id := m.id()
		t.Logf("get id, %s: %s", when, id)
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil || n <= at || n>>12&1023 != 7 {
			t.Errorf("%s: id %q after %d", when, id, at)
		}
		at = n
	}

	if said := install(1); !strings.Contains(said, "put a worker id into /etc/default/katsubushi") {
		t.Error("the installation does not say what is next")
	}
	if m.show("ActiveState") != "inactive" || m.do("systemctl is-enabled katsubushi") != "disabled" {
		t.Error("the daemon is started without a worker id")
	}
	m.do("systemctl start katsubushi")
	if m.show("ExecMainStatus") != "2" ||
		!strings.Contains(m.do("journalctl -u katsubushi --no-pager -o cat"), "-worker-id") {
		t.Error("nothing says that there is no worker id")
	}
	if said := m.do("katsubushi -version"); !regexp.MustCompile(`\ncommit: [0-9a-f]{40}(, modified)?\ndate: 20\d\d-`).
		MatchString(said) {
		t.Errorf("-version: %s", said)
	}
	m.do("man -w katsubushi; test -s /usr/share/zsh/vendor-completions/_katsubushi && bash -nv " +
		"/usr/share/bash-completion/completions/katsubushi 2>&1 | head -1")

	// The files of the container are in memory: the daemon would not trust its state to them.
	const host, fleet = "WORKER_ID=7\nKATSUBUSHI_STATE_ANY_DISK=true\n", "generator orders sequence start=1\n"
	m.write(hostFile, host)
	m.write(fleetFile, fleet)
	if said := m.do("systemctl enable --now katsubushi"); !strings.Contains(said, "Created symlink") {
		t.Error(said)
	}
	ids("started")
	before, pid := m.sequence(), m.show("MainPID")

	install(2)
	if v := m.do("dpkg-query -W -f '${Version}' katsubushi"); v != "3.0.2~next-1" {
		t.Errorf("the version is %s", v)
	}
	if state, now := m.show("ActiveState"), m.show("MainPID"); state != "active" || now == pid ||
		m.do("readlink /proc/"+now+"/exe") != program {
		t.Errorf("after the upgrade: %s, process %s, before %s", state, now, pid)
	}
	ids("upgraded")
	after := m.sequence()
	if after <= before {
		t.Errorf("orders: %d after %d", after, before)
	}
	if m.do("cat "+hostFile+" "+fleetFile) != strings.TrimSpace(host+fleet) {
		t.Error("the upgrade changed the settings")
	}

	m.do(apt + "remove -y katsubushi")
	if m.show("ActiveState") == "active" || m.isThere(program) || !m.isThere(hostFile) || !m.isThere(stateFiles) {
		t.Error("remove must stop the daemon and leave settings and state")
	}
	install(2)
	m.do("systemctl start katsubushi")
	ids("removed and installed again")
	m.purge(apt)
	m.writeAfterPurge(install, host, fleet)
	ids("purged and installed again")
	if last := m.sequence(); last <= after {
		t.Errorf("orders: %d after %d", last, after)
	}
	m.do("systemctl stop katsubushi; rm -r " + stateFiles)
	if said := m.do(apt + "purge -y katsubushi"); strings.Contains(said, "stays") || m.isThere(stateFiles) {
		t.Errorf("there is no state: %s", said)
	}
	if left := m.do("find /etc /usr /var/lib /var/cache -name '*katsubushi*' -newer /root/2.deb -not -path " +
		"'/var/lib/dpkg/*'"); left != "" {
		t.Errorf("purge leaves %s", left)
	}
}

// purge takes away everything but the state, and says where that is.
func (m *machine) purge(apt string) {
	t := m.t
	said := m.do(apt + "purge -y katsubushi")
	if m.isThere(hostFile) || m.isThere(filepath.Dir(fleetFile)) ||
		m.isThere("/etc/systemd/system/multi-user.target.wants/katsubushi.service") {
		t.Error("purge leaves settings")
	}
	if !m.isThere(stateFiles) || !strings.Contains(said, stateFiles+" stays") {
		t.Error("purge deletes without a word what keeps ids unique")
	}
	m.do("ls -lR " + stateFiles)
}

// writeAfterPurge installs the package again, with the settings from before.
func (m *machine) writeAfterPurge(install func(int) string, host, fleet string) {
	install(2)
	m.write(hostFile, host)
	m.write(fleetFile, fleet)
	m.do("systemctl start katsubushi")
}
