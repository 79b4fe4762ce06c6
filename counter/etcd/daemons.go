package etcd

import (
	"context"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

func (s *Store) daemonsKey() string { return s.link.Root + "daemons/" }

// sign notes that this process has learnt of all changes up to since, if it is time. Whether it succeeds
// does not matter to a daemon.
func (s *Store) sign(ctx context.Context, since string) {
	s.mu.Lock()
	text := s.noted.Next(since, time.Now())
	s.mu.Unlock()
	if text != "" {
		key := s.daemonsKey() + s.me
		_, _ = s.link.commit(ctx, key, nil, []etcdlink.Op{etcdlink.Put(key, text)}, nil)
	}
}

// signOff takes the note away, if etcd answers soon.
func (s *Store) signOff() {
	s.mu.Lock()
	written := s.noted.Written()
	s.mu.Unlock()
	if written && s.link.Connected() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		key := s.daemonsKey() + s.me
		_, _ = s.link.commit(ctx, key, nil, []etcdlink.Op{etcdlink.Delete(key)}, nil)
	}
}

// Behind implements counter.Admin. A daemon that was killed within the last day is among them: it cannot
// say that it has ended.
func (s *Store) Behind(ctx context.Context) ([]counter.Daemon, error) {
	changes, err := s.revision(ctx)
	if err != nil {
		return nil, err
	}
	got, err := s.link.all(ctx, s.daemonsKey())
	if err != nil {
		return nil, err
	}
	notes := map[string]string{}
	for _, kv := range got.Found[0].Pairs {
		notes[kv.Key] = kv.Text
	}
	behind, forget := counter.Behind(notes, changes, time.Now())
	for _, key := range forget {
		if _, err := s.link.commit(ctx, key, nil, []etcdlink.Op{etcdlink.Delete(key)}, nil); err != nil {
			return behind, err
		}
	}
	return behind, nil
}
