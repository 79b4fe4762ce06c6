//go:build linux

package sql

import (
	"context"
	databasesql "database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
)

// statementCount counts statements of all connections that it makes.
type statementCount struct {
	driver.Connector
	n *atomic.Int64
}

func (c statementCount) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{conn, c.n}, nil
}

type countedConn struct {
	driver.Conn
	n *atomic.Int64
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.n.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c countedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.n.Add(1)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c countedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func TestAnswers(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		kind := map[byte]string{'p': "postgresql", 'm': "mariadb"}[db.url[0]]
		t.Run("ours", func(t *testing.T) { answers(t, db, kind, db.table(t)) })
		t.Run("Leaf's", func(t *testing.T) { answers(t, db, kind+"-leaf", db.leafTable(t, "")) })
	})
}

func answers(t *testing.T, db database, kind, url string) {
	var n atomic.Int64
	leaf := strings.HasSuffix(kind, "leaf")
	opened := func(url string, operator bool) *Store {
		s, err := Open(Config{URL: url, Lax: true, Operator: operator})
		if err != nil {
			t.Fatal(err)
		}
		s.d.db.Close()
		s.d.db = databasesql.OpenDB(statementCount{connector{s.d.t, ""}, &n})
		t.Cleanup(func() { s.Close() })
		return s
	}
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7}
	columns := strings.Split(fields+", revision", ", ")
	if leaf {
		d = counter.Sequence("orders")
		d.Batch = 7
		columns = []string{"biz_tag", "max_id", "step"}
	}
	strict, rate, refuse := d, d, d
	strict.Strict, rate.Rate, refuse.RefuseLoss = true, 5, true
	wrong := []counter.Definition{strict, rate, refuse}
	if leaf {
		odd, short := d, d
		odd.Step, short.Max = 2, 1000
		wrong = append(wrong, odd, short)
	}
	table := nameOf(url)
	record := func() string {
		return db.Do(t, fmt.Sprintf("SELECT concat_ws(',', %s) FROM %s WHERE %s = 'orders'", strings.Join(columns, ", "),
			table, columns[0]))
	}
	put := func(text string) {
		db.Do(t, fmt.Sprintf("DELETE FROM %s WHERE %s = 'orders'", table, columns[0]))
		if text != "" {
			values := strings.ReplaceAll(text, ",", "','")
			db.Do(t, fmt.Sprintf("INSERT INTO %s (%s) VALUES ('%s')", table, strings.Join(columns, ", "), values))
		}
	}
	set := func(what string) func() {
		return func() { db.Do(t, fmt.Sprintf("UPDATE %s SET %s WHERE %s = 'orders'", table, what, columns[0])) }
	}
	subject := countertest.Subject{
		Kind: kind, Definition: d, Wrong: wrong, Record: record, Put: put,
		Words: map[string]string{table: "TABLE", db.Socket: "SOCKET"},
		Open:  func(operator bool) any { return opened(url, operator) },
		Calls: func() string { return fmt.Sprint("statements ", n.Swap(0)) },
		More: func(say func(string, any, error)) {
			if leaf {
				moreOfLeaf(t, db, say, url, opened)
				return
			}
			more(t, db, say, url, opened)
		},
		Down: func() any {
			return opened(strings.Replace(url, db.Socket, "/nowhere"+strings.TrimPrefix(db.Socket, db.Dir), 1), true)
		},
	}
	if leaf {
		subject.Copy = set("max_id = -1")
	} else {
		subject.Damage, subject.Copy = set("next_value = 4"), set("history = 'another'")
		subject.Bad = map[string]func(){}
		for _, what := range []string{"next_value = -5", "max_value = 20000000000000000000", "token = ''",
			"floor_value = next_value + 1"} {
			subject.Bad[what] = set(what)
		}
		s := opened(url, true)
		if _, err := s.List(bg); err != nil {
			t.Fatal(err)
		}
		history, _, err := s.d.state(bg)
		if err != nil {
			t.Fatal(err)
		}
		subject.Words[history] = "HISTORY"
	}
	countertest.Answers(t, subject)
}

// more is what only databases have: tables and servers that cannot be used.
func more(t *testing.T, db database, say func(string, any, error), url string, opened func(string, bool) *Store) {
	list := func(what, url string) error {
		_, err := opened(url, true).List(bg)
		say(what, "", err)
		return err
	}
	other := strings.Replace(url, "table=", "table=no_", 1)
	_, statement, _ := strings.Cut(list("no table", other).Error(), "This makes it:\n")
	list("our table taken for Leaf's", strings.Replace(url, "?", "?layout=leaf&", 1))
	s, err := Open(Config{URL: url})
	if err == nil {
		defer s.Close()
		_, err = s.List(bg)
	}
	say("a server that does not sync", "", err)
	db.Do(t, statement)
	list("a table as the error says", other)
	list("no database", strings.Replace(url, "?socket", "_none?socket", 1))
	alter := func(what string) { db.Do(t, "ALTER TABLE "+nameOf(other)+" "+what) }
	alter("DROP COLUMN token")
	list("a column is missing", other)
	alter("ADD token varchar(64)")
	alter(map[byte]string{'p': "SET UNLOGGED", 'm': "ENGINE=MyISAM"}[db.url[0]])
	_, err = opened(other, true).Define(bg, counter.Sequence("orders"))
	say("a table that does not survive a crash", "", err)
}

// moreOfLeaf is what the rows of Leaf's table allow, and what they do not.
func moreOfLeaf(t *testing.T, db database, say func(string, any, error), url string, opened func(string, bool) *Store) {
	daemon := opened(url, false)
	define := func(what string, s *Store, d counter.Definition) {
		r, err := s.Define(bg, d)
		if err != nil {
			say("Leaf's table: "+what, "", err)
			return
		}
		say("Leaf's table: "+what, fmt.Sprint(r.Start, " ", r.Next, " ", r.Batch, " ", r.Same(d)), nil)
	}
	d := counter.Sequence("items")
	define("define by a daemon", daemon, d)
	_, err := opened(strings.Replace(url, "layout=leaf&", "", 1), true).List(bg)
	say("Leaf's table taken for ours", "", err)
	_, err = opened(strings.Replace(url, "table=", "table=no_", 1), true).List(bg)
	say("no table of Leaf's", "", err)
	made, odd, short := d, d, d
	made.Start, made.Batch = 700, 50
	define("a start and a batch", opened(url, true), made)
	row := db.Do(t, "SELECT concat_ws(' ', max_id, step) FROM "+nameOf(url)+" WHERE biz_tag = 'items'")
	say("Leaf's table: its row", row, nil)
	odd.Step, short.Max = 2, 1000
	for what, other := range map[string]counter.Definition{"another step": odd, "an end": short} {
		define("daemons that want "+what, daemon, other)
	}
	for _, start := range []uint64{1, 700, 701} {
		d.Start = start
		define(fmt.Sprint("daemons that want the start ", start), daemon, d)
	}
}
