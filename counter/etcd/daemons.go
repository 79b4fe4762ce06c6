package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/katsubushi/katsubushi/v3/counter"
)

func (s *Store) daemonsKey() string { return s.link.target.root + "daemons/" }

// sign notes that this process has learnt of all changes up to since, if it is time. Whether it succeeds
// does not matter to a daemon.
func (s *Store) sign(ctx context.Context, since string) {
	s.mu.Lock()
	text := s.noted.Next(since, time.Now())
	s.mu.Unlock()
	if text != "" {
		key := s.daemonsKey() + s.me
		_, _ = s.link.commit(ctx, key, nil, []clientv3.Op{clientv3.OpPut(key, text)}, nil)
	}
}

// signOff takes the note away, if etcd answers soon.
func (s *Store) signOff() {
	s.mu.Lock()
	written := s.noted.Written()
	s.mu.Unlock()
	if c, _ := s.link.current(); c != nil && written {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = c.Delete(ctx, s.daemonsKey()+s.me)
	}
}

// Behind implements counter.Roll.
func (s *Store) Behind(ctx context.Context) ([]counter.Daemon, error) {
	changes, err := s.revision(ctx)
	if err != nil {
		return nil, err
	}
	got, err := s.link.get(ctx, s.daemonsKey(), clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	notes := map[string]string{}
	for _, kv := range got.Kvs {
		notes[string(kv.Key)] = string(kv.Value)
	}
	behind, forget := counter.Behind(notes, changes, time.Now())
	for _, key := range forget {
		if _, err := s.link.commit(ctx, key, nil, []clientv3.Op{clientv3.OpDelete(key)}, nil); err != nil {
			return behind, err
		}
	}
	return behind, nil
}
