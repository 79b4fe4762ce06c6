//go:build linux

package sql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

var bg = context.Background()

var define = countertest.Define

// reserve wants ten values from lo on.
func reserve(t testing.TB, s *Store, lo uint64) counter.Block {
	t.Helper()
	return countertest.Reserve(t, s, 10, lo)
}

// says wants an error that names all of words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	countertest.Refused(t, err, nil, words...)
}

// foreign wants a refusal until somebody raises the sequence, in these words.
func foreign(t testing.TB, s *Store, words ...string) {
	t.Helper()
	_, err := s.Reserve(bg, "orders", 10)
	countertest.Refused(t, err, counter.ErrForeign, words...)
}

// Logins with a password from a file, which is read for each connection and shown nowhere.
func TestPassword(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.table(t)
		define(t, open(t, url))
		if db.url[0] == 'p' {
			db.Do(t, "CREATE ROLE secret LOGIN PASSWORD 'hunter2'")
			defer db.Do(t, "DROP OWNED BY secret; DROP ROLE secret")
		} else {
			db.Do(t, "DROP USER IF EXISTS secret; CREATE USER secret IDENTIFIED BY 'hunter2'; GRANT USAGE ON *.* TO secret")
			db.Do(t, "CREATE TABLE IF NOT EXISTS own (n int); GRANT SELECT ON own TO secret")
		}
		file := filepath.Join(t.TempDir(), "password")
		write := func(password string) {
			if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		url = strings.Replace(strings.Replace(url, "postgres@", "secret@", 1), "root@", "secret@", 1)
		s, err := Open(Config{URL: url, PasswordFile: file, Lax: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		try := func(words ...string) {
			t.Helper()
			_, err := s.Reserve(bg, "orders", 10)
			says(t, err, words...)
			if errors.Is(err, counter.ErrUnavailable) || strings.Contains(err.Error(), "hunter") {
				t.Error(err)
			}
		}
		try("-counters-password-file", "no such file")
		write("hunter3")
		try("the server refuses the user or the password")
		write("hunter2")
		try("needs the rights SELECT, INSERT and UPDATE")
		db.Do(t, "GRANT SELECT, INSERT, UPDATE ON "+nameOf(url)+" TO secret")
		reserve(t, s, 1)
	})
}

// A session that keeps the row locked is waited for, and named.
func TestLockWait(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.table(t)
		s, other := open(t, url), open(t, url)
		define(t, s)
		if _, err := other.List(bg); err != nil {
			t.Fatal(err)
		}
		tx, err := other.d.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE " + nameOf(url) + " SET revision = revision + 1"); err != nil {
			t.Fatal(err)
		}
		_, err = s.Reserve(bg, "orders", 10)
		says(t, err, "another session keeps the row or the table locked")
		if !errors.Is(err, counter.ErrUnavailable) {
			t.Error(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		reserve(t, s, 1)
	})
}

// A server's defaults do not weaken a commit.
func TestCommitsAreCommits(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		db := postgresAt(sqltest.SharedPostgres(t))
		url := db.table(t)
		db.Do(t, "ALTER ROLE postgres SET synchronous_commit = off")
		defer db.Do(t, "ALTER ROLE postgres RESET synchronous_commit")
		var setting string
		if err := open(t, url).d.db.QueryRow("SHOW synchronous_commit").Scan(&setting); err != nil || setting != "on" {
			t.Errorf("synchronous_commit is %s, %v", setting, err)
		}
	})
	t.Run("MariaDB", func(t *testing.T) {
		db := mariaAt(sqltest.SharedMariaDB(t))
		url := db.table(t)
		db.Do(t, "SET GLOBAL autocommit = 0")
		defer db.Do(t, "SET GLOBAL autocommit = 1")
		s := open(t, url)
		define(t, s)
		reserve(t, s, 1)
		s.d.db.Close() // as if killed
		reserve(t, open(t, url), 11)
	})
}

// A table that was restored from a dump is another one.
func TestRestoredDump(t *testing.T) {
	db := postgresAt(sqltest.SharedPostgres(t))
	url := db.table(t)
	s := open(t, url)
	define(t, s)
	reserve(t, s, 1)
	name := nameOf(url)
	db.Do(t, fmt.Sprintf("ALTER TABLE %[1]s RENAME TO %[1]s_old; CREATE TABLE %[1]s (LIKE %[1]s_old INCLUDING ALL); "+
		"INSERT INTO %[1]s SELECT * FROM %[1]s_old", name))
	foreign(t, open(t, url), "was restored or replaced", "katsubushi name raise orders 11")
}

