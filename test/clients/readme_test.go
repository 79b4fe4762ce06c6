//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pageText is a page of the documentation, and where the tree stands.
func pageText(t *testing.T, page string) (text, root string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(content), root
}

// TestReadmeGo: the lines for Go get ids from the daemon. Those for the other languages are run by
// `make test-clients`.
func TestReadmeGo(t *testing.T) {
	_, root := pageText(t, "README.md")
	r, err := newRunner(root, t.TempDir(), options{timeout: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	d, err := r.launcher.get("")
	if err != nil {
		t.Fatal(err)
	}
	defer r.launcher.stop()
	i := slices.IndexFunc(readme, func(s setup) bool { return s.language == "Go" })
	did, err := r.exercise(t.Context(), &readme[i], d, d.port)
	if err != nil || did != "5 gets" {
		t.Fatalf("%s: %v", did, err)
	}
	d.stop()
	out, err := exec.Command(filepath.Join(r.work, readme[i].dir(), "client")).CombinedOutput()
	if err == nil || !strings.HasSuffix(string(out), "connect: connection refused\n") {
		t.Errorf("without a daemon: %v, %s", err, out)
	}
}

// TestReadmeLanguages: no block of docs/CLIENTS.md is left out, and none is tested that is not there.
// README.md repeats some of them.
func TestReadmeLanguages(t *testing.T) {
	text, root := pageText(t, "docs/CLIENTS.md")
	_, asking, _ := strings.Cut(text, "## Asking from a program")
	asking, _, _ = strings.Cut(asking, "\n## ")
	if blocks := len(regexp.MustCompile("(?m)^```[a-z]+$").FindAllString(asking, -1)); blocks != len(readme) {
		t.Errorf("%d blocks, and %d are tested", blocks, len(readme))
	}
	first, _ := pageText(t, "README.md")
	repeated := regexp.MustCompile("(?ms)^```(python|go)$.*?^```$").FindAllString(first, -1)
	if len(repeated) != 3 {
		t.Errorf("README.md has %d blocks of Python and Go", len(repeated))
	}
	for _, block := range repeated {
		if strings.Contains(block, "katsubushi.Open") { // the library's tests have it
			continue
		}
		if !strings.Contains(asking, block) {
			t.Errorf("docs/CLIENTS.md does not have these lines of README.md: %s", block)
		}
	}
	r := &runner{root: root}
	for i := range readme {
		if err := r.writeSnippet(&readme[i], filepath.Join(t.TempDir(), readme[i].snippet), 1); err != nil {
			t.Error(err)
		}
	}
}

// TestReadmeCommands: there is every target of make that README.md and CONTRIBUTING.md name.
func TestReadmeCommands(t *testing.T) {
	text, root := pageText(t, "README.md")
	contributing, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(text+string(contributing), -1)
	if len(targets) < 10 {
		t.Fatalf("only %q found", targets)
	}
	for _, m := range targets {
		if !regexp.MustCompile(`(?m)^([a-z-]+ )*` + m[1] + `( [a-z-]+)*:`).Match(makefile) {
			t.Errorf("make %s: there is no such target", m[1])
		}
	}
}

// TestReadmeWithoutMake runs the line that builds and starts a daemon; where it listens is said by
// the environment.
func TestReadmeWithoutMake(t *testing.T) {
	text, root := pageText(t, "README.md")
	m := regexp.MustCompile("Without make: `(go build [^`]*)`").FindStringSubmatch(text)
	if m == nil {
		t.Fatal("it does not say how to do without make")
	}
	program := filepath.Join(root, "katsubushi")
	if _, err := os.Stat(program); os.IsNotExist(err) {
		t.Cleanup(func() { os.Remove(program) })
	}
	cmd := exec.Command("sh", "-c", m[1])
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "BIND=127.0.0.1", "PORT=0", "KATSUBUSHI_CLAIM=off", "XDG_STATE_HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	}()
	var log strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		at := regexp.MustCompile(`msg=listening address=(127\.0\.0\.1:\d+) `).FindStringSubmatch(lines.Text())
		if at == nil {
			continue
		}
		c, err := net.Dial("tcp", at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "get id\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "VALUE id 0 ") {
			t.Errorf("%q, %v", line, err)
		}
		return
	}
	t.Errorf("it does not listen:\n%s", &log)
}
