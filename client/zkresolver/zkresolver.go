// Package zkresolver finds the daemons that lease their worker ids from ZooKeeper, by what they announce
// there.
//
//	store, _, err := zk.Connect([]string{"10.0.0.1:2181"}, 10*time.Second)
//	ids, err := client.New(zkresolver.New(store, "/katsubushi"), client.Config{})
//
// A daemon is asked as long as it says that it is ready. While ZooKeeper does not answer, the last servers
// stay.
package zkresolver

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/client/internal/announced"
)

type resolver struct {
	store *zk.Conn
	peers string
}

// New watches the daemons whose -store is zookeeper://HOST/CHROOT?ns=NS; pool is "/CHROOT/NS"; the default
// NS is "katsubushi". The caller closes store, after the client. Set client.Config.TLS if the daemons'
// ports have it.
func New(store *zk.Conn, pool string) client.Resolver {
	return resolver{store, "/" + strings.Trim(pool, "/") + "/peers"}
}

// A view is what a Watch knows. Each of ZooKeeper's event channels reports one change of one node; the
// goroutine that waits for it passes the node's name on.
type view struct {
	resolver
	ctx     context.Context
	changed chan string // the name of an entry, or "" for the list
	entries map[string]string
}

func (r resolver) Watch(ctx context.Context, set func([]client.Server)) error {
	ctx, cancel := context.WithCancel(ctx) // ends those who wait for events
	defer cancel()
	v := view{resolver: r, ctx: ctx, changed: make(chan string), entries: map[string]string{}}
	for name := ""; ; {
		read := v.readList
		if name != "" {
			read = func() error { return v.readEntry(name) }
		}
		if err := read(); err != nil {
			return err
		}
		set(announced.Servers(v.entries))
		select {
		case name = <-v.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// An answer is one of ZooKeeper's.
type answer struct {
	names  []string
	data   []byte
	events <-chan zk.Event
	err    error
}

// call waits for an answer, but not longer than ctx: calls to ZooKeeper take none.
func (v *view) call(what func() answer) answer {
	done := make(chan answer, 1)
	go func() { done <- what() }()
	select {
	case a := <-done:
		return a
	case <-v.ctx.Done():
		return answer{err: v.ctx.Err()}
	}
}

// await tells of the event that ends a watch.
func (v *view) await(name string, events <-chan zk.Event) {
	go func() {
		select {
		case <-events:
		case <-v.ctx.Done():
			return
		}
		select {
		case v.changed <- name:
		case <-v.ctx.Done():
		}
	}()
}

// readList reads which entries there are, and those that are new.
func (v *view) readList() error {
	a := v.call(func() (a answer) {
		a.names, _, a.events, a.err = v.store.ChildrenW(v.peers)
		return a
	})
	if a.err != nil {
		return a.err
	}
	v.await("", a.events)
	for name := range v.entries {
		if !slices.Contains(a.names, name) {
			delete(v.entries, name)
		}
	}
	for _, name := range a.names {
		if _, known := v.entries[name]; !known {
			if err := v.readEntry(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// readEntry reads an entry, unless it has gone: the list's event tells of that.
func (v *view) readEntry(name string) error {
	a := v.call(func() (a answer) {
		a.data, _, a.events, a.err = v.store.GetW(v.peers + "/" + name)
		return a
	})
	switch {
	case errors.Is(a.err, zk.ErrNoNode):
		delete(v.entries, name)
		return nil
	case a.err != nil:
		return a.err
	}
	v.entries[name] = string(a.data)
	v.await(name, a.events)
	return nil
}
