package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Define implements counter.Store. It refuses order=strict with counter.ErrOrder. With
// counter.ErrForeign it returns the record as it was found.
func (s *Store) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	if err := d.Check(); err != nil {
		return counter.Record{}, err
	}
	if err := checkKept(d); err != nil {
		return counter.Record{}, err
	}
	return do(ctx, s, d.Name, func(q *sequence, say *statements) (r counter.Record, err error) {
		err = q.change(ctx, say, true, func(found *row, token string) (*row, error) {
			switch {
			case found != nil:
				if r = found.Record; s.t.leaf && d.Start <= r.Next {
					r.Start = d.Start // so it is from here on
				}
				return nil, q.foreign(found)
			case q.was():
				return nil, q.missing()
			}
			if s.t.leaf {
				token = text(d.First())
				if err := s.mayInsert(d); err != nil {
					return nil, err
				}
			}
			r = counter.NewRecord(d, token)
			return &row{Record: r}, nil
		})
		return r, err
	})
}

// checkKept says what a row cannot keep of a definition.
func checkKept(d counter.Definition) error {
	switch {
	case d.Strict:
		return counter.ErrOrder
	case d.Rate != 0 || d.RefuseLoss:
		return errors.New("rate= and on-loss= are for stores that may lose what they have confirmed")
	}
	return nil
}

// Reserve implements counter.Store.
func (s *Store) Reserve(ctx context.Context, name string, n uint64) (counter.Block, error) {
	return do(ctx, s, name, func(q *sequence, say *statements) (b counter.Block, err error) {
		history := ""
		err = q.change(ctx, say, false, func(found *row, token string) (*row, error) {
			if err := q.usable(found); err != nil {
				return nil, err
			}
			r := *found
			history = r.now
			if s.t.leaf {
				r.Max-- // the next value is a bigint too
			}
			var err error
			b, err = r.Reserve(n, token)
			return &r, err
		})
		if err != nil {
			return counter.Block{}, err
		}
		q.mu.Lock()
		q.granted, q.history = b.Hi, history
		q.mu.Unlock()
		return b, nil
	})
}

// Return implements counter.Store.
func (s *Store) Return(ctx context.Context, name string, b counter.Block, next uint64) error {
	_, err := do(ctx, s, name, func(q *sequence, say *statements) (none struct{}, err error) {
		return none, q.change(ctx, say, false, func(found *row, token string) (*row, error) {
			if err := q.usable(found); err != nil {
				return nil, err
			}
			r := *found
			if err := r.Return(b, next, token); err != nil {
				return nil, err
			}
			q.mu.Lock()
			q.granted = min(q.granted, next-1) // whether the write succeeds or not: the caller does not use them again
			q.mu.Unlock()
			return &r, nil
		})
	})
	return err
}

// Raise implements counter.Admin.
func (s *Store) Raise(ctx context.Context, name string, atLeast uint64) (counter.Record, error) {
	return s.edit(ctx, name, func(r *row, token string) error { return r.Raise(atLeast, token) })
}

// Retire implements counter.Admin. Of Leaf's table it returns ErrNoRetire.
func (s *Store) Retire(ctx context.Context, name string) (counter.Record, error) {
	if s.t.leaf {
		return counter.Record{}, ErrNoRetire
	}
	return s.edit(ctx, name, func(r *row, token string) error {
		r.Retire(token)
		return nil
	})
}

// Revive implements counter.Admin. A row of Leaf's table has nothing but max_id, which Raise sets.
func (s *Store) Revive(ctx context.Context, d counter.Definition, atLeast uint64) (counter.Record, error) {
	if err := checkKept(d); err != nil {
		return counter.Record{}, err
	}
	return do(ctx, s, d.Name, func(q *sequence, say *statements) (counter.Record, error) {
		found, err := q.read(ctx, say)
		switch {
		case err == nil && found == nil:
			return counter.Record{}, q.missing()
		case err == nil || s.t.leaf:
			return counter.Record{}, cmp.Or(err, counter.Whole(d.Name))
		case !errors.Is(err, counter.ErrDamaged):
			return counter.Record{}, err
		}
		r, err := counter.Revived(d, atLeast, s.c.Token())
		if err != nil {
			return r, err
		}
		return r, q.replace(ctx, say, found, r)
	})
}

