package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/client/v3"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// Texts returns the texts of a folder beside the sequences, by name, unless nothing has changed since: then
// now equals since, and the map is nil. since is what an earlier call returned, or empty.
func (s *Store) Texts(ctx context.Context, folder, since string) (now string, texts map[string]string, err error) {
	root := s.link.target.root + folder + "/"
	// A write raises the highest revision, and a removal lowers the count.
	seen, err := s.link.commit(ctx, root, nil, []clientv3.Op{
		clientv3.OpGet(root, clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(root, append(clientv3.WithLastRev(), clientv3.WithPrefix(), clientv3.WithKeysOnly())...),
	}, nil)
	if err != nil {
		return since, nil, err
	}
	now = fmt.Sprint(clusterOf(seen.Header), " ", seen.Responses[0].GetResponseRange().Count)
	for _, kv := range seen.Responses[1].GetResponseRange().Kvs {
		now = fmt.Sprint(now, " ", kv.ModRevision)
	}
	if now == since {
		return since, nil, nil
	}
	got, err := s.link.get(ctx, root, clientv3.WithPrefix()) // later: what is written in between is read twice
	if err != nil {
		return since, nil, err
	}
	texts = map[string]string{}
	for _, kv := range got.Kvs {
		texts[strings.TrimPrefix(string(kv.Key), root)] = string(kv.Value)
	}
	return now, texts, nil
}

// Edit changes one text of a folder, whatever others write meanwhile. change gets the text as it is, empty
// if there is none, and returns the text as it shall be, empty to remove it. It may be called several
// times. Its error is returned, and nothing is written. After counter.ErrUnavailable the write may have
// happened or not.
func (s *Store) Edit(ctx context.Context, folder, name string, change func(old string) (string, error)) error {
	key := s.link.target.root + folder + "/" + name
	for {
		got, err := s.link.get(ctx, key)
		if err != nil {
			return err
		}
		old, revision := "", int64(0)
		for _, kv := range got.Kvs {
			old, revision = string(kv.Value), kv.ModRevision
		}
		text, err := change(old)
		if err != nil || text == old {
			return err
		}
		op := clientv3.OpPut(key, text)
		if text == "" {
			op = clientv3.OpDelete(key)
		}
		answer, err := s.link.commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", revision)}, []clientv3.Op{op}, nil)
		if err != nil || answer.Succeeded {
			return err
		}
	}
}

// Unavailable reports whether an error goes away by itself.
func (s *Store) Unavailable(err error) bool { return errors.Is(err, counter.ErrUnavailable) }
