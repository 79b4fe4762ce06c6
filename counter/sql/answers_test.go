//go:build linux

package sql

import (
	"context"
	databasesql "database/sql"
	"database/sql/driver"
	"errors"
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
		t.Run("ours", func(t *testing.T) { answers(t, db, db.kind, db.table(t)) })
		t.Run("Leaf's", func(t *testing.T) { answers(t, db, db.kind+"-leaf", db.leafTable(t, "")) })
	})
}

func answers(t *testing.T, db database, kind, url string) {
	var n atomic.Int64
	leaf := strings.HasSuffix(kind, "leaf")
	counted := func(url string, operator bool) *Store {
		s := opened(t, Config{URL: url, Lax: true, Operator: operator})
		s.d.db.Close()
		s.d.db = databasesql.OpenDB(statementCount{connector{s.d.t, ""}, &n})
		return s
	}
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7}
	columns := strings.Split(fields+", revision", ", ")
	if leaf {
		d = counter.Sequence("orders")
		d.Batch = 7
		columns = []string{"biz_tag", "max_id", "step"}
	}
	table := nameOf(url)
	plain := open(t, url).d.db // a program for each statement would take ten times as long
	do := func(statement string, values ...any) {
		if _, err := plain.Exec(fmt.Sprintf(statement, values...)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	record := func() (text string) {
		err := plain.QueryRow(fmt.Sprintf("SELECT concat_ws(',', %s) FROM %s WHERE %s = 'orders'",
			strings.Join(columns, ", "), table, columns[0])).Scan(&text)
		if err != nil && !errors.Is(err, databasesql.ErrNoRows) {
			t.Fatal(err)
		}
		return text
	}
	put := func(text string) {
		do("DELETE FROM %s", table)
		if text != "" {
			do("INSERT INTO %s (%s) VALUES ('%s')", table, strings.Join(columns, ", "), strings.ReplaceAll(text, ",", "','"))
		}
	}
	set := func(what string) func() {
		return func() { do("UPDATE %s SET %s WHERE %s = 'orders'", table, what, columns[0]) }
	}
	subject := countertest.Subject{
		Kind: kind, Definition: d, Record: record, Put: put,
		Break: map[string]func(){}, Words: map[string]string{table: "TABLE", db.Socket: "SOCKET"},
		Open:  func(operator bool) any { return counted(url, operator) },
		Calls: func() map[string]int { return map[string]int{"statements": int(n.Load())} },
		Down: func() any {
			return counted(strings.Replace(url, db.Socket, "/nowhere"+strings.TrimPrefix(db.Socket, db.Dir), 1), true)
		},
	}
	if leaf {
		subject.Break["copied"] = set("max_id = -1")
	} else {
		subject.Break["damaged"], subject.Break["copied"] = set("next_value = 4"), set("history = 'another'")
		for _, what := range []string{"next_value = -5", "max_value = 20000000000000000000", "token = ''",
			"floor_value = next_value + 1"} {
			subject.Break[what] = set(what)
		}
		s := counted(url, true)
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