// A replica is not used, and one that was promoted without the last commits is refused until somebody
// has raised the sequence. Blocks that its daemons hold are not used any more.
func TestPromotedReplica(t *testing.T) {
	primary := sqltest.Postgres(t)
	service := t.TempDir() // a socket that can be moved, as a virtual address is
	if err := os.Chmod(service, 0o755); err != nil {
		t.Fatal(err)
	}
	pointTo := func(s *sqltest.Server) {
		link := filepath.Join(service, ".s.PGSQL.5432")
		os.Remove(link)
		if err := os.Symlink(filepath.Join(s.Dir, ".s.PGSQL.5432"), link); err != nil {
			t.Fatal(err)
		}
	}
	pointTo(primary)
	url := strings.Replace(postgresAt(primary).table(t), primary.Socket, service, 1)
	s := open(t, url)
	define(t, s)
	reserve(t, s, 1)
	since, _, err := s.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	replica := primary.Replica(t)
	sqltest.Until(t, "the replica has the first block", func() bool {
		return replica.Do(t, "SELECT next_value FROM "+nameOf(url)) == "11"
	})
	_, err = open(t, strings.Replace(url, service, replica.Socket, 1)).Reserve(bg, "orders", 10)
	says(t, err, "read-only replica")
	if !errors.Is(err, counter.ErrUnavailable) {
		t.Error(err)
	}

	replica.Sever(t)
	lost := reserve(t, s, 11)
	primary.Kill()
	replica.Promote(t)
	pointTo(replica)
	var records []counter.Record
	sqltest.Until(t, "the daemon has reached the new primary", func() bool {
		_, records, err = s.Changes(bg, since)
		return err == nil
	})
	if len(records) != 1 || records[0].Floor != lost.Hi+1 {
		t.Errorf("the daemon may go on with the lost block: %+v", records)
	}
	fresh := open(t, url)
	for least, who := range map[int]*Store{21: s, 11: fresh} { // the new one cannot know of the lost block
		foreign(t, who, "a replica was promoted", fmt.Sprintf("`katsubushi name raise orders %d`", least))
		if err := who.Return(bg, "orders", lost, lost.Lo); !errors.Is(err, counter.ErrForeign) {
			t.Error(err)
		}
		if r, err := who.Show(bg, "orders"); !errors.Is(err, counter.ErrForeign) || r.Next != 11 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := who.Define(bg, counter.Sequence("orders")); !errors.Is(err, counter.ErrForeign) {
			t.Error(err)
		}
	}
	if _, err := fresh.Raise(bg, "orders", 21); err != nil {
		t.Fatal(err)
	}
	reserve(t, fresh, 21)
	reserve(t, s, 31)
	if _, records, err := s.Changes(bg, since); err != nil || len(records) != 1 || records[0].Floor != 21 {
		t.Errorf("%+v, %v", records, err)
	}
}

