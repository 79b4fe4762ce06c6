package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// TestEndpoints asks check-config about every form of URLs, of passwords and of PEM files. In
// testdata/endpoints each line has flags, or variables of the environment; below it, indented, stands what is
// said of them. $D is a directory of files.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if _, err := selfsigned.Write(at("ca.pem"), at("key.pem"), 1); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"open": 0o644, "empty": 0o600, "password": 0o600} {
		text := map[string]string{"open": "hush", "password": "hush\n"}[name]
		if err := os.WriteFile(at(name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	const golden = "testdata/endpoints"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(want)) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		said := sayOfSettings(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "$D", dir))
		if strings.Contains(said, "hush") {
			t.Errorf("%s: the password is told: %s", line, said)
		}
		got.WriteString(line + strings.ReplaceAll(said, dir, "$D"))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := strings.Split(got.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(now) || now[i] != line {
			t.Fatalf("%s:%d: want %s\ngot %s", golden, i+1, line, strings.Join(now[max(i-3, 0):min(i+4, len(now))], "\n"))
		}
	}
}

// sayOfSettings returns what check-config says, sorted, without the lines around the problems.
func sayOfSettings(words string) string {
	env, args := variables{}, []string{"check-config", "-state-dir=none"}
	leased := false
	for _, word := range strings.Split(words, " ") {
		name, value, ok := strings.Cut(word, "=")
		if leased = leased || strings.HasSuffix(name, "REDIS") || strings.HasSuffix(name, "STORE") ||
			word == "-redis" || word == "-store"; ok && name == strings.ToUpper(name) {
			env[name] = value
		} else {
			args = append(args, word)
		}
	}
	if !leased {
		args = append(args, "-worker-id=1")
	}
	var stdout, stderr bytes.Buffer
	run(args, env, &stdout, &stderr)
	var said []string
	for line := range strings.Lines(stderr.String() + stdout.String()) {
		if !strings.HasPrefix(line, "katsubushi ") {
			said = append(said, "    "+line)
		}
	}
	slices.Sort(said)
	return strings.Join(said, "")
}
