package sql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

func TestURLs(t *testing.T) {
	for _, c := range []struct {
		url   string
		wrong []string // all of them, in one go
	}{
		{"postgres://ids@db.example/app", nil},
		{"postgresql://ids@db.example:5433/app?sslmode=verify-full&sslrootcert=/ca.pem&table=app.ids", nil},
		{"postgres://ids@/app?socket=/run/postgresql", nil},
		{"mysql://ids@[::1]:3307/app?tls=true&tls-ca=/ca.pem", nil},
		{"mysql://ids@/app?socket=/run/mysqld/mysqld.sock&table=ids", nil},
		{"mysql://ids@db/app?layout=leaf", nil},
		{"postgres://ids@db/app?layout=leaf&table=ids.leaf_alloc", nil},
		{"postgres://ids@db/app?layout=tinyid", []string{"layout=tinyid: leaf allowed"}},
		{"mysql://ids:hunter2@db/app", nil},
		{"postgres://ids@:5433/app?socket=/run/postgresql", nil},
		{"mysql://ids:hunter2@db:99999?table=a-b&socket=x&nonsense=1&tls=maybe",
			[]string{"no database", "db: a port is", "table=a-b", "socket=x",
				"unknown option nonsense: table, layout, socket, tls, tls-ca", "tls=maybe: false, skip-verify, true allowed",
				"one of the two"}},
		{"postgres://db/app", []string{"no user"}},
		{"postgres://ids@/app", []string{"a host or ?socket=PATH"}},
		{"postgres://ids@db/app/more", []string{"no database"}},
		{"postgres://ids@db/app?sslmode=prefer",
			[]string{"sslmode=prefer: disable, require, verify-ca, verify-full allowed"}},
		{"postgres://ids@db/app?synchronous_commit=off", []string{"unknown option synchronous_commit"}},
		{"postgres://ids@db/app?table=a;drop", []string{"cannot be read"}},
		{"postgres://ids:hunter2@db:x/app",
			[]string{"db: a port is"}},
		{"mysql://ids@a,b/app", []string{"several hosts"}},
		{"mysql://ids:1/hunter2@db/app", []string{"an @ follows"}},
		{"mysql://ids:1?hunter2@db/app", []string{"an @ follows"}},
		{"mysql://ids:%zz@db/app", []string{"is not USER:PASSWORD"}},
		{"oracle://ids@db/app", []string{"mysql://USER@HOST:PORT/DATABASE allowed"}},
	} {
		err := Config{URL: c.url}.Validate()
		if (err == nil) != (c.wrong == nil) {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if err == nil {
			continue
		}
		if n := len(problem.Of(err)); n != len(c.wrong) {
			t.Errorf("%s: %d problems, want %d: %v", c.url, n, len(c.wrong), err)
		}
		for _, w := range c.wrong {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %s", c.url, err, w)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is shown: %v", err)
		}
	}
}

func TestSecretsAreReadAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ url, file, wrong string }{
		{"mysql://ids@db/app", file("good", "hunter2\n", 0o600), ""},
		{"mysql://ids@db/app", file("open", "hunter2\n", 0o644), "chmod 600"},
		{"postgres://ids@db/app", file("none", "\n", 0o600), "no password"},
		{"postgres://ids@db/app", filepath.Join(dir, "missing"), "no such file"},
		{"mysql://ids@db/app?tls-ca=" + filepath.Join(dir, "missing"), "", "no such file"},
		{"mysql://ids@db/app?tls-ca=" + file("empty.pem", "", 0o600), "", "no certificate is in it"},
	} {
		err := Config{URL: c.url, PasswordFile: c.file}.ReadSecrets()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s, %s: %v, want %q", c.url, c.file, err, c.wrong)
		}
	}
}

// The docs have the statements that errors print.
func TestTablesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"postgres://ids@db/app", "mysql://ids@db/app"} {
		target, err := Config{URL: url}.parse()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n"+target.createTable()+"\n") {
			t.Errorf("not in the docs:\n%s", target.createTable())
		}
	}
}
