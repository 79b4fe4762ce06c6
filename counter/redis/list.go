package redis

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
)

// Show implements counter.Admin.
func (s *Store) Show(ctx context.Context, name string) (counter.Record, error) {
	return withTurn(ctx, s, func(*redislink.Link) (counter.Record, error) {
		on, values, err := s.read(field(name))
		if err != nil {
			return counter.Record{}, err
		}
		if !values[0].there {
			return counter.Record{}, s.missing(name)
		}
		r, err := s.decode(name, values[0].text)
		if err != nil {
			return counter.Record{}, err
		}
		return r.Record, foreign(&r, on)
	})
}

// foreign says why only an operator can make a record usable, or nil.
func foreign(r *line.Record, on server) error {
	if err := r.Usable(on.Moment); errors.Is(err, counter.ErrForeign) {
		return err
	}
	return nil
}

// everything is what the hash holds.
type everything struct {
	records []line.Record    // that can be read
	unread  []counter.Record // the others
	changes string
	daemons map[string]string // field -> what it has learnt
}

func (e everything) plain() (list []counter.Record) {
	for _, r := range e.records {
		list = append(list, r.Record)
	}
	list = append(list, e.unread...)
	slices.SortFunc(list, func(a, b counter.Record) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// all needs the turn.
func (s *Store) all() (all everything, err error) {
	on, values, err := s.read()
	if err != nil {
		return all, err
	}
	all.daemons = map[string]string{}
	for i := 0; i+1 < len(values); i += 2 {
		key, text := values[i].text, values[i+1].text
		name, isRecord := strings.CutPrefix(key, field(""))
		switch {
		case key == "changes":
			all.changes = text
		case strings.HasPrefix(key, daemonField):
			all.daemons[key] = text
		}
		if !isRecord {
			continue
		}
		r, err := s.decode(name, text)
		if err != nil {
			all.unread = append(all.unread, counter.Unread(name, err))
			continue
		}
		r.Fault = foreign(&r, on)
		all.records = append(all.records, r)
	}
	return all, nil
}

// List implements counter.Admin.
func (s *Store) List(ctx context.Context) ([]counter.Record, error) {
	all, err := withTurn(ctx, s, func(*redislink.Link) (everything, error) { return s.all() })
	return all.plain(), err
}

// Changes implements counter.Store. It tells Redis that this process has learnt of since.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	all, err := withTurn(ctx, s, func(*redislink.Link) (all everything, err error) {
		_, values, err := s.read("changes")
		if err != nil {
			return all, err
		}
		s.sign(since)
		if all.changes = values[0].text; all.changes == since && since != "" {
			return all, nil
		}
		return s.all()
	})
	if err != nil {
		return since, nil, err
	}
	s.know(all.records)
	return all.changes, all.plain(), nil
}
