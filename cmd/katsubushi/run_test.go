package main

import (
	"bytes"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func TestRunIsUsedRightly(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--", "true"}, "-redis: none given"},
		{[]string{"-redis", "redis://127.0.0.1:1/0"}, "no command is given"},
		{[]string{"-redis", "gopher://127.0.0.1", "true"}, "a URL begins with redis"},
		{[]string{"-redis", "redis://127.0.0.1:1/0", "-lease", "10s", "true"}, "-lease: 10s is too short"},
		{[]string{"-redis", "redis://127.0.0.1:1/0", "-margin", "16s", "true"}, "a margin of 16s"},
		{[]string{"-redis", "redis://127.0.0.1:1/0", "-heartbeat", "31s", "true"}, "-heartbeat: 31s: at most half the lease"},
		{[]string{"-redis", "redis://127.0.0.1:1/0", "-lanes", "2", "true"}, "not defined: -lanes"},
		{[]string{"-redis", "redis://127.0.0.1:1/0", "-stop-timeout", "soon", "true"}, "-stop-timeout=soon"},
	} {
		var stderr bytes.Buffer
		if code := run(append([]string{"run"}, c.args...), environment(), nil, &stderr); code != exitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%q: exit code %d: %s", c.args, code, &stderr)
		}
	}
	var stdout bytes.Buffer
	if code := run([]string{"run", "-help"}, environment(), &stdout, nil); code != exitOK || !strings.Contains(stdout.String(), "Not promised") {
		t.Errorf("exit code %d: %s", code, &stdout)
	}
}

// TestProcessRunsAnotherProgram: the rest is in internal/leaserun.
func TestProcessRunsAnotherProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("on Unix systems only")
	}
	t.Parallel()
	url := redistest.Start(t).URL()
	initPool(t, url)
	for _, args := range [][]string{
		{"-redis", url, "-min-worker-id", "1", "-max-worker-id", "5", "-lease", "6s", "-max-skew", "200ms"},
		// as of yaraus
		{"-server", url, "-min", "1", "-max", "5", "-expire", "6s", "-interval", "1s", "-delay", "2s", "-max-skew", "200ms"},
	} {
		args = append(append([]string{"run"}, args...), "-replacement", "@@", "--", "sh", "-c", `test $KATSUBUSHI_WORKER_ID = @@ && echo "worker @@"; exit 9`)
		cmd := exec.Command(binary, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 9 || !strings.HasPrefix(stdout.String(), "worker ") || strings.TrimSpace(stdout.String()) == "worker @@" {
			t.Errorf("%q: exit code %d, %q, %s", args, code, &stdout, &stderr)
		}
	}
}
