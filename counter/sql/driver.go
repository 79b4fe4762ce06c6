package sql

import (
	"context"
	databasesql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
)

// A table is a Store's ledger.Driver.
type table struct {
	*ledger.Gate
	c  Config
	t  *target
	db *databasesql.DB

	said atomic.Pointer[statements] // nil = the server was not asked yet for what they depend on

	mu     sync.Mutex
	floors map[string]uint64 // of Leaf's table, by name: what this process has raised a row to,
	raised uint64            // and how often it has raised one
}

var words = ledger.Words{
	Unknown: "no {NAME} in {AT}",
	Lost: "sequence {NAME} was deleted from {AT}: put it back, or define it again and raise it above {GRANTED}: " +
		"`katsubushi name raise {NAME} {LEAST}`",
	SetBack: "sequence {NAME} in {AT} was set back: it says that {NEXT} is free, and this daemon was granted up to " +
		"{GRANTED}. `katsubushi name raise {NAME} {LEAST}`, or a larger value if other daemons issued more",
}

// Do implements ledger.Driver. A server that has stopped may block a client library whatever its context says.
func (d *table) Do(ctx context.Context, f func() error) error {
	return d.Gate.Do(ctx, func() error {
		if err := d.prepare(ctx); err != nil {
			return err
		}
		return f()
	})
}

// prepare makes the statements. It asks the server what they depend on, the first time.
func (d *table) prepare(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return d.noAnswer(ctx.Err())
	case d.said.Load() != nil:
		return nil
	}
	history, err := d.t.kind.history(ctx, d.db, d.t)
	if err != nil {
		return d.explain(err)
	}
	d.said.Store(d.t.kind.statements(d.t, history))
	return nil
}

// Close implements ledger.Driver. It does not wait for a server that does not answer.
func (d *table) Close() error {
	if d.Gate.Close() {
		go d.db.Close() // waits for calls under way, each for patience at most
	}
	return nil
}

// NoAnswer implements ledger.Driver.
func (d *table) NoAnswer(_ string, cause error) error { return d.noAnswer(cause) }

// At implements ledger.Driver.
func (d *table) At(string) string { return d.t.String() }

// Check implements ledger.Driver.
func (d *table) Check(def counter.Definition) error {
	err := def.Check()
	switch {
	case err != nil:
		return err
	case def.Strict:
		return counter.ErrOrder
	case def.Rate != 0 || def.RefuseLoss:
		return errors.New("rate= and on-loss= are for stores that may lose what they have confirmed")
	}
	return nil
}

// New implements ledger.Driver. A row of Leaf's table that is damaged has nothing but max_id, which Raise sets.
func (d *table) New(found ledger.Found, def counter.Definition, token string) (ledger.Entry, error) {
	if d.t.leaf && found.Fault != nil {
		return nil, found.Fault
	}
	if d.t.leaf {
		return d.newLeaf(def)
	}
	return &ledger.Basic{Record: counter.NewRecord(def, token)}, nil
}

// Load implements ledger.Driver.
func (d *table) Load(ctx context.Context, names []string) ([]ledger.Found, error) {
	name := names[0]
	r, err := d.scanRow(d.db.QueryRowContext(ctx, d.said.Load().row, name).Scan)
	switch {
	case errors.Is(err, databasesql.ErrNoRows):
		return []ledger.Found{{Name: name, Version: (*row)(nil)}}, nil
	case err != nil:
		return nil, err
	case r.Name != name:
		return nil, fmt.Errorf("%w: %s has %q, and takes %q for the same", counter.ErrUnknown, d.t, r.Name, name)
	}
	found := d.found(&r)
	found.Foreign = r.foreign(d.t.leaf)
	return []ledger.Found{found}, nil
}

// Swap implements ledger.Driver.
func (d *table) Swap(ctx context.Context, _ ledger.Fence, writes []ledger.Write) ([]ledger.Found, error) {
	w := writes[0]
	found, r := w.Found.Version.(*row), w.Next.Plain()
	if d.t.leaf {
		return nil, d.swapLeaf(ctx, found, r, w.Announce)
	}
	definition := []any{text(r.Start), text(r.Step), text(r.Offset), text(r.Max), text(r.Batch)}
	state := []any{text(r.Next), text(r.Floor), flag(r.Retired), r.Token}
	switch {
	case found == nil:
		now, _, err := d.state(ctx)
		if err != nil {
			return nil, err
		}
		return nil, d.insert(ctx, slices.Concat([]any{r.Name}, definition, state, []any{now})...)
	case found.Fault != nil:
		return nil, d.update(ctx, d.said.Load().replace, slices.Concat(definition, state,
			[]any{found.now, r.Name, found.Token, found.now})...)
	}
	return nil, d.update(ctx, d.said.Load().update,
		append(state, found.now, flag(w.Announce), r.Name, found.Token, found.now)...)
}

// state asks the server who it is, and for figures that rise with each change of a row.
func (d *table) state(ctx context.Context) (history, figures string, err error) {
	var condition string
	var count, sum uint64
	if err := d.db.QueryRowContext(ctx, d.said.Load().state).Scan(&history, &condition, &count, &sum); err != nil {
		return "", "", d.explain(err)
	}
	return history, fmt.Sprint(count, " ", sum), d.check(condition)
}

