//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// postgres starts a server of its own, on a unix socket, and returns what runs psql. It skips where there is no server.
func postgres(t *testing.T) func(sql string) string {
	t.Helper()
	missing := func(why ...any) {
		if os.Getenv("KATSUBUSHI_REQUIRE") == "1" {
			t.Fatal(why...)
		}
		t.Skip(why...)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		missing("postgresql is not installed")
	}
	dir, err := os.MkdirTemp("", "pg") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 { // which the server refuses
		u, err := user.Lookup("postgres")
		if err != nil {
			missing(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), name), args...)
		c.SysProcAttr, c.Dir = as, dir
		return c
	}
	if out, err := command("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var log bytes.Buffer
	server := command("postgres", "-D", "data", "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGQUIT)
		server.Wait()
	})
	await(t, "postgres is ready", func() bool { return command("pg_isready", "-q", "-h", dir).Run() == nil })
	return func(sql string) string {
		t.Helper()
		c := command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", dir, "-U", "postgres")
		c.Stdin = strings.NewReader(sql)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

// The SQL that the docs print runs, and makes ids that `katsubushi inspect` reads.
func TestSQLOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, ok := strings.Cut(string(text), "```sql\n")
	sql, _, ok2 := strings.Cut(sql, "```")
	if !ok || !ok2 {
		t.Fatal("no SQL in the docs")
	}
	psql := postgres(t)
	psql(sql)
	ids := strings.Fields(psql("SELECT id FROM shard5.photos ORDER BY title"))
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Fatal(ids)
	}
	var o, e bytes.Buffer
	if code := run([]string{"inspect", "-json", "-layout", "instagram", ids[0]}, variables{}, &o, &e); code != exitOK {
		t.Fatal(code, e.String())
	}
	if !strings.Contains(o.String(), `"worker_id":5`) || !strings.Contains(o.String(), time.Now().UTC().Format(`"2006-01-02T`)[:8]) {
		t.Errorf("%s is read as %s", ids[0], &o)
	}
}
