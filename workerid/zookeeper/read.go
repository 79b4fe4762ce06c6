package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// atOnce is how many reads are under way at the same time.
const atOnce = 64

// read reads keys, for as long as answers come and ctx lasts. What is absent is noted as such.
func (d *driver) read(ctx context.Context, l *link, keys []string) (map[string]node, error) {
	if len(keys) == 0 {
		return map[string]node{}, nil
	}
	answering, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	silence := time.AfterFunc(patience, func() { giveUp(context.DeadlineExceeded) })
	defer silence.Stop()
	ended := func() error { return cmp.Or(ctx.Err(), answering.Err()) }
	return call(answering, l, func(c *zk.Conn) (map[string]node, error) {
		var mu sync.Mutex
		found, size, failure := map[string]node{}, 0, error(nil)
		one := func(key string) {
			data, stat, err := c.Get(key)
			silence.Reset(patience)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				found[key] = node{text: cmp.Or(string(data), cas.Blank), version: stat.Version, owner: stat.EphemeralOwner,
					zxid: stat.Mzxid}
				if size += len(data); size > cas.MaxBytes {
					failure = fmt.Errorf("%w: %s", cas.ErrTooLarge, d.target.Key())
				}
			case errors.Is(err, zk.ErrNoNode):
				found[key] = node{absent: true}
			default:
				failure = d.explain(err, key)
			}
		}
		wrong := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return failure != nil || ended() != nil
		}
		var readers sync.WaitGroup
		places := make(chan struct{}, atOnce)
		for _, key := range keys {
			places <- struct{}{}
			if wrong() {
				break
			}
			readers.Go(func() {
				one(key)
				<-places
			})
		}
		readers.Wait()
		if failure == nil {
			failure = ended()
		}
		return found, failure
	})
}

// readTwice reads keys before and after something else is read, until they have not changed meanwhile. So all of
// them were true at once, and the rest while they were.
func (d *driver) readTwice(ctx context.Context, l *link, keys []string,
	between func() (map[string]node, error)) (map[string]node, error) {
	for range 100 {
		found, err := d.read(ctx, l, keys)
		if err != nil {
			return nil, err
		}
		rest, err := between()
		if err != nil {
			return nil, err
		}
		later, err := d.read(ctx, l, keys)
		if err != nil {
			return nil, err
		}
		if maps.Equal(found, later) {
			maps.Copy(found, rest)
			return found, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", d.target.Key(), errBusy)
}

func nothing() (map[string]node, error) { return nil, nil }

// list returns the names below a key of the pool; none if there is no such key.
func (d *driver) list(ctx context.Context, l *link, key string) ([]string, error) {
	path := d.target.Key(key)
	names, err := call(ctx, l, func(c *zk.Conn) ([]string, error) {
		there, stat, err := c.Exists(path)
		if err != nil || !there {
			return nil, err
		}
		if stat.NumChildren > cas.MaxChildren {
			return nil, fmt.Errorf("%w: %s has %d", cas.ErrTooLarge, path, stat.NumChildren)
		}
		names, _, err := c.Children(path)
		return names, err
	})
	if err != nil {
		return nil, d.explain(err, path)
	}
	return names, nil
}

// sync makes the server catch up with the leader.
func (d *driver) sync(ctx context.Context, l *link) error {
	_, err := call(ctx, l, func(c *zk.Conn) (string, error) { return c.Sync(d.target.Key()) })
	return err
}

// Load implements cas.Driver.
func (d *driver) Load(ctx context.Context, conn string) (pool.View, error) {
	v, err := d.load(ctx, conn)
	return v, d.failed(err)
}

func (d *driver) load(ctx context.Context, conn string) (v pool.View, err error) {
	l, err := d.over(conn)
	if err == nil {
		err = d.sync(ctx, l)
	}
	if err != nil {
		return v, err
	}
	type place struct {
		in     map[uint64]string
		worker uint64
	}
	var places map[string]place
	below := func() (map[string]node, error) { // meta: also their names, or a record that was made with it is missing
		v = pool.View{Records: map[uint64]string{}, Present: map[uint64]string{}}
		places = map[string]place{}
		for key, in := range map[string]map[uint64]string{"id": v.Records, "on": v.Present} {
			names, err := d.list(ctx, l, key)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if w, ok := cas.ParseName(name); ok { // others are not ours
					places[d.target.Key(key, name)] = place{in, w}
				}
			}
		}
		return d.read(ctx, l, slices.Collect(maps.Keys(places)))
	}
	meta := d.target.Key("meta")
	found, err := d.readTwice(ctx, l, []string{meta}, below)
	if err != nil {
		return v, err
	}
	maps.Copy(l.known, found)
	v.Meta = found[meta].text
	for path, p := range places {
		if n := found[path]; !n.absent {
			p.in[p.worker] = n.text
		}
	}
	var newest int64
	for _, n := range found {
		newest = max(newest, n.zxid)
	}
	d.note(func(f *facts) { f.zxid = newest })
	return v, d.lookAtACL(ctx, l, v.Meta != "")
}

// lookAtACL warns of a pool that every client of ZooKeeper may change.
func (d *driver) lookAtACL(ctx context.Context, l *link, there bool) error {
	if d.warned || !there {
		return nil
	}
	path := d.target.Key("meta")
	acl, err := call(ctx, l, func(c *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := c.GetACL(path)
		return acl, err
	})
	if err != nil {
		return d.explain(err, path)
	}
	for _, a := range acl {
		if a.Scheme == "world" && a.Perms&^zk.PermRead != 0 {
			d.c.Log.Warn("every client of ZooKeeper may change this pool of worker ids; create it with a user in "+
				"the URL",
				"key", path)
		}
	}
	d.warned = true
	return nil
}

// Peers implements cas.Driver.
func (d *driver) Peers(ctx context.Context, conn string) (map[string]string, error) {
	all, err := d.peers(ctx, conn)
	return all, d.failed(err)
}

func (d *driver) peers(ctx context.Context, conn string) (map[string]string, error) {
	l, err := d.over(conn)
	if err == nil {
		err = d.sync(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	names, err := d.list(ctx, l, "peers")
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, name := range names {
		keys = append(keys, d.target.Key("peers", name))
	}
	found, err := d.read(ctx, l, keys)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for i, name := range names {
		if n := found[keys[i]]; !n.absent {
			all[name] = n.text
		}
	}
	return all, nil
}
