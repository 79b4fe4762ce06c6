//go:build linux

package sql

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

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
	url string // up to ?socket=
}

func postgresAt(s *sqltest.Server) database { return database{s, "postgres://postgres@/postgres"} }
func mariaAt(s *sqltest.Server) database    { return database{s, "mysql://root@/test"} }

// both runs a test with the shared servers of both kinds.
func both(t *testing.T, test func(t *testing.T, db database)) {
	t.Run("PostgreSQL", func(t *testing.T) { test(t, postgresAt(sqltest.SharedPostgres(t))) })
	t.Run("MariaDB", func(t *testing.T) { test(t, mariaAt(sqltest.SharedMariaDB(t))) })
}

var tables atomic.Int64

// table makes a table and returns its URL.
func (db database) table(t testing.TB) string {
	t.Helper()
	url := fmt.Sprintf("%s?socket=%s&table=t%d", db.url, db.Socket, tables.Add(1))
	target, err := Config{URL: url}.parse()
	if err != nil {
		t.Fatal(err)
	}
	db.Do(t, target.createTable())
	return url
}

func nameOf(url string) string { return url[strings.LastIndexByte(url, '=')+1:] }

// open opens another Store, as another process would have it. The servers of tests do not sync.
func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(Config{URL: url, Lax: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		countertest.Run(t, func(t *testing.T) countertest.Open {
			url := db.table(t)
			return func(t *testing.T) (counter.Store, counter.Admin) {
				s := open(t, url)
				return s, s
			}
		})
	})
}
