package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/setup"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// initialized runs init in a directory, without a terminal.
func initialized(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var out, errs bytes.Buffer
	code = subcommandNamed("init").start(append([]string{"-dir", dir}, args...), variables{}, null, &out, &errs)
	return code, out.String(), errs.String()
}

// written returns the files below a directory.
func written(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// initAnswersOf are the answers that are combined. SECRET and CERT, KEY are files that exist.
var initAnswersOf = [][]string{
	{"h1", "h1,h2,h3", "plain:a=5,b=1023", "compose:1", "compose:3", "helm:3"},
	{"none", "rediss://u@h/0?ns=x SECRET", "etcd://a,b,c:1/p", "zookeepers://u@zk SECRET"},
	{"", "11300 9090"},
	{"none", "CERT KEY"},
	{"none", "orders,eu:items", "orders etcds://u@e SECRET"},
}

// impossible are the reasons to refuse a combination.
var impossible = regexp.MustCompile(
	`hosts have worker ids of their own|several daemons need one place|That is the store of the worker ids`)

// TestWhatInitWritesIsAccepted: combinations of answers, in which each answer meets each other one, are refused for a
// reason, or give -config files that check-config accepts, and that set what was answered and nothing else.
func TestWhatInitWritesIsAccepted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := tempfile.Write(t, "secret", "hidden\n")
	cert, key, _ := selfsigned.Files(t)
	files := strings.NewReplacer("SECRET", secret, "CERT", cert, "KEY", key)
	var refused, accepted int
	var dropIns []string
	met := map[[2]string]bool{}
	for n, more := 0, true; more; n++ {
		args, rest, anew := []string{"-defaults"}, n, false
		for i, q := range new(initAnswers).questions(new(setup.Plan)) {
			list := initAnswersOf[i]
			answer := "-" + q.Name + "=" + files.Replace(list[rest%len(list)])
			for _, other := range args {
				anew = anew || !met[[2]string{other, answer}]
				met[[2]string{other, answer}] = true
			}
			args, rest = append(args, answer), rest/len(list)
		}
		if more = rest == 0; !more {
			break
		}
		if !anew {
			continue
		}
		to := fmt.Sprintf("%s/%d", dir, n)
		code, out, errs := initialized(t, to, args...)
		if code != exitOK {
			refused++
			if code != exitUsage || !impossible.MatchString(errs) {
				t.Errorf("%q: exit code %d: %s", args, code, errs)
			}
			continue
		}
		accepted++
		for _, path := range written(t, to) {
			text, err := os.ReadFile(path)
			if err != nil || bytes.Contains(text, []byte("hidden")) || !strings.Contains(out, "wrote "+path+"\n") {
				t.Errorf("%q: %s: %v\n%s", args, path, err, out)
			}
			if strings.HasSuffix(path, "katsubushi.conf") {
				acceptsConfig(t, path, variables{"HOME": dir})
			}
			if strings.HasSuffix(path, "init.conf") && !slices.Contains(dropIns, string(text)) {
				dropIns = append(dropIns, string(text))
				acceptsDropIn(t, string(text), to, dir)
			}
		}
		os.RemoveAll(to)
	}
	t.Logf("%d combinations accepted, %d refused; %d drop-ins", accepted, refused, len(dropIns))
	if accepted < 50 || refused < 4 || len(dropIns) < 5 {
		t.Error("there must be more")
	}
}

// acceptsConfig asks check-config.
func acceptsConfig(t *testing.T, path string, env variables) {
	t.Helper()
	env["KATSUBUSHI_CONFIG"] = path
	var out, errs bytes.Buffer
	if code := run([]string{"check-config"}, env, &out, &errs); code != exitOK ||
		strings.Contains(errs.String(), "warning: KATSUBUSHI") {
		text, _ := os.ReadFile(path)
		t.Errorf("exit code %d: %s\n%s", code, errs.String(), text)
	}
}

