package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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
		"go.mod": "module example.com/m\n",
		"good/g_test.go": "package good\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"all is well\") }\nfunc " +
			"TestNot(t *testing.T) { t.Skip() }\n",
		"bad/b_test.go": "package bad\nimport \"testing\"\nfunc TestGood(t *testing.T) { t.Log(\"all is well\") }\nfunc " +
			"TestBad(t *testing.T) { t.Error(\"it is wrong\") }\n",
		"gone/g_test.go": "package gone\nimport (\"os\"; \"testing\")\nfunc TestGone(t *testing.T) { " +
			"println(\"goodbye\"); os.Exit(7) }\n",
		"odd/o_test.go": "package odd\nfunc f() { neverDefined() }\n",
		"none/n.go":     "package none\n",
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
	t.Setenv("TESTRUN_SKIPPED", "") // nothing is missing here
	var out bytes.Buffer
	if code := run(&out, []string{"-count=1", "./..."}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		`(?m)^ok    example.com/m/good  \d+\.\ds, 1 skipped$`, `(?m)^FAIL  example.com/m/bad  \d+\.\ds$`,
		`(?m)^FAIL  example.com/m/gone  \d+\.\ds$`,
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

// TestCausesComeLast: what a failed test says first stands at the end, cut; not the lines below, nor what passed.
func TestCausesComeLast(t *testing.T) {
	dir := t.TempDir()
	text := `package m
import ("strings"; "testing")
func TestBad(t *testing.T) {
	defer t.Log("the log\nof a daemon")
	t.Run("below", func(t *testing.T) { t.Error("one\nmore") })
	t.Run("good", func(t *testing.T) { t.Log("well") })
	for range 9 { t.Error(strings.Repeat("é", 200)) }
}
func TestGone(t *testing.T) { panic("oh") }
`
	for name, text := range map[string]string{"go.mod": "module example.com/m\ngo 1.26\n", "m_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	var out bytes.Buffer
	run(&out, []string{"./..."})
	long := "FAIL  example.com/m TestBad  m_test.go:7: " + strings.Repeat("é", (maxCause-len("m_test.go:7: "))/2) + "\n"
	want := "s\nFAIL  example.com/m TestBad/below  m_test.go:5: one\n" + strings.Repeat(long, maxCauses) +
		"FAIL  example.com/m TestGone  panic: oh [recovered, repanicked]\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("not at the end:\n%s\n%s", want, &out)
	}
}

// TestMain acts as a compiler that never ends if it is called as one.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "compile" {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// TestSkippedTestsAreKept: but not those that say what runs them or that they do not apply, and what a test
// printed last is its reason.
func TestSkippedTestsAreKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "skipped")
	text := `package m
import "testing"
func TestMissing(t *testing.T) { t.Run("below", func(t *testing.T) { t.Log("so far"); t.Skip("no\nprogram") }) }
func TestSoak(t *testing.T) { t.Skip("KATSUBUSHI_SOAK=1 runs it") }
func TestOther(t *testing.T) { t.Skip("does not apply: there is one loop") }
func TestGood(t *testing.T) {}
`
	for name, text := range map[string]string{"go.mod": "module example.com/m\n", "m_test.go": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	t.Setenv("TESTRUN_SKIPPED", file)
	var out bytes.Buffer
	for range 2 { // the second run is cached, and says it again
		if code := run(&out, []string{"./..."}); code != 0 {
			t.Fatalf("exit code %d: %s", code, &out)
		}
	}
	const line = "no program\texample.com/m TestMissing/below\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != line+line {
		t.Errorf("%q, %v", got, err)
	}
}

// TestWhatIsCompiled: a child that is called as the compiler is seen, others are not.
func TestWhatIsCompiled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("for other tests: there is no /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	compiler := filepath.Join(t.TempDir(), "compile")
	if err := os.Symlink(self, compiler); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(compiler, "-o", "x", "-p", "example.com/m", "m.go")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := compiled(os.Getpid()); !slices.Equal(got, []string{"example.com/m"}) {
		t.Errorf("%q", got)
	}
	if got := compiled(cmd.Process.Pid); len(got) > 0 {
		t.Errorf("of another process: %q", got)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestItSaysWhatIsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		looks := 0
		compiled := func() []string {
			if looks++; looks == 2 {
				return []string{"github.com/katsubushi/katsubushi/v3/client"}
			}
			return nil
		}
		r := &report{w: &out, packages: map[string]*running{}, compiled: compiled}
		lines := make(chan []byte)
		ended := make(chan bool)
		go func() {
			r.follow(lines)
			close(ended)
		}()
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
			"      running: the go command", "      running: bench 20s, cmd/katsubushi 15s, the compiler of client",
			"ok    bench  40.0s", "      running: cmd/katsubushi 45s",
		}
		if got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}
