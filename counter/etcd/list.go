package etcd

import (
	"context"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// Show implements counter.Admin.
func (s *Store) Show(ctx context.Context, name string) (counter.Record, error) {
	q, err := s.enter(ctx, name)
	if err != nil {
		return counter.Record{}, err
	}
	defer q.leave()
	got, err := s.link.get(ctx, q.key)
	if err != nil {
		return counter.Record{}, err
	}
	found, err := s.stateOf(q.key, got)
	if err != nil {
		return counter.Record{}, err
	}
	if found.record == nil {
		return counter.Record{}, q.missing()
	}
	return found.Record, found.copied(q.key)
}

// List implements counter.Admin.
func (s *Store) List(ctx context.Context) ([]counter.Record, error) {
	root := s.keyOf("")
	got, err := s.link.all(ctx, root)
	if err != nil {
		return nil, err
	}
	var list []counter.Record
	for _, kv := range got.Found[0].Pairs { // by key, and so by name
		key := kv.Key
		found, err := s.stateOf(key,
			etcdlink.Answer{Cluster: got.Cluster, Found: []etcdlink.Found{{Pairs: []etcdlink.Pair{kv}}}})
		r := counter.Unread(strings.TrimPrefix(key, root), err)
		if err == nil {
			found.Fault = found.copied(key)
			r = found.Record
		}
		list = append(list, r)
	}
	return list, nil
}

// revision is another text after each change.
func (s *Store) revision(ctx context.Context) (string, error) {
	got, err := s.link.get(ctx, s.changesKey())
	if err != nil {
		return "", err
	}
	now := got.Cluster + " "
	for _, kv := range got.Found[0].Pairs {
		now += kv.Text // random
	}
	return now, nil
}

// Changes implements counter.Store: it reads one key, and says now and then what this process has learnt of.
func (s *Store) Changes(ctx context.Context, since string) (now string, records []counter.Record, err error) {
	if now, err = s.revision(ctx); err != nil {
		return since, nil, err
	}
	s.sign(ctx, since)
	if now == since {
		return since, nil, nil
	}
	records, err = s.List(ctx) // after the key: what is written in between is told twice
	if err != nil {
		return since, nil, err
	}
	return now, records, nil
}