// edit changes a row on behalf of an operator, also one of another history.
func (s *Store) edit(ctx context.Context, name string, change func(r *row, token string) error) (counter.Record,
	error) {
	return do(ctx, s, name, func(q *sequence, say *statements) (counter.Record, error) {
		var r row
		err := q.change(ctx, say, true, func(found *row, token string) (*row, error) {
			if found == nil {
				return nil, q.missing()
			}
			r = *found
			return &r, change(&r, token)
		})
		if err != nil {
			return counter.Record{}, err
		}
		if s.t.leaf {
			q.raisedTo(r.Floor)
		}
		return r.Record, nil
	})
}

// Behind implements counter.Admin: no row names a daemon.
func (s *Store) Behind(context.Context) ([]counter.Daemon, error) { return nil, counter.ErrNoRoll }

// Show implements counter.Admin.
func (s *Store) Show(ctx context.Context, name string) (counter.Record, error) {
	return do(ctx, s, name, func(q *sequence, say *statements) (counter.Record, error) {
		found, err := q.read(ctx, say)
		switch {
		case err != nil:
			return counter.Record{}, err
		case found == nil:
			return counter.Record{}, q.missing()
		}
		return found.Record, q.foreign(found)
	})
}

// List implements counter.Admin.
func (s *Store) List(ctx context.Context) ([]counter.Record, error) {
	rows, err := ask(ctx, s, func() {}, func(say *statements) ([]row, error) { return s.rows(ctx, say) })
	if err != nil {
		return nil, err
	}
	var list []counter.Record
	for _, r := range rows {
		if s.judged(&r) {
			r.Fault = s.known(r.Name).foreign(&r)
		}
		list = append(list, r.Record)
	}
	return list, nil
}

// judged reports whether to look who wrote a row: a daemon may never be asked for one of Leaf's.
func (s *Store) judged(r *row) bool { return r.Fault == nil && (!s.t.leaf || s.c.Operator) }

// rows reads all rows, by name.
func (s *Store) rows(ctx context.Context, say *statements) ([]row, error) {
	rows, err := s.db.QueryContext(ctx, say.all)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	var list []row
	for rows.Next() {
		r, err := s.scanRow(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(err)
	}
	return list, nil
}

// fenced returns a record whose floor is above all that this process was granted under a history that
// is no longer the server's. The server may have lost those grants, and so they are not used any more.
func (s *Store) fenced(r row) counter.Record {
	q := s.known(r.Name)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.history != "" && q.history != r.now {
		r.Floor = max(r.Floor, q.granted+1)
	}
	r.Floor = max(r.Floor, q.floor)
	return r.Record
}

// Changes implements counter.Store. Rows are never deleted and their revisions only rise, so the two
// sums tell. A history that has changed is a change of all records.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	type result struct {
		now  string
		rows []row
	}
	r, err := ask(ctx, s, func() {}, func(say *statements) (r result, err error) {
		var history, condition string
		var count, sum uint64
		if err := s.db.QueryRowContext(ctx, say.state).Scan(&history, &condition, &count, &sum); err != nil {
			return r, s.explain(err)
		}
		if err := s.check(condition); err != nil {
			return r, err
		}
		s.mu.Lock()
		r.now = fmt.Sprintf("%s %d %d %d", history, count, sum, s.raised)
		s.mu.Unlock()
		if r.now != since {
			r.rows, err = s.rows(ctx, say)
		}
		return r, err
	})
	if err != nil {
		return since, nil, err
	}
	for _, row := range r.rows {
		if s.judged(&row) { // whatever was granted since it was read
			row.Fault = s.known(row.Name).strange(&row, row.Next)
		}
		records = append(records, s.fenced(row))
	}
	return r.now, records, nil
}