// MariaDB: a commit is one when it is on the disk, in the binary log too. Another server has another history.
func TestAnotherMariaDB(t *testing.T) {
	port := strconv.Itoa(redistest.FreePort(t))
	host := "127.0.0.1:" + port
	db := mariaAt(sqltest.MariaDB(t, "--server-id=7", "--log-bin", "--innodb-flush-log-at-trx-commit=1",
		"--skip-networking=0", "--bind-address=127.0.0.1", "--port="+port))
	url := db.table(t)
	s := open(t, url)
	define(t, s)
	reserve(t, s, 1)
	safe, err := Open(Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer safe.Close()
	_, err = safe.Show(bg, "orders")
	says(t, err, "may lose what it has committed", "sync_binlog")
	db.Do(t, "SET GLOBAL sync_binlog = 1")
	if _, err := safe.Show(bg, "orders"); err != nil {
		t.Error(err)
	}
	_, err = open(t, "mysql://root@"+host+"/test?table="+nameOf(url)).Show(bg, "orders")
	says(t, err, "the server has no TLS: ?tls=false")
	if _, err := open(t, "mysql://root@"+host+"/test?tls=false&table="+nameOf(url)).Show(bg, "orders"); err != nil {
		t.Error(err)
	}
	db.Do(t, "SET GLOBAL read_only = 1")
	_, err = s.Reserve(bg, "orders", 10)
	says(t, err, "read-only replica")
	db.Kill()
	db.Launch(t, "--server-id=8")
	foreign(t, open(t, url), "was restored or replaced", "`katsubushi name raise orders 11`")
	if _, err := open(t, url).Raise(bg, "orders", 11); err != nil {
		t.Fatal(err)
	}
	reserve(t, s, 11)
}

// A server that is killed while several daemons reserve grants nothing twice.
func TestServerKilled(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.table(t)
		define(t, open(t, url))
		ctx, stop := context.WithCancel(bg)
		defer stop()
		var mu sync.Mutex
		var blocks []counter.Block
		var wg sync.WaitGroup
		for range 4 {
			s := open(t, url)
			wg.Go(func() {
				for ctx.Err() == nil {
					call, cancel := context.WithTimeout(bg, time.Second)
					b, err := s.Reserve(call, "orders", 10)
					cancel()
					if counter.Certain(err) {
						t.Error(err)
					}
					if err == nil {
						mu.Lock()
						blocks = append(blocks, b)
						mu.Unlock()
					}
				}
			})
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(blocks)
		}
		for range 3 {
			before := count()
			sqltest.Until(t, "blocks are granted", func() bool { return count() > before+20 })
			db.Kill()
			db.Launch(t)
		}
		before := count()
		sqltest.Until(t, "blocks are granted", func() bool { return count() > before+20 })
		stop()
		wg.Wait()
		disjoint(t, blocks)
	})
}

func disjoint(t testing.TB, blocks []counter.Block) {
	t.Helper()
	slices.SortFunc(blocks, func(a, b counter.Block) int { return int(a.Lo) - int(b.Lo) })
	for i := 1; i < len(blocks); i++ {
		if blocks[i].Lo <= blocks[i-1].Hi {
			t.Fatalf("%+v and %+v", blocks[i-1], blocks[i])
		}
	}
}

// While a server has stopped, calls end with their contexts. What was under way may count or not.
func TestServerPaused(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.table(t)
		s := open(t, url)
		define(t, s)
		blocks := []counter.Block{reserve(t, s, 1)}
		db.Pause()
		paused := true
		defer func() {
			if paused {
				db.Resume()
			}
		}()
		for range 2 {
			ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
			_, err := s.Reserve(ctx, "orders", 10)
			cancel()
			if !errors.Is(err, counter.ErrUnavailable) {
				t.Error(err)
			}
			says(t, err, s.d.t.String())
		}
		db.Resume()
		paused = false
		for range 2 {
			sqltest.Until(t, "it goes on", func() bool {
				b, err := s.Reserve(bg, "orders", 10)
				if err == nil {
					blocks = append(blocks, b)
				}
				return err == nil
			})
		}
		blocks = append(blocks, reserve(t, open(t, url), blocks[2].Hi+1))
		disjoint(t, blocks)
	})
}

// compares wants no write in place of a row that is not as it was read: changes make it another one.
func compares(t testing.TB, s *Store, changes map[string]func(r *row)) {
	t.Helper()
	found, err := s.d.Load(bg, []string{"orders"})
	if err != nil {
		t.Fatal(err)
	}
	next := found[0].Entry.Copy()
	if _, err := next.Reserve(10, "new"); err != nil {
		t.Fatal(err)
	}
	for what, change := range changes {
		other := *found[0].Version.(*row)
		change(&other)
		write := ledger.Write{Found: ledger.Found{Version: &other}, Next: next}
		if _, err := s.d.Swap(bg, nil, []ledger.Write{write}); !errors.Is(err, ledger.ErrAgain) {
			t.Errorf("written %s: %v", what, err)
		}
	}
}

// The server is replaced between reading and writing, as behind an address that moves: nothing is written.
func TestHistoryIsComparedByTheWrite(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		s := open(t, db.table(t))
		define(t, s)
		reserve(t, s, 1)
		compares(t, s, map[string]func(r *row){
			"under another history": func(r *row) { r.now = "another" },
			"over another token":    func(r *row) { r.Token = "another" },
		})
		reserve(t, s, 11)
	})
}
