package main

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// runName runs `katsubushi name` with a state directory.
func runName(dir string, args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = patiently(environment("KATSUBUSHI_STATE_DIR", dir, "KATSUBUSHI_STATE_ANY_DISK", "true"),
		append([]string{"name"}, args...)...)
	return code, stdout, stderr
}

// The number of replicas is in the URL of each daemon too, so the command says that they must be restarted.
func TestGeneratorReplicas(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	counters := "-counters=redis://" + server.Addr() + "/0?ns=" + redistest.Namespace(t)
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"replicas 0 " + counters, exitFailure, "", "says how many replicas"},
		{"create orders sequence " + counters + "&replicas=0", exitOK, "orders  1", "recorded in"},
		{"replicas 0 " + counters, exitOK, "replicas=0, before 0: daemons with another number in their URL are granted " +
			"nothing. Restart all daemons with replicas=0 in theirs\n", "recorded in"},
		{"replicas 1 " + counters, exitFailure, "", "too few replicas"},
		{"replicas many " + counters, exitUsage, "", "K=many: a number of replicas"},
		{"replicas 1", exitUsage, "", "for Redis only"},
	} {
		code, o, e := runName(t.TempDir(), strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(o, c.stdout) || !strings.Contains(e, c.stderr) {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, code, c.code, o, e)
		}
	}
}
