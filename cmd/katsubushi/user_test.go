package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// user runs `katsubushi user` with this on its standard input.
func user(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	w.WriteString(stdin)
	w.Close()
	var out, errs bytes.Buffer
	code = subcommandNamed("user").start(args, variables{}, in, &out, &errs)
	return code, out.String(), errs.String()
}

// runUser is user that must succeed. It returns what was printed.
func runUser(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, stdout, stderr := user(t, stdin, args...)
	lines := strings.Count(stderr, "\n") // at most the one that says where
	if code != exitOK || lines != strings.Count(stderr, "recorded in ") || lines > 1 {
		t.Fatalf("user %v: exit code %d, %s", args, code, stderr)
	}
	return stdout
}