// acceptsDropIn asks systemd about a drop-in beside the unit, and check-config with its variables.
func acceptsDropIn(t *testing.T, text, written, dir string) {
	t.Helper()
	env, given := variables{"HOME": dir}, t.TempDir()
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		id, path, _ := strings.Cut(value, ":")
		switch {
		case name == "LoadCredential":
			if err := os.Link(path, filepath.Join(given, id)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		case name == "Environment":
			variable, value, _ := strings.Cut(value, "=")
			env[variable] = strings.ReplaceAll(value, "%d", given)
		}
	}
	if env["KATSUBUSHI_CONFIG"] != setup.ConfigDir+"/katsubushi.conf" {
		t.Errorf("the unit has the settings %s", env["KATSUBUSHI_CONFIG"])
	}
	configs, _ := filepath.Glob(written + "/katsubushi.conf")
	more, _ := filepath.Glob(written + "/*/katsubushi.conf")
	acceptsConfig(t, append(configs, more...)[0], env)
	if said := verifyUnit(t, text); said != "" {
		t.Errorf("%s\n%s", said, text)
	}
}

// verifyUnit returns what systemd says of deploy/katsubushi.service with a drop-in. Without systemd it says nothing.
func verifyUnit(t *testing.T, dropIn string) string {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return ""
	}
	unit, err := os.ReadFile("../../deploy/katsubushi.service")
	if err != nil {
		t.Fatal(err)
	}
	unit = bytes.Replace(unit, []byte("/usr/local/bin/katsubushi"), []byte(binary), 1)
	path := t.TempDir() + "/katsubushi.service"
	if os.WriteFile(path, unit, 0o644) != nil || os.Mkdir(path+".d", 0o755) != nil ||
		os.WriteFile(path+".d/init.conf", []byte(dropIn), 0o644) != nil {
		t.Fatal(path)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	var ours []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "katsubushi") || strings.Contains(line, "init.conf") {
			ours = append(ours, line)
		}
	}
	if err != nil {
		ours = append(ours, err.Error())
	}
	return strings.Join(ours, "")
}

// TestSystemdNoticesWrongDropIns: so the test above can fail.
func TestSystemdNoticesWrongDropIns(t *testing.T) {
	need(t, "systemd-analyze")
	for _, wrong := range []string{"[Service]\nLoadCredentials=a:/b\n", "[Service]\nEnvironment=A\n",
		"[Service]\nEnvironment=A=%\"\n", "[Servic]\nEnvironment=A=b\n"} {
		if said := verifyUnit(t, wrong); said == "" {
			t.Errorf("not noticed: %s", wrong)
		}
	}
}

// TestEverySettingGetsIntoTheFile that a plan can have: no answer is lost on the way.
func TestEverySettingGetsIntoTheFile(t *testing.T) {
	for _, store := range []string{"none", "etcd://u@h"} {
		p := new(setup.Plan)
		if p.SetHosts("compose:1") != nil || p.SetStore(store) != nil || p.SetPorts("1 2") != nil ||
			p.SetTLS("/a /b") != nil ||
			p.SetSequences("orders,items etcd://u@h") != nil {
			t.Fatal(p)
		}
		list := p.Settings(p.Daemons[0])
		text := configText(list)
		for _, s := range list {
			if !strings.Contains(text, "\n"+s[0]+" "+s[1]+"\n") {
				t.Errorf("%s %s is not in\n%s", s[0], s[1], text)
			}
		}
		if len(list) < 9 {
			t.Errorf("only %q", list)
		}
	}
}

// TestInitsDefaultsAreTheDaemons: nothing that no answer says is set to another value than the daemon's own.
func TestInitsDefaultsAreTheDaemons(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := initialized(t, dir, "-defaults", "-hosts", "plain:h1"); code != exitOK {
		t.Fatal(errs)
	}
	got, _, err := parse(settings, []string{"-config", dir + "/katsubushi.conf"}, variables{"HOME": dir}, nil)
	if err != nil || len(got.problems) > 0 {
		t.Fatal(err, got.problems)
	}
	want, _, _ := parse(settings, []string{"-worker-id", "1"}, variables{"HOME": dir}, nil)
	if fmt.Sprintf("%+v", got.Config) != fmt.Sprintf("%+v", want.Config) {
		t.Errorf("%+v\n%+v", got.Config, want.Config)
	}
	// What stands there as a comment can be set by deleting the #.
	text, _ := os.ReadFile(dir + "/katsubushi.conf")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, "#") && len(name) > 2 {
			if i := slices.IndexFunc(everySetting(), func(s setting) bool { return s.name == name[1:] }); i < 0 ||
				everySetting()[i].def != value {
				t.Errorf("no setting, or not its default: %s", line)
			}
		}
	}
}
