package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startAdmin starts a daemon with an admin port, for ann, whose password is "secret". It returns the port's
// address and the directory of the daemon's sequences.
func startAdmin(t *testing.T, args ...string) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "users")
	runUser(t, "secret\n", "add", "ann", "*=get,admin", "-auth-file", file)
	p := start(t,
		append([]string{"-worker-id", "1", "-auth-file", file, "-admin-port", freePort(t), "-state-dir", dir,
			"-state-any-disk"}, args...)...)
	return p.Entry("admin listening")["address"].(string), dir
}

// TestProcessCurlLinesOfTheDocs: they are answered what the comments behind them say.
func TestProcessCurlLinesOfTheDocs(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	text, err := os.ReadFile("../../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "## The admin port\n")
	_, lines, _ := strings.Cut(page, "```sh\n")
	lines, _, ok := strings.Cut(lines, "```\n")
	if !ok {
		t.Fatal("no lines on the page")
	}
	address, _ := startAdmin(t)
	sh := exec.Command("sh", "-euc", strings.ReplaceAll(lines, "127.0.0.1:8082", address))
	sh.Dir = t.TempDir()
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{
		`{"generators":[]}`, "no such sequence in the counter store",
		`{"name":"orders","definition":"orders sequence start=1","next":"1"`,
		`{"name":"orders","definition":"orders sequence start=1"`,
		`{"name":"orders","definition":"orders sequence start=1","next":"5000"`,
		"sequence orders is this machine's already",
		`{"name":"orders","definition":"orders sequence start=1","next":"5000","floor":"5000","left":"0","state":"retired"}`,
		"leaders are elected in etcd only", "leaders are elected in etcd only",
		`{"users":[{"name":"ann","login":"password","rights":"*=get,admin"}]}`,
		`{"name":"bob","login":"password","rights":"orders*=get,incr"}`,
		`{"name":"shop","login":"token","rights":"*=get","token":"kts_`,
		`{"name":"bob","login":"password","rights":"*=get,admin"}`, `{"name":"bob",`,
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("line %d is not what is wanted: %s\n%s", i+1, fmt.Sprint(want[min(i, len(want)-1)]), out)
		}
	}
}
