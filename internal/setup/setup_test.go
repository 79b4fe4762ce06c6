package setup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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

// TestAnswersThatCannotBe are refused, and leave the plan as it was.
func TestAnswersThatCannotBe(t *testing.T) {
	for _, c := range []struct{ hosts, name, answer, want string }{
		{"", "hosts", "", "of up to 1023 hosts"},
		{"", "hosts", "../etc", "of up to 1023 hosts"},
		{"", "hosts", "a,a", "a: another host has that name"},
		{"", "hosts", "a=2,b", "b: a has worker id 2 already"},
		{"", "hosts", "a=x", "of up to 1023 hosts"},
		{"", "hosts", "a b c", "hosts are separated by commas"},
		{"", "hosts", "plain:a\tb", "hosts are separated by commas"},
		{"", "hosts", "a,b = 2", "hosts are separated by commas"},
		{"", "hosts", "compose:3 4", "the number of daemons"},
		{"", "hosts", "helm", "the number of daemons follows, 1 to 1023: helm:3"},
		{"", "hosts", "Compose", "the number of daemons follows, 1 to 1023: compose:3"},
		{"", "hosts", "plain", "of up to 1023 hosts"},
		{"", "hosts", "::1", "a name or an IPv4 address, without a port"},
		{"", "hosts", "[::1]", "a name or an IPv4 address, without a port"},
		{"", "hosts", "h1:11212", "a name or an IPv4 address, without a port"},
		{"", "hosts", strings.Repeat("x/", 200), strings.Repeat("x/", 20) + "...\": names"},
		{"", "hosts", "docker:3", "one of systemd, compose, helm and plain"},
		{"a,b", "store", "redis://127.9.9.9:6379", "each host to a store of its own"},
		{"a,b", "store", "redis://u@LocalHost./0 /f", "each host to a store of its own"},
		{"a,b", "store", "unix:///run/redis", "each host to a store of its own"},
		{"a,b", "store", "redis:///0", "each host to a store of its own"},
		{"plain:a,b", "store", "etcd://[::1]:2379", "each host to a store of its own"},
		{"plain:a,b", "store", "etcd://e1,[::ffff:127.0.0.1]", "each host to a store of its own"},
		{"compose:1", "store", "zookeeper://0.0.0.0:1", "each container to a store of its own"},
		{"helm:1", "store", "redis+sentinel://:26379/m", "each container to a store of its own"},
		{"compose:1", "sequences", "orders mysql://root@localhost:3306/d", "each container to a store of its own"},
		{"", "hosts", "helm:0", "the number of daemons"},
		{"", "hosts", "compose:1024", "the number of daemons"},
		{"a", "store", "a b c", "a URL is wanted"},
		{"a", "store", "etcd", "not a URL"},
		{"a", "store", "redis://u:secret@h", "a password does not go"},
		{"a", "store", "redis+sentinel://h/m?sentinel_password=x", "a password does not go"},
		{"a", "store", "redis://u@h password", "an absolute path"},
		{"a", "store", "redis://u@h /a/../b", "an absolute path"},
		{"a", "store", "redis://u@h /a%b", "an absolute path"},
		{"a", "ports", "0", "one or two numbers"},
		{"a", "ports", "11212 65536", "one or two numbers"},
		{"a", "ports", "11212 8081 1", "one or two numbers"},
		{"a", "ports", "80", "below 1024"},
		{"a", "ports", "11212 80", "below 1024"},
		{"helm:3", "ports", "11212", "health checks"},
		{"compose:3", "ports", "65534 8081", "a smaller number"},
		{"a", "tls", "/a", "a certificate and"},
		{"a", "tls", "a b", "an absolute path"},
		{"a", "sequences", "a, b", "no space"},
		{"a,b", "sequences", "orders", "several daemons need one place"},
		{"helm:2", "sequences", "orders", "several daemons need one place"},
		{"a,b", "sequences", "orders etcd://u:p@h", "a password does not go"},
	} {
		p := &Plan{HTTPPort: Unsaid}
		if c.hosts != "" {
			if err := p.SetHosts(c.hosts); err != nil {
				t.Fatal(err)
			}
		}
		before := p.Files(func(list [][2]string) string { return "" }, "x")
		set := map[string]func(string) error{"hosts": p.SetHosts, "store": p.SetStore, "ports": p.SetPorts, "tls": p.SetTLS,
			"sequences": p.SetSequences}[c.name]
		if err := set(c.answer); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s %q of %q: %v, want %s", c.name, c.answer, c.hosts, err, c.want)
		}
		if after := p.Files(func(list [][2]string) string { return "" }, "x"); !slices.Equal(before, after) {
			t.Errorf("%s %q changed the plan", c.name, c.answer)
		}
	}
}

// TestHostsGetWorkerIDs: blanks around commas count for nothing, and what each host got is told.
func TestHostsGetWorkerIDs(t *testing.T) {
	for _, c := range []struct{ hosts, store, want string }{
		{" h1 , h2=7,h3 ", None, "systemd h1: worker id 1|h2: worker id 7|h3: worker id 3"},
		{"plain: systemd", "redis://127.0.0.1", "plain systemd: worker ids from the store"},
		{"systemd:helm", "unix:///run/redis", "systemd helm: worker ids from the store"},
		{"compose: 2", "redis://r", "compose ids1, ids2: worker ids from the store"},
		{"localhost,h2", "etcd://localhoster", "systemd localhost, h2: worker ids from the store"},
		{"helm:2", None, "helm "},
	} {
		p := &Plan{}
		if err := errors.Join(p.SetHosts(c.hosts), p.SetStore(c.store)); err != nil {
			t.Errorf("%q, %s: %v", c.hosts, c.store, err)
		}
		if got := p.Form + " " + strings.Join(p.Given(), "|"); got != c.want {
			t.Errorf("%q, %s: %q, want %q", c.hosts, c.store, got, c.want)
		}
	}
}

func TestAnswersInMessages(t *testing.T) {
	for answer, want := range map[string]string{
		"redis://u:secret@h /f": "redis://u:xxxxx@h /f", "a b": "a b",
		"redis+sentinel://h/m?sentinel_password=secret":          "redis+sentinel://h/m?sentinel_password=x...",
		"redis://u:" + strings.Repeat("secret", 9) + "@" + "h/%": "redis://u:xxxxx@h/%",
		"redis://u:sec%ret@h":                                    "redis://xxxxx",
		strings.Repeat("ü", 99):                                  strings.Repeat("ü", 40) + "...",
	} {
		if got := Brief(answer); got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

func TestPortsOfAStore(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://a,b": "2379", "etcds://a:1,b": "1 2379", "zookeeper://h": "2181", "mysql://u@h/d": "3306",
		"postgres://u@h:5433/d": "5433", "redis://h:7000/0": "6379 6380 26379 7000", "rediss://h": "6379 6380 26379",
		"redis+sentinel://s/m": "6379 6380 26379",
	} {
		if got := strings.Join(portsOf(url), " "); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
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
