package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A driver carries the calls of one daemon to etcd, over one connection to one member. Whatever call
// gets no answer ends that connection, and the next one goes to another member.
type driver struct {
	link    etcdlink.Target
	timeout time.Duration // of one call
	ttl     time.Duration // of the lease; 0 = there is none
	log     *slog.Logger

	// calls come one at a time, and only they use these
	next    int          // place of the host that is tried next
	pending chan attempt // a connection is being made; it has room for the outcome

	mu      sync.Mutex
	conn    *etcdlink.Conn // nil = none
	name    string         // of the connection
	lease   int64          // 0 = none yet, or it is gone
	kept    time.Time      // when that was renewed, for the last time that succeeded
	asked   bool           // an answer has asked for the renewal that keep is about to begin, or is in
	token   string         // with which to log in
	cluster string         // that answered last
	member  string
	history etcdlink.History
	last    error // of the latest call; nil = it was answered

	life  context.Context // ends with Close
	end   context.CancelFunc
	renew chan struct{} // wakes keep
	done  sync.WaitGroup
}

var _ cas.Driver = (*driver)(nil)

// minTTL is the shortest lease that says that a daemon lives. etcd's leader counts its time, and may
// have to be elected first.
const minTTL = 6 * time.Second

// newDriver makes a driver. An operator's is not lasting: it has no lease, and makes no presences.
func newDriver(c Config, t cas.Target, lasting bool) *driver {
	d := &driver{link: etcdlink.TargetOf(t), timeout: c.Timeout, log: c.Log, renew: make(chan struct{}, 1)}
	d.life, d.end = context.WithCancel(context.Background())
	if lasting {
		d.ttl = max(c.Lease/2, minTTL).Round(time.Second)
		d.done.Go(d.keep)
	}
	return d
}

func (d *driver) key(kind, name string) string { return d.link.Root + kind + name }
func (d *driver) metaKey() string              { return d.key("meta", "") }
func (d *driver) recordKey(w uint64) string    { return d.key("id/", cas.Name(w)) }

// on returns a connection that must be the one of this name.
func (d *driver) on(conn string) (*etcdlink.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil || d.name != conn || d.conn.Broken() {
		return nil, fmt.Errorf("%w: %s", cas.ErrConnection, conn)
	}
	return d.conn, nil
}

// call carries out a transaction, once.
func (d *driver) call(ctx context.Context, conn, key string, compare []etcdlink.Cmp, then,
	otherwise []etcdlink.Op) (etcdlink.Answer, error) {
	c, err := d.on(conn)
	if err != nil {
		return etcdlink.Answer{}, err
	}
	a, err := c.Commit(ctx, d.timeout, key, compare, then, otherwise)
	return a, d.heard(c, a, err)
}

// heard notes an answer, or what an error means to the connection.
func (d *driver) heard(c *etcdlink.Conn, a etcdlink.Answer, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = err
	if err == nil {
		if d.cluster != "" && d.cluster != a.Cluster {
			d.log.Warn("etcd is another cluster; do all hosts belong to one?", "cluster", a.Cluster, "before", d.cluster, "host",
				c.Endpoint)
		}
		d.cluster, d.member, d.history = a.Cluster, a.Member, a.History
		if !d.asked && time.Since(d.kept) > d.ttl/2 {
			d.asked = true
			d.wake()
		}
		return nil
	}
	switch etcdlink.KindOf(err) {
	case etcdlink.Full, etcdlink.Denied, etcdlink.NoLease: // another member would say the same
	case etcdlink.TooLarge:
		return fmt.Errorf("%w: %w", cas.ErrTooLarge, err)
	case etcdlink.BadLogin, etcdlink.OldLogin:
		d.token = ""
		d.drop(c)
	default:
		d.drop(c)
	}
	return err
}

// drop closes a connection. The caller has the lock.
func (d *driver) drop(c *etcdlink.Conn) {
	if c != nil {
		d.conn, d.name = nil, ""
		go c.Close()
	}
}

// Load implements cas.Driver.
func (d *driver) Load(ctx context.Context, conn string) (pool.View, error) {
	a, err := d.call(ctx, conn, d.link.Root, nil, []etcdlink.Op{
		etcdlink.Get(d.metaKey()), etcdlink.AtMost(cas.MaxChildren+1, d.key("id/", "")),
		etcdlink.AtMost(cas.MaxChildren+1, d.key("on/", "")),
	}, nil)
	if err != nil {
		return pool.View{}, err
	}
	if err := d.tooLarge(a.Found[1:]); err != nil {
		return pool.View{}, err
	}
	return pool.View{Meta: text(a.Found[0]), Records: d.byWorker("id/", a.Found[1].Pairs),
		Present: d.byWorker("on/", a.Found[2].Pairs)}, nil
}

// tooLarge says that there is more than a pool can have.
func (d *driver) tooLarge(found []etcdlink.Found) error {
	keys, bytes := int64(0), 0
	for _, f := range found {
		keys += f.Count
		for _, p := range f.Pairs {
			bytes += len(p.Text)
		}
	}
	if keys > cas.MaxChildren || bytes > cas.MaxBytes {
		return fmt.Errorf("%w: %s has %d keys, and those that were read %d bytes", cas.ErrTooLarge, d.link.Root, keys, bytes)
	}
	return nil
}

