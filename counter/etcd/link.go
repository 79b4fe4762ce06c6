package etcd

import (
	"context"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// A link says with each error whether it goes away by itself.
type link struct{ *etcdlink.Link }

// get reads a key, as it was confirmed last.
func (l link) get(ctx context.Context, key string) (etcdlink.Answer, error) {
	a, err := l.Get(ctx, key, etcdlink.Get(key))
	return a, mark(err)
}

// all reads the keys that begin so.
func (l link) all(ctx context.Context, prefix string) (etcdlink.Answer, error) {
	a, err := l.Get(ctx, prefix, etcdlink.All(prefix))
	return a, mark(err)
}

// commit carries out a transaction about a key.
func (l link) commit(ctx context.Context, key string, compare []etcdlink.Cmp, then,
	otherwise []etcdlink.Op) (etcdlink.Answer, error) {
	a, err := l.Commit(ctx, key, compare, then, otherwise)
	return a, mark(err)
}

// mark makes a counter.ErrUnavailable of whatever the user's name, password or rights do not explain.
func mark(err error) error {
	switch kind := etcdlink.KindOf(err); {
	case err == nil, kind == etcdlink.Denied, kind == etcdlink.BadLogin:
		return err
	case kind == etcdlink.Full:
		return fmt.Errorf("%w: %w", counter.ErrUnavailable, err)
	}
	return ledger.As(counter.ErrUnavailable, err)
}
