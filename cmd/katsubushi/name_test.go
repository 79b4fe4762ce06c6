package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// runName runs `katsubushi name` with a state directory.
func runName(dir string, args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = patiently(environment("KATSUBUSHI_STATE_DIR", dir, "KATSUBUSHI_STATE_ANY_DISK", "true"),
		append([]string{"name"}, args...)...)
	return code, stdout, stderr
}

// runNameIn runs `katsubushi name` with a counter store.
func runNameIn(url string, args ...string) (code int, stdout, stderr string) {
	code, stdout, stderr, _ = patiently(variables{}, append(append([]string{"name"}, args...), "-counters", url,
		"-state-any-disk")...)
	return code, stdout, stderr
}

// nextOf returns the first value of a sequence that no daemon has.
func nextOf(t *testing.T, url, name string) uint64 {
	t.Helper()
	code, stdout, stderr := runNameIn(url, "show", name, "-json")
	var shown struct {
		Next uint64 `json:",string"`
	}
	if err := json.Unmarshal([]byte(stdout), &shown); code != exitOK || err != nil {
		t.Fatal(code, err, stdout, stderr)
	}
	return shown.Next
}

// raised reports whether a sequence was raised, be it that a daemon has been killed, or is slow to confirm it.
func raised(code int, stderr string) bool {
	return code == exitOK || code == exitFailure && strings.Contains(stderr, "has not confirmed it")
}