func text(f etcdlink.Found) string {
	if len(f.Pairs) == 0 {
		return ""
	}
	return cmp.Or(f.Pairs[0].Text, cas.Blank)
}

// is compares a key with a text of a View.
func is(key, text string) etcdlink.Cmp {
	switch text {
	case "":
		return etcdlink.Absent(key)
	case cas.Blank:
		return etcdlink.TextIs(key, "")
	}
	return etcdlink.TextIs(key, text)
}

// byWorker leaves out what is not the key of a worker id.
func (d *driver) byWorker(kind string, pairs []etcdlink.Pair) map[uint64]string {
	all := map[uint64]string{}
	for _, p := range pairs {
		if w, ok := cas.ParseName(p.Key[len(d.key(kind, "")):]); ok {
			all[w] = cmp.Or(p.Text, cas.Blank)
		}
	}
	return all
}

// Commit implements cas.Driver.
func (d *driver) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	var compare []etcdlink.Cmp
	var then []etcdlink.Op
	otherwise := []etcdlink.Op{etcdlink.Get(d.metaKey())}
	switch {
	case c.Fresh:
		compare = append(compare, etcdlink.Absent(d.metaKey()))
	case c.IfMeta != "":
		compare = append(compare, is(d.metaKey(), c.IfMeta))
	}
	if c.SetMeta != "" {
		then = append(then, etcdlink.Put(d.metaKey(), c.SetMeta))
	}
	workers := slices.Sorted(maps.Keys(c.If))
	for _, w := range workers {
		compare = append(compare, is(d.recordKey(w), c.If[w]))
		otherwise = append(otherwise, etcdlink.Get(d.recordKey(w)))
	}
	for _, w := range slices.Sorted(maps.Keys(c.Set)) {
		then = append(then, etcdlink.Put(d.recordKey(w), c.Set[w]))
	}
	if len(compare)+len(then) == 0 {
		_, err := d.on(conn)
		return cas.Answer{Done: true, Session: d.session()}, err
	}
	a, err := d.call(ctx, conn, d.link.Root, compare, then, otherwise)
	if err != nil {
		return cas.Answer{}, err
	}
	answer := cas.Answer{Done: a.Done, Session: d.session()}
	if !a.Done {
		answer.View = pool.View{Meta: text(a.Found[0]), Records: map[uint64]string{}}
		for i, w := range workers {
			if s := text(a.Found[i+1]); s != "" {
				answer.View.Records[w] = s
			}
		}
	}
	return answer, nil
}

// Announce implements cas.Driver.
func (d *driver) Announce(ctx context.Context, conn string, worker uint64, text string) error {
	return d.put(ctx, conn, d.key("on/", cas.Name(worker)), text)
}

// Publish implements cas.Driver.
func (d *driver) Publish(ctx context.Context, conn, name, text string) error {
	return d.put(ctx, conn, d.key("peers/", name), text)
}

// put writes a key that ends with the lease, or deletes it if it does. A transaction with a lease that
// is gone is refused as a whole, so it does nothing else.
func (d *driver) put(ctx context.Context, conn, key, text string) error {
	d.mu.Lock()
	lease := d.lease
	d.mu.Unlock()
	if lease == 0 {
		return errors.New("this daemon has no lease in etcd yet")
	}
	var compare []etcdlink.Cmp
	then := []etcdlink.Op{etcdlink.PutFor(lease, key, text)}
	if text == "" {
		compare, then = []etcdlink.Cmp{etcdlink.LeaseIs(key, lease)}, []etcdlink.Op{etcdlink.Delete(key)}
	}
	_, err := d.call(ctx, conn, key, compare, then, nil)
	if etcdlink.KindOf(err) == etcdlink.NoLease {
		d.gone(lease)
	}
	return err
}

// Peers implements cas.Driver.
func (d *driver) Peers(ctx context.Context, conn string) (map[string]string, error) {
	prefix := d.key("peers/", "")
	a, err := d.call(ctx, conn, prefix, nil, []etcdlink.Op{etcdlink.AtMost(cas.MaxChildren+1, prefix)}, nil)
	if err != nil {
		return nil, err
	}
	if err := d.tooLarge(a.Found); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, p := range a.Found[0].Pairs {
		all[p.Key[len(prefix):]] = p.Text
	}
	return all, nil
}

func (d *driver) session() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == 0 {
		return ""
	}
	return strconv.FormatInt(d.lease, 16)
}

// Close implements cas.Driver.
func (d *driver) Close() error {
	d.end()
	d.done.Wait()
	if d.pending != nil {
		if a := <-d.pending; a.conn != nil {
			a.conn.Close()
		}
		d.pending = nil
	}
	d.mu.Lock()
	c, lease := d.conn, d.lease
	d.conn, d.name = nil, ""
	d.mu.Unlock()
	if c == nil {
		return nil
	}
	if lease != 0 && !c.Broken() {
		ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
		defer cancel()
		c.Revoke(ctx, d.timeout, lease) // otherwise it ends by itself
	}
	return c.Close()
}
