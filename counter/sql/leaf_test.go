//go:build linux

package sql

import (
	"context"
	databasesql "database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// leafTable makes a table as Leaf's script does, with more after it, and returns its URL.
func (db database) leafTable(t testing.TB, more string) string {
	t.Helper()
	name, onUpdate := fmt.Sprintf("leaf%d", tables.Add(1)), ""
	if db.url[0] == 'm' {
		onUpdate = " ON UPDATE CURRENT_TIMESTAMP"
	}
	db.Do(t, `CREATE TABLE `+name+` (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint NOT NULL DEFAULT '1', step int NOT NULL,
		description varchar(256) DEFAULT NULL, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP`+onUpdate+`, PRIMARY KEY (biz_tag)) `+more)
	return fmt.Sprintf("%s?socket=%s&layout=leaf&table=%s", db.url, db.Socket, name)
}

// operate opens a Store as an operator has it, who may make rows.
func operate(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(Config{URL: url, Lax: true, Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// leafRow makes a row as Leaf's users do.
func (db database) leafRow(t testing.TB, url, tag, maxID string) {
	t.Helper()
	db.Do(t, fmt.Sprintf("INSERT INTO %s (biz_tag, max_id, step) VALUES ('%s', %s, 100)", nameOf(url), tag, maxID))
}

func TestLeafStore(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		more := map[byte]string{'p': "", 'm': "ENGINE=InnoDB COLLATE utf8mb4_bin"}[db.url[0]] // which tells a from A
		countertest.RunPlain(t, func(t *testing.T) countertest.Open {
			url := db.leafTable(t, more)
			return func(t *testing.T) (counter.Store, counter.Admin) {
				s := operate(t, url)
				return s, s
			}
		})
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
	const rounds = 400 // of each of four daemons and four Leaf servers
	both(t, func(t *testing.T, db database) {
		url := db.leafTable(t, "")
		db.leafRow(t, url, "orders", "1")
		leaf := open(t, url).d.db // another pool of connections
		var mu sync.Mutex
		var blocks []counter.Block
		grant := func(b counter.Block, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			blocks = append(blocks, b)
			mu.Unlock()
		}
		var wg sync.WaitGroup
		for i := range 4 {
			s := open(t, url)
			wg.Go(func() {
				for n := range rounds {
					grant(s.Reserve(bg, "orders", uint64(1+n%250)))
				}
			})
			wg.Go(func() {
				for n := range rounds {
					by, step := "step", uint64(0)
					if i%2 == 1 { // it has sped up
						step = uint64(200 + n%3)
						by = fmt.Sprint(step)
					}
					grant(leafServer(bg, leaf, nameOf(url), by, step))
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		disjoint(t, blocks)
		next := uint64(1)
		for _, b := range blocks {
			if b.Lo != next {
				t.Fatalf("%d to %d is granted to nobody", next, b.Lo-1)
			}
			next = b.Hi + 1
		}
		if got := db.Do(t, "SELECT max_id FROM "+nameOf(url)); got != fmt.Sprint(next) || len(blocks) != 8*rounds {
			t.Errorf("max_id is %s after %d blocks, want %d", got, len(blocks), next)
		}
	})
}

// Values that max_id may have, up to the last one. Near 2^53 a floating-point number takes neighbours for
// the same.
func TestLeafValues(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.leafTable(t, "")
		s := open(t, url)
		db.Do(t, "ALTER TABLE "+nameOf(url)+
			map[byte]string{'p': " ALTER max_id DROP NOT NULL", 'm': " MODIFY max_id bigint NULL"}[db.url[0]])
		db.leafRow(t, url, "orders", "0")
		set := func(v string) {
			t.Helper()
			db.Do(t, "UPDATE "+nameOf(url)+" SET max_id = "+v+" WHERE biz_tag = 'orders'")
		}
		reserve(t, s, 1) // 0 is no value
		for i := range uint64(4) {
			v := uint64(1)<<53 + i
			set(fmt.Sprint(v))
			reserve(t, s, v)
			compares(t, s, map[string]func(r *row){
				"over another max_id": func(r *row) { r.was-- }, "under another history": func(r *row) { r.now = "another" },
			})
			s = open(t, url) // it may go back to the next i
		}
		set("9223372036854775803")
		if b, err := s.Reserve(bg, "orders", 10); err != nil || b.Lo != counter.MaxValue-4 || b.Hi != counter.MaxValue-1 {
			t.Errorf("%+v, %v", b, err)
		}
		if b, err := s.Reserve(bg, "orders", 10); !errors.Is(err, counter.ErrEnded) {
			t.Errorf("%+v, %v", b, err)
		}
		for _, v := range []string{"-1", "NULL", "-9223372036854775808"} {
			set(v)
			s, operator := open(t, url), operate(t, url)
			foreign(t, s, "negative or NULL", "`katsubushi name raise orders N`")
			if list, err := s.List(bg); err != nil || list[0].Fault != nil { // no daemon may be asked for it
				t.Error(list, err)
			}
			if list, err := operator.List(bg); err != nil || !errors.Is(list[0].Fault, counter.ErrForeign) {
				t.Error(list, err)
			}
			if _, err := operator.Raise(bg, "orders", 1); err != nil {
				t.Error(err)
			}
			reserve(t, s, 1)
		}
	})
}

// Names are those of the rows. Rows that come and go are changes, and so is this process's own raise;
// what others reserve is none.
func TestLeafChanges(t *testing.T) {
	both(t, func(t *testing.T, db database) {
		url := db.leafTable(t, "")
		s, other := open(t, url), open(t, url)
		db.leafRow(t, url, "orders", "1")
		since, _, err := s.Changes(bg, "")
		if err != nil {
			t.Fatal(err)
		}
		see := func(when, names string, floor uint64) {
			t.Helper()
			now, records, err := s.Changes(bg, since)
			var got []string
			for _, r := range records {
				got = append(got, r.Name)
				if r.Name == "orders" && r.Floor != floor {
					t.Errorf("%s: floor %d", when, r.Floor)
				}
			}
			if strings.Join(got, " ") != names || err != nil {
				t.Errorf("%s: %q, %v; want %q", when, got, err, names)
			}
			since = now
		}
		reserve(t, other, 1)
		see("others reserve", "", 0)
		long := strings.Repeat("x", 128)
		db.leafRow(t, url, "items", "1")
		db.leafRow(t, url, long, "1")
		db.leafRow(t, url, "", "1")
		see("rows are made", "items orders "+long, 0)
		db.Do(t, "UPDATE "+nameOf(url)+" SET biz_tag = 'goods' WHERE biz_tag = 'items'")
		see("a row is renamed", "goods orders "+long, 0)
		if _, err := s.Raise(bg, "orders", 500); err != nil {
			t.Fatal(err)
		}
		see("it raised", "goods orders "+long, 500)
		see("nothing was done", "", 0)
		if db.url[0] == 'm' { // Leaf's script leaves the server's collation
			_, err := s.Reserve(bg, "Orders", 1)
			says(t, err, `takes "Orders" for the same`)
			if !errors.Is(err, counter.ErrUnknown) {
				t.Error(err)
			}
		}
	})
}

// A server that takes over without the last commits: Leaf's table does not show it, but a running daemon
// drops what it was granted before.
func TestLeafFailsOver(t *testing.T) {
	db := mariaAt(sqltest.MariaDB(t, "--server-id=7"))
	url := db.leafTable(t, "")
	db.leafRow(t, url, "orders", "1")
	s := open(t, url)
	since, _, err := s.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	reserve(t, s, 1)
	db.Kill()
	db.Launch(t, "--server-id=8")
	_, records, err := s.Changes(bg, since)
	if err != nil || len(records) != 1 || records[0].Floor != 11 {
		t.Errorf("the daemon may go on with its block: %+v, %v", records, err)
	}
	reserve(t, s, 11)
}
