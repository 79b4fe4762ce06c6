package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// leafTable is the table of ?layout=leaf without ?table=NAME.
const leafTable = "leaf_alloc"

// Leaf's table has a row for each sequence: its name (biz_tag), the first free value
// (max_id), and the size of Leaf's own blocks (step), which we ignore. Leaf reserves with
//
//	UPDATE leaf_alloc SET max_id = max_id + STEP WHERE biz_tag = NAME
//
// and reads max_id in the same transaction: the block is max_id-STEP to max_id-1. We compare and set
// max_id instead, so max_id is the row's token too: a write in between, by Leaf or another
// daemon, makes us read again. That is safe while max_id only rises. A Return would lower it, and then
// an UPDATE that is under way, of ours or of Leaf's, could grant the same block again. So a Block's token
// is a text that no row has, and Return always answers counter.ErrStale.
//
// The rest of a Record has no column. Values are all from 1 on, and Floor is known to the process that
// raised it alone.

const (
	tag    = "biz_tag"
	nobody = "coalesce(max_id, -1)" // the first free value; negative = the row is of no use
)

// leafStatements returns those of Leaf's table, each completed by write.
func leafStatements(write func(string) string) *statements {
	// an empty history is never a server's
	columns := fmt.Sprintf("{HISTORY}, {CONDITION}, {TAG}, 1, 1, 1, %d, 0, greatest("+nobody+", 1), 0, 0, "+nobody+
		", CASE WHEN max_id >= 0 THEN {HISTORY} ELSE '' END", uint64(counter.MaxValue))
	return &statements{
		row:    write("SELECT " + columns + " FROM {TABLE} WHERE {TAG} = ?"),
		all:    write("SELECT " + columns + " FROM {TABLE} WHERE {TAG} <> '' ORDER BY {TAG}"),
		state:  write("SELECT {HISTORY}, {CONDITION}, count(*), coalesce(sum({DIGEST}), 0) FROM {TABLE}"),
		insert: write("INSERT INTO {TABLE} ({TAG}, max_id, step) VALUES (?, ?, ?)"),
		update: write("UPDATE {TABLE} SET max_id = ? WHERE {TAG} = ? AND " + nobody + " = ? AND {HISTORY} = ?"),
	}
}

// leafStep is what Leaf servers reserve at once, if the definition has no Batch.
const leafStep = 1000

// A leafEntry is a row of Leaf's table.
type leafEntry struct{ ledger.Basic }

// Copy implements ledger.Entry.
func (e *leafEntry) Copy() ledger.Entry { return &leafEntry{e.Basic} }

// Reserve implements ledger.Entry: the next value is a bigint too.
func (e *leafEntry) Reserve(n uint64, token string) (counter.Block, error) {
	e.Max--
	defer func() { e.Max++ }()
	return e.Record.Reserve(n, token)
}

// swapLeaf is Swap. The row's number is compared as one: MySQL may compare an expression with a text as
// floating-point numbers, which cannot tell large values apart. (MariaDB 10.11 does not.)
func (d *table) swapLeaf(ctx context.Context, found *row, r *counter.Record, raised bool) (err error) {
	r.Token = text(r.Next)
	switch {
	case found == nil:
		if _, _, err := d.state(ctx); err != nil {
			return err
		}
		return d.insert(ctx, r.Name, int64(r.Next), int64(cmp.Or(r.Batch, leafStep)))
	case r.Token != found.Token:
		err = d.update(ctx, d.said.Load().update, int64(r.Next), r.Name, found.was, found.now)
	}
	if err == nil && raised { // the table has no floor: this process's own daemon drops what it holds, and no other
		d.mu.Lock()
		defer d.mu.Unlock()
		d.floors[r.Name] = max(d.floors[r.Name], r.Floor)
		d.raised++
	}
	return err
}

// floorOf returns what this process has raised a row of Leaf's table to.
func (d *table) floorOf(name string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.floors[name]
}

// ErrNoRetire is the error of Retire for Leaf's table.
var ErrNoRetire = errors.New("the table of Leaf has no column that says that a sequence is retired, and Leaf " +
	"servers would go on: " +
	"stop them and the daemons, and delete the row")

// CheckLeaf returns why Leaf's table cannot keep a sequence as it is defined, or nil.
func CheckLeaf(d counter.Definition) error {
	if d.Step != 1 || d.Max != counter.MaxValue {
		return errors.New("the table of Leaf has no columns for step=, offset= and max=: every sequence in it has step=1 " +
			"and no max=")
	}
	return nil
}

// newLeaf returns the first entry of a row. A row that is missing may have been deleted, so a daemon makes none.
func (d *table) newLeaf(def counter.Definition) (ledger.Entry, error) {
	if !d.c.Operator {
		return nil, fmt.Errorf("%w: no %s in %s, where daemons make no rows: `katsubushi name create '%s sequence "+
			"start=N'`, with N above every value that was issued",
			counter.ErrUnknown, def.Name, d.t, def.Name)
	}
	return &leafEntry{ledger.Basic{Record: counter.NewRecord(def, "-")}}, CheckLeaf(def)
}
