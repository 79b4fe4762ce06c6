package etcd

import (
	"context"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

func (s *Store) daemonsKey() string { return s.link.Root + "daemons/" }

// Learnt implements ledger.Noter.
func (d driver) Learnt(since string) string { return since }

// Sign implements ledger.Noter. Whether it succeeds does not matter to a daemon.
func (d driver) Sign(ctx context.Context, text string) error {
	key := d.daemonsKey() + d.me
	_, _ = d.link.commit(ctx, key, nil, []etcdlink.Op{etcdlink.Put(key, text)}, nil)
	return nil
}

// signOff takes the note away, if etcd answers soon.
func (d driver) signOff() {
	if d.Signed() && d.link.Connected() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = d.Forget(ctx, d.daemonsKey()+d.me)
	}
}

// Notes implements ledger.Noter.
func (d driver) Notes(ctx context.Context) (notes map[string]string, changes string, err error) {
	if changes, err = d.Changes(ctx); err != nil {
		return nil, "", err
	}
	got, err := d.link.all(ctx, d.daemonsKey())
	if err != nil {
		return nil, "", err
	}
	notes = map[string]string{}
	for _, kv := range got.Found[0].Pairs {
		notes[kv.Key] = kv.Text
	}
	return notes, changes, nil
}

// Forget implements ledger.Noter.
func (d driver) Forget(ctx context.Context, key string) (bool, error) {
	_, err := d.link.commit(ctx, key, nil, []etcdlink.Op{etcdlink.Delete(key)}, nil)
	return true, err
}