// insert writes the first row of a sequence.
func (d *table) insert(ctx context.Context, args ...any) error {
	_, err := d.db.ExecContext(ctx, d.said.Load().insert, args...)
	return d.written(err)
}

// update writes over the row that was found, if the server's history is still that of then.
func (d *table) update(ctx context.Context, statement string, args ...any) error {
	result, err := d.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return d.written(err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errAgain
	}
	return err
}

// All implements ledger.Driver.
func (d *table) All(ctx context.Context) (all []ledger.Found, err error) {
	rows, err := d.db.QueryContext(ctx, d.said.Load().all)
	if err != nil {
		return nil, d.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := d.scanRow(rows.Scan)
		if err != nil {
			return nil, err
		}
		found := d.found(&r)
		if !d.t.leaf || d.c.Operator { // a daemon may never be asked for one of Leaf's
			found.Foreign = r.foreign(d.t.leaf)
		}
		all = append(all, found)
	}
	return all, d.explain(rows.Err())
}

// Changes implements ledger.Driver. Rows are never deleted and their revisions only rise, so the two
// sums tell. A history that has changed is a change of all records.
func (d *table) Changes(ctx context.Context) (string, error) {
	history, figures, err := d.state(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(history, " ", figures, " ", d.raised), err
}

// errAgain: nothing was written, because somebody else has written.
var errAgain = ledger.As(ledger.ErrAgain, errors.New("other sessions keep writing to the row"))

// A row is one of the table, and what its server said of itself in the same statement.
type row struct {
	counter.Record
	history string // that wrote the row
	now     string // the server's
	was     int64  // of Leaf's table: max_id
}

// found returns what Load found. Its Version is the row.
func (d *table) found(r *row) ledger.Found {
	found := ledger.Found{Name: r.Name, History: r.now, Version: r, Fault: r.Fault}
	switch {
	case r.Fault != nil:
	case d.t.leaf:
		r.Floor = d.floorOf(r.Name)
		found.Entry = &leafEntry{ledger.Basic{Record: r.Record}}
	default:
		found.Entry = &ledger.Basic{Record: r.Record}
	}
	return found
}

// foreign says in ledger.Words why a row that another server may have written does not say which values are free.
func (r *row) foreign(leaf bool) string {
	switch {
	case r.Fault != nil || r.history == r.now:
		return ""
	case leaf && r.history == "":
		return "max_id of {NAME} in {AT} is negative or NULL, and values are 1 or more: `katsubushi name " +
			"raise {NAME} N`, with N above every value that was issued"
	}
	return "sequence {NAME} in {AT} was written under history " + r.history + ", and the server's is " + r.now +
		": it was restored or replaced, or a replica was promoted, so the last blocks may be missing. Once it is known " +
		"which values were issued: `katsubushi name raise {NAME} {LEAST}`, or a larger value if other daemons " +
		"issued more"
}

// scanRow reads one row of statements.row or statements.all. Of one that is damaged it returns the name, the
// token and the Fault.
func (d *table) scanRow(scan func(...any) error) (r row, err error) {
	var condition string
	var numbers [7]databasesql.NullString // a database has numbers that are no uint64
	var retired, token, history databasesql.NullString
	into := []any{&r.now, &condition, &r.Name}
	for i := range numbers {
		into = append(into, &numbers[i])
	}
	if err := scan(append(into, &retired, &token, &history)...); errors.Is(err, databasesql.ErrNoRows) {
		return row{}, err
	} else if err != nil {
		return row{}, d.explain(err)
	}
	if err := d.check(condition); err != nil {
		return row{}, err
	}
	r.Token, r.history = token.String, history.String
	if err := r.parse(numbers, retired.String, d.t.leaf); err != nil {
		unread := counter.Unread(r.Name, counter.Damaged(r.Name, fmt.Sprintf("sequence %s in %s", r.Name, d.t), err))
		unread.Token = r.Token
		return row{Record: unread, now: r.now}, nil
	}
	return r, nil
}

// parse reads the columns of a row. The error says what is wrong with them.
func (r *row) parse(numbers [7]databasesql.NullString, retired string, leaf bool) (err error) {
	into := []*uint64{&r.Start, &r.Step, &r.Offset, &r.Max, &r.Batch, &r.Next, &r.Floor}
	for i, n := range numbers {
		if *into[i], err = strconv.ParseUint(n.String, 10, 64); err != nil {
			return fmt.Errorf("%q: no number of a sequence", n.String)
		}
	}
	if r.Retired, err = strconv.ParseBool(retired); err != nil {
		return fmt.Errorf("retired is %q", retired)
	}
	if leaf {
		if r.was, err = strconv.ParseInt(r.Token, 10, 64); err != nil {
			return fmt.Errorf("max_id is no bigint: %w", err)
		}
	}
	return r.Check()
}

// written says what the error of a write means.
func (d *table) written(err error) error {
	fault := d.t.kind.explain(err)
	switch {
	case err == nil:
		return nil
	case fault.again && fault.text != "":
		return fmt.Errorf("%s: %w", fault.text, errAgain)
	case fault.again:
		return errAgain
	}
	return d.explain(err)
}

// text is a number as an argument: some are larger than database/sql takes.
func text(n uint64) string { return strconv.FormatUint(n, 10) }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
