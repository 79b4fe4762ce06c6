package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/sqltest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// The set-up lines of the databases suffice for commands and for a daemon. The SQL of another page makes ids that
// `katsubushi inspect` reads.
func TestSetUpOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	file := tempfile.Write(t, "password", "change me\n")
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
			args := []string{"-counters", url, "-counters-password-file", file, "-state-any-disk"}
			for _, command := range []string{"create orders sequence start=7", "raise orders 70", "show orders", "list"} {
				code, out, errs, _ := patiently(variables{}, slices.Concat([]string{"name"}, strings.Fields(command), args)...)
				raises := strings.HasPrefix(command, "raise")
				if code != exitOK || !strings.Contains(out, "orders") || raises != strings.Contains(errs,
					"daemons that reach the database drop theirs within a second and need no restart") {
					t.Fatal(code, out, errs)
				}
			}
			p := start(t, append(args, "-worker-id", "1", "-state-dir", "none", "-max-wait", "1m")...)
			if v := countFrom(t, p).must(t, "orders"); v != 70 {
				t.Errorf("the first value is %d", v)
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
