package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// patience is how long a connection may take, or a call that was given up, before another connection
// is tried. It doubles with each one in a row that took too long, up to maxPatience: or else a slow
// server would never be reached.
const (
	patience    = 2 * time.Second
	maxPatience = 10 * time.Second
	pause       = 300 * time.Millisecond // from one round of all servers to the next
)

// A driver implements cas.Driver.
type driver struct {
	c      cas.Settings
	target cas.Target
	acl    []zk.ACL

	link   *link     // nil = none
	kept   session   // of the link, or of the last one
	next   int       // index of the server that is tried next
	tries  int       // connections in a row that took too long
	round  time.Time // when all servers were tried last, in vain
	warned bool      // of an open meta

	mu    sync.Mutex // of what Figures says
	facts facts
}

type facts struct {
	server, session, failure string
	timeout                  time.Duration
	zxid                     int64
}

var _ cas.Driver = (*driver)(nil)

func newDriver(c cas.Settings, t cas.Target) *driver {
	d := &driver{c: c, target: t, acl: zk.WorldACL(zk.PermAll), next: mathrand.IntN(len(t.Hosts))}
	if t.User != "" {
		d.acl = zk.AuthACL(zk.PermAll)
	}
	return d
}

// Connect implements cas.Driver.
func (d *driver) Connect(ctx context.Context) (string, error) {
	if d.link == nil || d.link.gone() {
		select { // not more often, while all servers refuse
		case <-time.After(time.Until(d.round.Add(pause))):
		case <-ctx.Done():
		}
	}
	d.round = time.Now()
	var err error
	for range len(d.target.Hosts) + 1 { // the last server may have ended the session
		if l := d.link; l != nil && (l.gone() || d.tired(l)) {
			d.drop()
		}
		if err = d.connect(ctx); err == nil {
			d.round = time.Time{}
			return d.link.name, nil
		}
		if l := d.link; ctx.Err() != nil || l == nil || !l.gone() {
			break
		}
	}
	return "", d.failed(err)
}

// tired says whether a connection takes too long, or a call over it that was given up.
func (d *driver) tired(l *link) bool {
	took := l.waiting()
	if l.name == "" {
		took = time.Since(l.began)
	}
	tired := took > min(patience<<min(d.tries, 8), maxPatience)
	if tired {
		d.tries++
	}
	return tired
}

// drop gives a connection up, but not the session, unless the server has done that.
func (d *driver) drop() {
	if d.link.expired.Load() {
		d.kept = session{}
	}
	d.link.drop()
	d.link = nil
	d.note(func(f *facts) { f.server = "" })
}

// connect goes on making the connection until ctx ends.
func (d *driver) connect(ctx context.Context) error {
	if d.link == nil {
		encrypted, err := d.target.Encryption()
		if err != nil {
			return err
		}
		server := d.target.Hosts[d.next%len(d.target.Hosts)]
		d.next++
		d.link = dial(server, d.kept, max(d.c.Lease/2, minSession), encrypted)
	}
	l := d.link
	if l.name != "" {
		return nil
	}
	select {
	case <-l.up:
	case <-l.down:
		return fmt.Errorf("%s: %w", l.server, l.failure)
	case <-ctx.Done():
		return fmt.Errorf("no connection to %s yet: %w", l.server, ctx.Err())
	}
	resumed := d.kept.id == l.wire.granted.id
	d.kept = l.wire.granted
	if err := d.logIn(ctx, l); err != nil {
		return err
	}
	return d.baptise(ctx, l, resumed)
}

func (d *driver) logIn(ctx context.Context, l *link) error {
	if d.target.User == "" {
		return nil
	}
	password, err := d.target.Secret()
	if err != nil {
		return err
	}
	_, err = call(ctx, l, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.AddAuth("digest", []byte(d.target.User+":"+password))
	})
	return err
}

// baptise names a connection. The session's id comes from the store. A copy of this process may go on
// with the same session, though: so a kept one gets the zxid of a write in addition, of which no other
// write has the same. If there is no pool, there is nothing to confuse.
func (d *driver) baptise(ctx context.Context, l *link, resumed bool) error {
	name := hex(l.wire.granted.id)
	if resumed {
		on := d.target.Key("on")
		stat, err := call(ctx, l, func(c *zk.Conn) (*zk.Stat, error) { return c.Set(on, nil, -1) })
		switch {
		case err == nil:
			name += "." + hex(stat.Mzxid)
		case !errors.Is(err, zk.ErrNoNode):
			return d.explain(err, on)
		}
	}
	l.name, d.tries = name+"."+rand.Text()[:12], 0
	d.note(func(f *facts) {
		f.server, f.session, f.timeout, f.failure = l.server, "0x"+hex(l.wire.granted.id), l.wire.granted.timeout, ""
	})
	return nil
}

func hex(n int64) string { return strconv.FormatUint(uint64(n), 16) }

// over returns the connection of that name.
func (d *driver) over(name string) (*link, error) {
	if l := d.link; l != nil && l.name == name && name != "" && !l.gone() {
		return l, nil
	}
	return nil, fmt.Errorf("%w: it was %s", cas.ErrConnection, name)
}

// Figures implements cas.Driver.
func (d *driver) Figures(emit func(figure.Figure)) {
	d.mu.Lock()
	f := d.facts
	d.mu.Unlock()
	figure.Info(emit, "lease_zookeeper_member",
		"The connected server, and this daemon's session. Always 1.", "",
		"addr", "address", f.server, "session", "session", f.session)
	emit(figure.Figure{
		Stat: "lease_zookeeper_servers", Metric: "lease_zookeeper_servers", Value: len(d.target.Hosts),
		Help: "Servers that the URL names.",
	})
	emit(figure.Figure{
		Stat: "lease_zookeeper_session_timeout_ms", Metric: "lease_zookeeper_session_timeout_seconds", Value: f.timeout,
		Help: "After this time without a connection the servers end the session.",
	})
	emit(figure.Figure{
		Stat: "lease_zookeeper_zxid", Metric: "lease_zookeeper_zxid", Value: f.zxid,
		Help: "The newest change of the servers that this daemon has seen; a lower one than before means that an " +
			"earlier state was restored.",
		Worry: "falls: an older state was restored; see [ZOOKEEPER.md](ZOOKEEPER.md)",
	})
	emit(figure.Figure{Stat: "lease_zookeeper_error_last", Value: f.failure}) // empty after a call without one
}

func (d *driver) note(f func(*facts)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(&d.facts)
}

// failed notes the error of a call, or that there was none.
func (d *driver) failed(err error) error {
	d.note(func(f *facts) {
		if f.failure = ""; err != nil {
			f.failure = err.Error()
		}
	})
	return err
}

// explain words an error of the library about a key.
func (d *driver) explain(err error, key string) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth) && d.target.User != "":
		return fmt.Errorf("%s: ZooKeeper does not permit it to user %s: the key belongs to another user, or the password "+
			"is another one (getAcl %s): %w", key, d.target.User, key, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%s: ZooKeeper does not permit it without a user, and the URL names none (getAcl %s): %w", key, key,
			err)
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%s: it is not there, or what is above it: `katsubushi lease init` makes both: %w", key, err)
	}
	return fmt.Errorf("%s: %w", key, err)
}

// Close ends the session, and with it presences and announcements.
func (d *driver) Close() error {
	if d.link != nil {
		d.link.client.Close() // waits for the answer, for a second
		d.link.stop()
		d.link = nil
	}
	return nil
}
