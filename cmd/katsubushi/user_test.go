package main

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
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

// What each verb does to the file, and that no secret is printed but a new one that was asked for.
func TestUserCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "users"), filepath.Join(dir, "secret")
	tempfile.Write(t, secret, "from a file\n")
	run := func(stdin, args string) string {
		t.Helper()
		return runUser(t, stdin, append(strings.Fields(args), "-auth-file", file)...)
	}
	if out := run("typed\r\n", "add ann orders*=get,incr *=get"); out != "" {
		t.Errorf("add printed %q", out)
	}
	run("", "add bob -password-file "+secret)
	generated := strings.TrimSpace(run("", "add eve x=admin -generate"))
	token := strings.TrimSpace(run("", "token tok a=get"))
	run("", "grant bob b=get;c=get b=incr")
	run("", "revoke ann *=get")
	var d users.Directory
	v := users.NewVerifier(&d, func() {})
	wants := func(name, password, rights string) {
		t.Helper()
		list, err := users.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		d.Replace(list)
		a, err := v.Login(t.Context(), netip.Addr{}, []byte(name), []byte(password))
		if err != nil || a == nil || a.Rights().String() != rights {
			t.Errorf("%s, %s: %v %v; want %s", name, password, a, err, rights)
		}
	}
	wants("ann", "typed", "orders*=get,incr")
	wants("bob", "from a file", "b=get,incr;c=get")
	wants("eve", generated, "x=admin")
	wants("tok", token, "a=get")
	if another := strings.TrimSpace(run("", "token tok b=get")); another == token {
		t.Error("the same token again")
	} else {
		wants("tok", another, "a=get;b=get")
	}
	run("new\n", "password ann")
	wants("ann", "new", "orders*=get,incr")
	want := "NAME  LOGIN     RIGHTS\nann   password  orders*=get,incr\nbob   password  b=get,incr;c=get\neve   " +
		"password  x=admin\ntok   token     a=get;b=get\n"
	if got := run("", "list"); got != want {
		t.Errorf("list:\n%s", got)
	}
	run("", "grant eve *=admin")
	for _, args := range []string{"remove eve", "revoke eve *=admin"} {
		code, _, stderr := user(t, "", append(strings.Fields(args), "-auth-file", file)...)
		if code != exitFailure || !strings.Contains(stderr, `user "eve" is the last one with the right admin on *`) ||
			!strings.Contains(stderr, "-force does it") {
			t.Errorf("%s, the last one with admin: exit code %d, %s", args, code, stderr)
		}
	}
	run("", "revoke eve *=admin -force")
	wants("eve", generated, "x=admin")
	run("", "remove bob")
	if got := run("", "list -json"); !strings.HasPrefix(got,
		`{"name":"ann","login":"password","rights":"orders*=get,incr"}`+"\n"+`{"name":"eve"`) ||
		strings.Count(got, "\n") != 3 {
		t.Errorf("list -json:\n%s", got)
	}
}
