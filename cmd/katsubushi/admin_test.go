package main

import (
	"fmt"
	"io"
	"net/http"
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

// TestProcessAdminPortSaysWhatTheCommandSays: for one request and one command each, beside a running
// daemon.
func TestProcessAdminPortSaysWhatTheCommandSays(t *testing.T) {
	t.Parallel()
	address, dir := startAdmin(t)
	if code, _, stderr := runName(dir, "create", "orders", "sequence", "start=100"); code != exitOK {
		t.Fatal(stderr)
	}
	if code, _, stderr := runName(dir, "create", "gone", "sequence"); code != exitOK {
		t.Fatal(stderr)
	}
	for _, c := range []struct {
		command, request, body string
		code, status           int
	}{
		{"show orders -json", "GET /generators/orders", "", exitOK, 200},
		{"show none", "GET /generators/none", "", exitFailure, 404},
		{"show id", "GET /generators/id", "", exitUsage, 400},
		{"create orders sequence start=100", "PUT /generators/orders", "orders sequence start=100", exitOK, 200},
		{"create orders sequence start=7", "PUT /generators/orders", "orders sequence start=7", exitUsage, 409},
		{"create orders sequence step=0", "PUT /generators/orders", "orders sequence step=0", exitUsage, 400},
		{"create orders sequence rate=5", "PUT /generators/orders", "orders sequence rate=5", exitUsage, 400},
		{"create orders uuid7", "PUT /generators/orders", "orders uuid7", exitUsage, 400},
		{"create orders", "PUT /generators/orders", "orders", exitUsage, 400},
		{"raise orders 100", "POST /generators/orders/raise?at_least=100", "", exitFailure, 409},
		{"raise orders many", "POST /generators/orders/raise?at_least=many", "", exitUsage, 400},
		{"raise none 5", "POST /generators/none/raise?at_least=5", "", exitFailure, 404},
		{"raise orders 9223372036854775808", "POST /generators/orders/raise?at_least=9223372036854775808", "", exitUsage,
			400},
		{"adopt orders", "POST /generators/orders/adopt", "", exitFailure, 409},
		{"adopt none", "POST /generators/none/adopt", "", exitFailure, 404},
		{"retire orders", "DELETE /generators/orders", "", exitFailure, 409},
		{"retire none -force", "DELETE /generators/none?force=true", "", exitFailure, 404},
		{"retire gone -force", "DELETE /generators/gone?force=true", "", exitOK, 200},
		{"show gone -json", "GET /generators/gone", "", exitOK, 200},
		{"create gone sequence", "PUT /generators/gone", "gone sequence", exitFailure, 409},
		{"raise gone 900", "POST /generators/gone/raise?at_least=900", "", exitFailure, 409},
	} {
		code, stdout, stderr := runName(dir, strings.Fields(c.command)...)
		said := stdout + stderr
		status, answer := askAs(t, "ann", "secret", address, c.request, c.body)
		if code != c.code || status != c.status {
			t.Errorf("%s: exit code %d: %s\n%s: %d %s", c.command, code, said, c.request, status, answer)
		}
		sentence := strings.Replace(strings.TrimSpace(answer), "?force=true does", "-force does", 1)
		if first, _, _ := strings.Cut(said, "\n"); status != 200 && first != sentence ||
			strings.Contains(c.command, "-json") && first != sentence {
			t.Errorf("%s: %s\n%s: %s", c.command, said, c.request, answer)
		}
	}
}

// askAs sends METHOD /path as a user.
func askAs(t *testing.T, user, password, address, request, body string) (status int, answer string) {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, "http://"+address+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
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
