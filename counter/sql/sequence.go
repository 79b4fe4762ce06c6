package sql

import (
	"context"
	databasesql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// A sequence is what a Store knows of one sequence. Its methods are for the goroutine that has put a
// token into busy.
type sequence struct {
	s    *Store
	name string
	busy chan struct{}

	mu      sync.Mutex // List and Changes look too
	seen    bool       // there was a row
	granted uint64     // the largest value that this process was granted and has not given back
	history string     // under which it was
	floor   uint64     // of Leaf's table: what this process has raised it to
}

// A row is one of the table, and what its server said of itself in the same statement.
type row struct {
	counter.Record
	history string // that wrote the row
	now     string // the server's
	was     int64  // of Leaf's table: max_id
}

// scanRow reads one row of statements.row or statements.all. Of one that is damaged it returns the name, the
// token and the Fault.
func (s *Store) scanRow(scan func(...any) error) (r row, err error) {
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
		return row{}, s.explain(err)
	}
	if err := s.check(condition); err != nil {
		return row{}, err
	}
	r.Token, r.history = token.String, history.String
	if err := r.parse(numbers, retired.String, s.t.leaf); err != nil {
		unread := counter.Unread(r.Name, counter.Damaged(r.Name, fmt.Sprintf("sequence %s in %s", r.Name, s.t), err))
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

// read returns the row, or nil if there is none. With counter.ErrDamaged it returns what scanRow does.
func (q *sequence) read(ctx context.Context, say *statements) (*row, error) {
	r, err := q.s.scanRow(q.s.db.QueryRowContext(ctx, say.row, q.name).Scan)
	if errors.Is(err, databasesql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Name != q.name {
		return nil, fmt.Errorf("%w: %s has %q, and takes %q for the same", counter.ErrUnknown, q.s.t, r.Name, q.name)
	}
	q.mu.Lock()
	q.seen = true
	q.mu.Unlock()
	return &r, r.Fault
}

// change reads the row, lets edit change it, and writes what that returned; nil = nothing. Whoever
// writes in between makes it do that again. edit gets nil if there is no row. An error of edit is
// returned as it is, and nothing was written. After any other one the write may have happened or not.
// visible: Changes shall tell of it.
func (q *sequence) change(ctx context.Context, say *statements, visible bool,
	edit func(found *row, token string) (*row, error)) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 32*time.Millisecond) {
		found, err := q.read(ctx, say)
		if err != nil {
			return err
		}
		token := q.s.c.Token()
		r, err := edit(found, token)
		if err != nil || r == nil {
			return err
		}
		if q.s.t.leaf {
			if r.Token = text(r.Next); found != nil && r.Token == found.Token {
				return nil
			}
		}
		if found == nil {
			err = q.insert(ctx, say, r)
		} else {
			err = q.update(ctx, say, found.Token, r, visible)
		}
		if !errors.Is(err, errAgain) {
			return err
		}
		select { // others write: not in step with them
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return q.s.noAnswer(fmt.Errorf("%w: %w", err, ctx.Err()))
		}
	}
}

// errAgain: nothing was written, because somebody else has written.
var errAgain = errors.New("other sessions write to the row again and again")

// insert writes the first row of a sequence.
func (q *sequence) insert(ctx context.Context, say *statements, r *row) error {
	var condition string
	var rows, sum uint64
	if err := q.s.db.QueryRowContext(ctx, say.state).Scan(&r.now, &condition, &rows, &sum); err != nil {
		return q.s.explain(err)
	}
	if err := q.s.check(condition); err != nil {
		return err
	}
	args := []any{
		r.Name, text(r.Start), text(r.Step), text(r.Offset), text(r.Max), text(r.Batch),
		text(r.Next), text(r.Floor), flag(r.Retired), r.Token, r.now,
	}
	if q.s.t.leaf {
		args = leafInsert(r)
	}
	_, err := q.s.db.ExecContext(ctx, say.insert, args...)
	return q.written(err)
}

// update writes r over the row that has a token, if the server's history is still that of r.
func (q *sequence) update(ctx context.Context, say *statements, token string, r *row, visible bool) error {
	args := []any{text(r.Next), text(r.Floor), flag(r.Retired), r.Token, r.now, flag(visible), r.Name, token, r.now}
	if q.s.t.leaf {
		args = leafUpdate(r)
	}
	result, err := q.s.db.ExecContext(ctx, say.update, args...)
	if err != nil {
		return q.written(err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errAgain
	}
	return err
}

// replace writes r over a row that is damaged.
func (q *sequence) replace(ctx context.Context, say *statements, found *row, r counter.Record) error {
	result, err := q.s.db.ExecContext(ctx, say.replace,
		text(r.Start), text(r.Step), text(r.Offset), text(r.Max), text(r.Batch), text(r.Next), text(r.Floor),
		flag(r.Retired), r.Token, found.now, r.Name, found.Token, found.now)
	if err != nil {
		return q.written(err)
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = errAgain
	}
	return err
}

// written says what the error of a write means.
func (q *sequence) written(err error) error {
	fault := q.s.t.kind.explain(err)
	switch {
	case err == nil:
		return nil
	case fault.again && fault.text != "":
		return fmt.Errorf("%s: %w", fault.text, errAgain)
	case fault.again:
		return errAgain
	}
	return q.s.explain(err)
}

// text is a number as an argument: some are larger than database/sql takes.
func text(n uint64) string { return strconv.FormatUint(n, 10) }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// usable says why a row must not be gone on from.
func (q *sequence) usable(found *row) error {
	if found == nil {
		return q.missing()
	}
	return q.foreign(found)
}

// was reports whether there was a row.
func (q *sequence) was() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen
}

// missing is the error for a row that is not there.
func (q *sequence) missing() error {
	if q.was() {
		return fmt.Errorf("%w: sequence %s was deleted from %s: put it back, or define it again and raise it above %d: "+
			"`katsubushi generator raise %s %d`",
			counter.ErrForeign, q.name, q.s.t, q.granted, q.name, q.granted+1)
	}
	return fmt.Errorf("%w: no %s in %s", counter.ErrUnknown, q.name, q.s.t)
}

// foreign says why a row does not say which values are free.
func (q *sequence) foreign(r *row) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	least := min(max(r.Next, q.granted+1), r.Max)
	if err := q.strange(r, least); err != nil || r.Next > q.granted {
		return err
	}
	return fmt.Errorf("%w: sequence %s in %s was set back: it says that %d is free, and this daemon was granted "+
		"up to %d. `katsubushi generator raise %s %d`, or a larger value if other daemons issued more",
		counter.ErrForeign, q.name, q.s.t, r.Next, q.granted, q.name, least)
}

// strange says why a row that another server may have written does not say which values are free. least is
// what to raise it to.
func (q *sequence) strange(r *row, least uint64) error {
	switch {
	case q.s.t.leaf && r.history == "":
		return fmt.Errorf("%w: max_id of %s in %s is negative or NULL, and values are 1 or more: `katsubushi generator "+
			"raise %s N`, with N above every value that was issued",
			counter.ErrForeign, q.name, q.s.t, q.name)
	case r.history != r.now:
		return fmt.Errorf("%w: sequence %s in %s was written under history %s, and the server's is %s: it was restored or "+
			"replaced, or a replica was "+
			"promoted, so the last blocks may be missing. Once it is known which values were issued: `katsubushi generator "+
			"raise %s %d`, or a larger "+
			"value if other daemons issued more", counter.ErrForeign, q.name, q.s.t, r.history, r.now, q.name, least)
	}
	return nil
}
