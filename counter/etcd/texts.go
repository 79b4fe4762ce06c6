package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// Texts returns the texts of a folder beside the sequences, by name, unless nothing has changed since: then
// now equals since, and the map is nil. since is what an earlier call returned, or empty.
func (s *Store) Texts(ctx context.Context, folder, since string) (now string, texts map[string]string, err error) {
	root := s.link.Root + folder + "/"
	// A write raises the highest revision, and a removal lowers the count.
	seen, err := s.link.commit(ctx, root, nil, []etcdlink.Op{
		etcdlink.Count(root),
		etcdlink.Latest(root),
	}, nil)
	if err != nil {
		return since, nil, err
	}
	now = fmt.Sprint(seen.Cluster, " ", seen.Found[0].Count)
	for _, kv := range seen.Found[1].Pairs {
		now = fmt.Sprint(now, " ", kv.Revision)
	}
	if now == since {
		return since, nil, nil
	}
	got, err := s.link.all(ctx, root) // later: what is written in between is read twice
	if err != nil {
		return since, nil, err
	}
	texts = map[string]string{}
	for _, kv := range got.Found[0].Pairs {
		texts[strings.TrimPrefix(kv.Key, root)] = kv.Text
	}
	return now, texts, nil
}

// Edit changes one text of a folder, whatever others write meanwhile. change gets the text as it is, empty
// if there is none, and returns the text as it shall be, empty to remove it. It may be called several
// times. Its error is returned, and nothing is written. After counter.ErrUnavailable the write may have
// happened or not.
func (s *Store) Edit(ctx context.Context, folder, name string, change func(old string) (string, error)) error {
	key := s.link.Root + folder + "/" + name
	for {
		got, err := s.link.get(ctx, key)
		if err != nil {
			return err
		}
		old, revision := "", int64(0)
		for _, kv := range got.Found[0].Pairs {
			old, revision = kv.Text, kv.Revision
		}
		text, err := change(old)
		if err != nil || text == old {
			return err
		}
		op := etcdlink.Put(key, text)
		if text == "" {
			op = etcdlink.Delete(key)
		}
		answer, err := s.link.commit(ctx, key, []etcdlink.Cmp{etcdlink.RevisionIs(key, revision)}, []etcdlink.Op{op}, nil)
		if err != nil || answer.Done {
			return err
		}
	}
}

// Unavailable reports whether an error goes away by itself.
func (s *Store) Unavailable(err error) bool { return errors.Is(err, counter.ErrUnavailable) }
