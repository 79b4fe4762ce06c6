package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// tree returns all paths below dir.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			paths = append(paths, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestWriteWritesAllOrNone(t *testing.T) {
	files := []File{{"a/x.conf", "a"}, {"b/x.conf", "b"}, {"c.d/y.conf", "c"}}
	dir := filepath.Join(t.TempDir(), "new", "dir")
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(filepath.Join(dir, f.Path)); err != nil || string(text) != f.Text {
			t.Errorf("%s: %q, %v", f.Path, text, err)
		}
	}
	if err := Write(dir, files); err == nil || strings.Count(err.Error(), "is there already") != len(files) {
		t.Errorf("every file that exists is named: %v", err)
	}

	// The last one exists, a link that leads nowhere: none is written.
	dir = t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/c.d", 0o755), os.Symlink("nowhere", dir+"/c.d/y.conf")); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err == nil {
		t.Error("a link was written through")
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"c.d", "c.d/y.conf"}) {
		t.Errorf("left behind: %q", got)
	}

	// The last one cannot be written, since its directory is a file: those before it go, and their directories.
	dir = t.TempDir()
	if err := os.WriteFile(dir+"/c.d", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, files); err == nil {
		t.Error("a file was written below a file")
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"c.d"}) {
		t.Errorf("left behind: %q", got)
	}
}

// TestNothingIsOverwrittenInARace: a file that came after the check stays, and the others go.
func TestNothingIsOverwrittenInARace(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir, []File{{"a", "a"}, {"b", "b"}, {"a", "again"}}); err == nil {
		t.Error("a file was overwritten")
	}
	if got := tree(t, dir); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestAskAsksAgainAndEnds(t *testing.T) {
	var got []string
	questions := []Question{
		{Name: "one", Text: "First.", Default: func() string { return "1" }, Set: func(a string) error {
			if a == "bad" {
				return errors.New("for a reason")
			}
			got = append(got, a)
			return nil
		}},
		{Name: "two", Text: "Second.", Answer: "given", Default: func() string { return "" }, Set: func(a string) error {
			got = append(got, a)
			return nil
		}},
	}
	var out bytes.Buffer
	if err := Ask(t.Context(), strings.NewReader("bad\n\n"), &out, questions); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"1", "given"}) || strings.Contains(out.String(), "Second.") ||
		!strings.Contains(out.String(), "one [1]:   not possible: for a reason\none [1]: ") {
		t.Errorf("%q\n%s", got, out.String())
	}
	if err := Ask(t.Context(), strings.NewReader("bad\n"), &out, questions); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w, _ := os.Pipe()
	defer r.Close()
	defer w.Close()
	if err := Ask(ctx, r, &out, questions); !errors.Is(err, ErrEnded) {
		t.Errorf("after ^C: %v", err)
	}
}

// TestAnswers: those that cannot be leave the plan as it was.
func TestAnswers(t *testing.T) {
	of := func(hosts, question, answer string) (string, error) {
		p := &Plan{HTTPPort: Unsaid}
		if hosts != "" {
			if err := p.SetHosts(hosts); err != nil {
				return "", err
			}
		}
		files := func() []File { return p.Files(func([][2]string) string { return "" }, "x") }
		before := files()
		answer = strings.ReplaceAll(answer, `\t`, "\t")
		set := map[string]func(string) error{"hosts": p.SetHosts, "store": p.SetStore, "ports": p.SetPorts, "tls": p.SetTLS,
			"sequences": p.SetSequences}[question]
		if err := set(answer); err != nil {
			if !slices.Equal(before, files()) {
				t.Errorf("%s %q changed the plan", question, answer)
			}
			return "", err
		}
		return p.Form + " " + strings.Join(p.Given(), ", "), nil
	}
	calls := steps.Calls{"of": of, "brief": Brief, "ports": func(url string) string { return fmt.Sprint(portsOf(url)) }}
	steps.Run(t, "testdata/answers.txt", func(*testing.T) steps.Calls { return calls })
}

// TestValuesOfTheChart: passwords stay out of them, and comments say which hosts the URLs in secrets have.
func TestValuesOfTheChart(t *testing.T) {
	p := new(Plan)
	if err := errors.Join(p.SetHosts("helm:3"), p.SetStore("etcd://u@e1,e2 /etc/pool"), p.SetPorts("11212 8081"),
		p.SetSequences("orders rediss://u@r:6380 /etc/sequences"), p.SetTLS("/a.pem /b.pem")); err != nil {
		t.Fatal(err)
	}
	const want = `# Made by katsubushi init, for deploy/helm/katsubushi, whose values.yaml explains all values.
mode: deployment
replicas: 3
ports:
  memcached: 11212
  http: 8081

# Where worker ids are leased.
# FILE has the URL with the password from /etc/pool as USER:PASSWORD@HOST:
# kubectl create secret generic katsubushi-store --from-file=url=FILE
store:
  secret: {name: katsubushi-store, key: url} # e1,e2
  ports: [2379] # which the NetworkPolicy opens

# Where sequences are recorded.
# FILE has the URL with the password from /etc/sequences as USER:PASSWORD@HOST:
# kubectl create secret generic katsubushi-counters --from-file=url=FILE
counters:
  secret: {name: katsubushi-counters, key: url} # r:6380
  ports: [6379, 6380, 26379] # which the NetworkPolicy opens

names: |
  orders sequence

# kubectl create secret tls katsubushi-tls --cert=/a.pem --key=/b.pem
tls:
  secret: katsubushi-tls
`
	if got := p.Files(nil, "")[0].Text; got != want {
		t.Errorf("%s", got)
	}
}
