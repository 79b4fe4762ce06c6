//go:build linux

package sql

import (
	"cmp"
	"context"
	databasesql "database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	sqltest.StopShared()
	os.Exit(code)
}

// A database is a server and how a Store reaches it.
type database struct {
	*sqltest.Server
	kind, url, socket string // the URL is up to ?socket=
}

func postgresAt(s *sqltest.Server) database {
	return database{s, "postgresql", "postgres://postgres@/postgres", s.Socket}
}

func mariaAt(s *sqltest.Server) database {
	return database{s, "mariadb", "mysql://root@/test", s.Socket}
}

// both runs a test with the shared servers of both kinds.
func both(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresAt(sqltest.SharedPostgres(t))) })
	t.Run("MariaDB", func(t *testing.T) { test(t, mariaAt(sqltest.SharedMariaDB(t))) })
}

var (
	bg     = context.Background()
	tables atomic.Int64
)

// table makes a table and returns its URL.
func (db database) table(t testing.TB) string {
	t.Helper()
	url := fmt.Sprintf("%s?socket=%s&table=t%d", db.url, db.socket, tables.Add(1))
	target, err := Config{URL: url}.parse()
	if err != nil {
		t.Fatal(err)
	}
	db.Do(t, target.createTable())
	return url
}

func nameOf(url string) string { return url[strings.LastIndexByte(url, '=')+1:] }

// leafTable makes a table as Leaf's script does, with more after it, and returns its URL.
func (db database) leafTable(t testing.TB, more string) string {
	t.Helper()
	name := fmt.Sprintf("leaf%d", tables.Add(1))
	onUpdate := map[string]string{"mariadb": " ON UPDATE CURRENT_TIMESTAMP"}[db.kind]
	db.Do(t, `CREATE TABLE `+name+` (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint NOT NULL DEFAULT '1', step int NOT NULL,
		description varchar(256) DEFAULT NULL, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP`+onUpdate+`, PRIMARY KEY (biz_tag)) `+more)
	return fmt.Sprintf("%s?socket=%s&layout=leaf&table=%s", db.url, db.socket, name)
}

// open opens another Store, as another process would have it. The servers of tests do not sync.
func open(t testing.TB, url string) *Store { return opened(t, Config{URL: url, Lax: true}) }

// patient is a limit that only a broken server meets, also on a busy machine.
const patient = 5 * time.Minute

func opened(t testing.TB, c Config) *Store {
	t.Helper()
	c.limit = cmp.Or(c.limit, patient)
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	both(t, func(t *testing.T, db database) { conforms(t, func() string { return db.table(t) }, countertest.Run) })
}

func TestLeafStore(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		more := map[string]string{"mariadb": "ENGINE=InnoDB COLLATE utf8mb4_bin"}[db.kind] // which tells a from A
		conforms(t, func() string { return db.leafTable(t, more) }, countertest.RunPlain)
	})
}

// conforms opens Stores as operators have them, who may make rows of Leaf's.
func conforms(t *testing.T, table func() string, run func(*testing.T, func(*testing.T) countertest.Open)) {
	run(t, func(t *testing.T) countertest.Open {
		c := Config{URL: table(), Lax: true, Operator: true}
		return func(t *testing.T) countertest.Client { return opened(t, c) }
	})
}

// A server that is killed while several daemons reserve grants nothing twice.
func TestServerKilled(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.table(t)
		countertest.Define(t, open(t, url))
		ctx, stop := context.WithCancel(bg)
		var granted countertest.Grants
		var wg sync.WaitGroup
		for range 4 {
			s := open(t, url)
			wg.Go(func() {
				for ctx.Err() == nil {
					call, cancel := context.WithTimeout(bg, time.Second)
					if err := granted.Add(s.Reserve(call, "orders", 10)); counter.Certain(err) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		more := func() {
			want := granted.Len() + 20
			sqltest.Until(t, "blocks are granted", func() bool { return granted.Len() > want })
		}
		for range 2 {
			more()
			db.Kill()
			db.Launch(t)
		}
		more()
		stop()
		wg.Wait()
		granted.Check(t, 1, false)
	})
}

// leafServer reserves as Leaf does: in one transaction it advances the row, by its step or by another,
// and reads what it has become.
func leafServer(ctx context.Context, db *databasesql.DB, table, by string, step uint64) (counter.Block, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return counter.Block{}, err
	}
	defer tx.Rollback()
	if _, err := tx.Exec("UPDATE " + table + " SET max_id = max_id + " + by + " WHERE biz_tag = 'orders'"); err != nil {
		return counter.Block{}, err
	}
	var tag string
	var max, size uint64
	if err := tx.QueryRow("SELECT biz_tag, max_id, step FROM "+table+" WHERE biz_tag = 'orders'").
		Scan(&tag, &max, &size); err != nil {
		return counter.Block{}, err
	}
	if step == 0 {
		step = size
	}
	return counter.Block{Lo: max - step, Hi: max - 1}, tx.Commit()
}

// Leaf servers and daemons share a row, at once: no value is granted twice, and none is left out.
func TestSharedWithLeaf(t *testing.T) {
	const rounds = 100 // of each of four daemons and four Leaf servers
	both(t, func(t *testing.T, db database) {
		url := db.leafTable(t, "")
		db.Do(t, "INSERT INTO "+nameOf(url)+" (biz_tag, max_id, step) VALUES ('orders', 1, 100)")
		leaf := open(t, url).d.db // another pool of connections
		var granted countertest.Grants
		var wg sync.WaitGroup
		for i := range 4 {
			s := open(t, url)
			wg.Go(func() {
				for n := range rounds {
					if err := granted.Add(s.Reserve(bg, "orders", uint64(1+n%250))); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for n := range rounds {
					by, step := "step", uint64(0)
					if i%2 == 1 { // it has sped up
						step = uint64(200 + n%3)
						by = fmt.Sprint(step)
					}
					if err := granted.Add(leafServer(bg, leaf, nameOf(url), by, step)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		next := granted.Check(t, 1, true)
		if got := db.Do(t, "SELECT max_id FROM "+nameOf(url)); got != fmt.Sprint(next) || granted.Len() != 8*rounds {
			t.Errorf("max_id is %s after %d blocks, want %d", got, granted.Len(), next)
		}
	})
}
