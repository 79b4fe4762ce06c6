package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAModule runs real tests of all kinds and reads the report of them.
func TestAModule(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n",
		"good/g_test.go": "package good\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"all is well\") }\nfunc TestNot(t *testing.T) { t.Skip() }\n",
		"bad/b_test.go":  "package bad\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"all is well\") }\nfunc TestBad(t *testing.T) { t.Error(\"it is wrong\") }\n",
		"gone/g_test.go": "package gone\nimport (\"os\"; \"testing\")\nfunc TestGone(t *testing.T) { println(\"goodbye\"); os.Exit(7) }\n",
		"odd/o_test.go":  "package odd\nfunc f() { neverDefined() }\n",
		"none/n.go":      "package none\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	var out bytes.Buffer
	if code := run(&out, []string{"-count=1", "./..."}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		`(?m)^ok    example.com/m/good  \d+\.\ds, 1 skipped$`, `(?m)^FAIL  example.com/m/bad  \d+\.\ds$`, `(?m)^FAIL  example.com/m/gone  \d+\.\ds$`,
		`(?m)^FAIL  example.com/m/odd  0\.0s$`, "it is wrong", "goodbye", "undefined: neverDefined",
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("nothing matches %s", want)
		}
	}
	if got := out.String(); strings.Contains(got, "all is well") || strings.Contains(got, "m/none") {
		t.Error("what passed, or is not tested, is shown")
	}
	if t.Failed() {
		t.Log(out.String())
	}
	out.Reset()
	if code := run(&out, []string{"./good"}); code != 0 {
		t.Errorf("exit code %d of what is well: %s", code, &out)
	}
	if code := run(&out, []string{"-no-such-flag"}); code == 0 {
		t.Error("exit code 0 of a flag that there is not")
	}
}

func TestItSaysWhatIsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := &report{w: &out, packages: map[string]*running{}}
		lines := make(chan []byte)
		ended := make(chan bool)
		go func() { r.follow(lines); close(ended) }()
		say := func(action, name string) {
			b, _ := json.Marshal(event{Action: action, Package: "github.com/katsubushi/katsubushi/v3/" + name, Elapsed: 40})
			lines <- b
		}
		time.Sleep(tellEvery + 10*time.Second)
		say("start", "bench")
		time.Sleep(5 * time.Second)
		say("start", "cmd/katsubushi")
		time.Sleep(tellEvery - 10*time.Second)
		say("pass", "bench")
		time.Sleep(tellEvery)
		close(lines)
		<-ended
		want := []string{
			"      running: the compiler", "      running: bench 20s, cmd/katsubushi 15s", "ok    bench  40.0s", "      running: cmd/katsubushi 45s",
		}
		if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}
