package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// The set-up lines of the databases suffice. The SQL of another page makes ids that `katsubushi inspect` reads.
func TestSetUpOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("change me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for tag, c := range map[string]struct {
		start func(testing.TB, ...string) *sqltest.Server
		url   string
	}{
		"postgresql": {sqltest.Postgres, "postgres://katsubushi@/postgres?socket="},
		"mysql":      {sqltest.MariaDB, "mysql://katsubushi@/test?socket="},
	} {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			_, setUp, ok := strings.Cut(string(text), "```"+tag+"\n")
			setUp, _, ok2 := strings.Cut(setUp, "```")
			if !ok || !ok2 {
				t.Fatal("no such lines in the docs")
			}
			server := c.start(t)
			if tag == "postgresql" { // the server of the tests lets everybody else in
				setUp = strings.Replace(setUp, "LOGIN", "LOGIN IN ROLE secret", 1)
				server.Do(t, "CREATE ROLE secret")
				readsInstagrams(t, server)
			}
			server.Do(t, setUp)
			url := c.url + server.Socket
			for _, command := range []string{"create orders sequence start=7", "raise orders 70", "show orders", "list"} {
				args := append([]string{"name"}, strings.Fields(command)...)
				code, out, errs, _ := patiently(variables{}, append(args, "-counters", url, "-counters-password-file", file,
					"-state-any-disk")...)
				if code != exitOK || !strings.Contains(out, "orders") {
					t.Fatal(code, out, errs)
				}
			}
		})
	}
}

func readsInstagrams(t *testing.T, server *sqltest.Server) {
	t.Helper()
	text, err := os.ReadFile("../../docs/MIGRATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, _ := strings.Cut(string(text), "```sql\n")
	sql, _, _ = strings.Cut(sql, "```")
	server.Do(t, sql)
	ids := strings.Fields(server.Do(t, "SELECT id FROM shard5.photos ORDER BY title"))
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatal(ids)
	}
	if read := output(t, "inspect", "-json", "-layout", "instagram", ids[0]); !strings.Contains(read, `"worker_id":5`) ||
		!strings.Contains(read, time.Now().UTC().Format(`"2006-01-02T`)[:8]) {
		t.Errorf("%s is read as %s", ids[0], read)
	}
}
