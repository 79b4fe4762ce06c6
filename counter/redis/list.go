package redis

import (
	"context"
	"errors"
	"fmt"
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
		if values[0] == "" {
			return counter.Record{}, s.missing(name)
		}
		r, err := line.Decode(values[0])
		if err != nil {
			return counter.Record{}, err
		}
		if err := r.Usable(on.Moment); errors.Is(err, counter.ErrForeign) {
			return r.Record, err
		}
		return r.Record, nil
	})
}

// everything is what the hash holds.
type everything struct {
	records []line.Record // by name
	changes string
	daemons map[string]string // field -> what it has learnt
}

func (e everything) plain() (list []counter.Record) {
	for _, r := range e.records {
		list = append(list, r.Record)
	}
	return list
}

// all needs the turn. With an error it returns what can be read.
func (s *Store) all() (all everything, err error) {
	_, values, err := s.read()
	if err != nil {
		return all, err
	}
	all.daemons = map[string]string{}
	var errs []error
	for i := 0; i+1 < len(values); i += 2 {
		name, isRecord := strings.CutPrefix(values[i], field(""))
		switch {
		case values[i] == "changes":
			all.changes = values[i+1]
		case strings.HasPrefix(values[i], daemonField):
			all.daemons[values[i]] = values[i+1]
		}
		if !isRecord {
			continue
		}
		r, err := line.Decode(values[i+1])
		if err == nil && r.Name == name {
			all.records = append(all.records, r)
		} else {
			errs = append(errs, fmt.Errorf("sequence %s: %w", name, err))
		}
	}
	slices.SortFunc(all.records, func(a, b line.Record) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// List implements counter.Admin. It returns the records that can be read, and an error that names the
// others.
func (s *Store) List(ctx context.Context) ([]counter.Record, error) {
	all, err := withTurn(ctx, s, func(*redislink.Link) (everything, error) { return s.all() })
	return all.plain(), err
}

// Changes implements counter.Store. A record that cannot be read is left out: Reserve says why. It tells
// Redis that this process has learnt of since.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	all, err := withTurn(ctx, s, func(*redislink.Link) (all everything, err error) {
		_, values, err := s.read("changes")
		if err != nil {
			return all, err
		}
		s.sign(since)
		if all.changes = values[0]; all.changes == since && since != "" {
			return all, nil
		}
		if all, err = s.all(); len(all.records) > 0 {
			err = nil
		}
		return all, err
	})
	if err != nil {
		return since, nil, err
	}
	s.know(all.records)
	return all.changes, all.plain(), nil
}
