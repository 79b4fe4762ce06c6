// Package etcdresolver finds the daemons that lease their worker ids from etcd, by what they announce
// there.
//
//	store, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379"}})
//	ids, err := client.New(etcdresolver.New(store, "katsubushi"), client.Config{})
//
// A daemon is asked as long as it says that it is ready. While etcd does not answer, the last servers
// stay.
package etcdresolver

import (
	"context"
	"maps"
	"strings"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/client/internal/announced"
	"go.etcd.io/etcd/client/v3"
)

type resolver struct {
	store *clientv3.Client
	peers string
}

// New watches the daemons whose -store is etcd://HOST/PREFIX?ns=NS; pool is "PREFIX/NS", or NS alone if
// they have no prefix; the default NS is "katsubushi". The caller closes store, after the client. Set
// client.Config.TLS if the daemons' ports have it.
func New(store *clientv3.Client, pool string) client.Resolver {
	return resolver{store, strings.Trim(pool, "/") + "/peers/"}
}

func (r resolver) Watch(ctx context.Context, set func([]client.Server)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // ends the watch
	defer cancel()
	have, err := r.store.Get(ctx, r.peers, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	entries := map[string]string{}
	for _, kv := range have.Kvs {
		entries[string(kv.Key)] = string(kv.Value)
	}
	set(announced.Servers(entries))
	for change := range r.store.Watch(ctx, r.peers, clientv3.WithPrefix(), clientv3.WithRev(have.Header.Revision+1)) {
		if err := change.Err(); err != nil {
			return err
		}
		before := maps.Clone(entries)
		for _, e := range change.Events {
			if e.Type == clientv3.EventTypeDelete {
				delete(entries, string(e.Kv.Key))
			} else {
				entries[string(e.Kv.Key)] = string(e.Kv.Value)
			}
		}
		if !maps.Equal(before, entries) {
			set(announced.Servers(entries))
		}
	}
	return ctx.Err()
}
