package cas

import (
	"context"
	"errors"
	"slices"

	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// autoInit makes the pool. Worker ids become available when every lease that may have been forgotten is
// over. Others may do the same at the same time.
func (s *Session) autoInit(ctx context.Context, v pool.View) error {
	next := s.Rules.Raise(s.Pool, highest(v.Records), s.token(), s.Now())
	err := s.makePool(ctx, v.Records, next)
	if err == nil || errors.Is(err, errMade) {
		return Watching{s.Rules.Watch(true)}
	}
	return err
}

// errMade: another process made the pool, or changed its settings, meanwhile.
var errMade = errors.New("another client has changed the pool at the same time")

// makePool makes a pool. Records that exist already stay as they are. It writes meta last, because no
// daemon gets a worker id without it.
func (s *Session) makePool(ctx context.Context, records map[uint64]string, m pool.Meta) error {
	if err := s.makeRecords(ctx, "", m, records, false); err != nil {
		return err
	}
	a, err := s.commitChange(ctx, pool.Change{Fresh: true, SetMeta: m.String()})
	if err == nil && !a.Done {
		err = errMade
	}
	return err
}

// makeRecords makes the records that a pool lacks, as long as meta is this text, "" for none. If
// unreadable is set, it also replaces those that cannot be read.
func (s *Session) makeRecords(ctx context.Context, meta string, m pool.Meta, records map[uint64]string,
	unreadable bool) error {
	have := func(w uint64) bool {
		_, err := pool.ParseRecord(records[w])
		return err == nil || records[w] != "" && !unreadable
	}
	for range attempts {
		todo := missing(m, have)
		if len(todo) == 0 {
			return nil
		}
		for part := range slices.Chunk(todo, MaxRecords) {
			c := pool.Change{IfMeta: meta, Fresh: meta == "", If: map[uint64]string{}, Set: map[uint64]string{}}
			for _, w := range part {
				c.If[w], c.Set[w] = records[w], pool.Record{}.String()
			}
			a, err := s.commitChange(ctx, c)
			if err != nil {
				return err
			}
			now := c.Set
			if !a.Done {
				if now = a.View.Records; a.View.Meta != meta {
					return errMade
				}
			}
			for _, w := range part {
				records[w] = now[w]
			}
		}
	}
	return errBusy
}

// missing are the worker ids of a pool without a record.
func missing(m pool.Meta, have func(uint64) bool) (all []uint64) {
	for w := m.Min; w <= m.Max; w++ {
		if !have(w) {
			all = append(all, w)
		}
	}
	return all
}

// highest is the highest readable high-water mark. A window that was granted before a loss may end
// there even if its own record is gone.
func highest(records map[uint64]string) (mark int64) {
	for _, text := range records {
		if rec, err := pool.ParseRecord(text); err == nil {
			mark = max(mark, rec.Mark)
		}
	}
	return mark
}
