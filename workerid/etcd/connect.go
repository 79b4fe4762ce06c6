package etcd

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// logInTimes is how many times the time of a call may be taken to log in: etcd makes its hashes slow on
// purpose, and after its restart every client logs in.
const logInTimes = 10

// An attempt to make a connection, and its outcome.
type attempt struct {
	conn  *etcdlink.Conn
	name  string
	lease int64 // that was granted for the name
	err   error
}

// Connect implements cas.Driver. What takes longer than ctx goes on, and the next call gets it.
func (d *driver) Connect(ctx context.Context) (string, error) {
	d.mu.Lock()
	if d.conn != nil && d.conn.Broken() {
		d.drop(d.conn)
	}
	name := d.name
	d.mu.Unlock()
	if name != "" {
		return name, nil
	}
	for tried := 1; ; tried++ {
		if d.pending == nil {
			d.pending = make(chan attempt, 1)
			host := d.link.Endpoints[d.next%len(d.link.Endpoints)]
			d.next++ // whether it fails, or works and ends later
			go func(to chan<- attempt) { to <- d.dial(host) }(d.pending)
		}
		select {
		case a := <-d.pending:
			d.pending = nil
			if a.err == nil {
				d.use(a)
				return a.name, nil
			}
			if d.heard(nil, etcdlink.Answer{}, a.err); tried >= len(d.link.Endpoints) || ctx.Err() != nil {
				return "", a.err
			}
		case <-ctx.Done():
			return "", fmt.Errorf("no connection to etcd yet: %w", ctx.Err())
		}
	}
}

// dial makes a connection to a member, logs in, and asks for a lease. etcd never gives the id of a
// lease to two, so it becomes a part of the connection's name.
func (d *driver) dial(host string) (a attempt) {
	defer func() {
		if a.err != nil && a.conn != nil {
			a.conn.Close()
			a.conn = nil
		}
	}()
	within := func(times time.Duration, f func(ctx context.Context)) {
		ctx, cancel := context.WithTimeout(d.life, times*d.timeout)
		defer cancel()
		f(ctx)
	}
	if within(1, func(ctx context.Context) { a.conn, a.err = d.link.Dial(ctx, host) }); a.err != nil {
		return a
	}
	d.mu.Lock()
	token, lease := d.token, d.lease
	d.mu.Unlock()
	if token != "" {
		a.conn.UseToken(token)
	} else if d.link.User != "" {
		if within(logInTimes, func(ctx context.Context) {
			token, a.err = a.conn.LogIn(ctx, logInTimes*d.timeout)
		}); a.err != nil {
			return a
		}
		d.mu.Lock()
		d.token = token
		d.mu.Unlock()
	}
	a.name = rand.Text()[:13]
	if d.ttl == 0 { // an operator's process is not copied
		return a
	}
	ttl := d.ttl
	if lease != 0 {
		ttl = time.Second // there is one already
	}
	within(1, func(ctx context.Context) { a.lease, a.err = a.conn.Grant(ctx, d.timeout, int64(ttl/time.Second)) })
	a.name += "." + strconv.FormatInt(a.lease, 36)
	return a
}

// use takes over a connection that was made.
func (d *driver) use(a attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn, d.name, d.last = a.conn, a.name, nil
	if d.lease == 0 {
		d.lease = a.lease
	}
	d.wake()
}

func (d *driver) wake() {
	select {
	case d.renew <- struct{}{}:
	default:
	}
}

// keep renews the lease: at once over a new connection, and with the first call after half of its life,
// so that an idle daemon is not woken for it. Without calls it does so after two thirds of its life, and
// soon again if that fails.
func (d *driver) keep() {
	late := d.ttl * 2 / 3
	timer := time.NewTimer(late)
	defer timer.Stop()
	for {
		select {
		case <-d.life.Done():
			return
		case <-timer.C:
		case <-d.renew:
		}
		if d.renewNow() {
			timer.Reset(late)
		} else {
			timer.Reset(d.ttl / 6)
		}
	}
}

// renewNow renews the lease, or asks for another one if it is gone. It returns whether there is one now.
// Errors of the connection are for the next call to notice.
func (d *driver) renewNow() bool {
	d.mu.Lock()
	c, lease := d.conn, d.lease
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.asked = false
		d.mu.Unlock()
	}()
	if c == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(d.life, d.timeout)
	defer cancel()
	began := time.Now()
	var granted int64
	var err error
	if lease == 0 {
		granted, err = c.Grant(ctx, d.timeout, int64(d.ttl/time.Second))
	} else if err = c.KeepAlive(ctx, d.timeout, lease); etcdlink.KindOf(err) == etcdlink.NoLease {
		d.gone(lease)
	}
	if err != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept = began; d.lease == 0 {
		d.lease = granted
	}
	return true
}

// gone notes that a lease is, and with it this daemon's presences. They are made again in another one.
func (d *driver) gone(lease int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lease == lease {
		d.lease = 0
		d.log.Warn("this daemon's lease in etcd has ended; it gets a new one", "lease",
			strconv.FormatInt(lease, 16))
		d.wake()
	}
}

// Figures implements cas.Driver.
func (d *driver) Figures(emit func(figure.Figure)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	connected, lease, last := "", "", ""
	if d.conn != nil {
		_, connected, _ = strings.Cut(d.conn.Endpoint, "://")
	}
	if d.lease != 0 {
		lease = strconv.FormatInt(d.lease, 16)
	}
	if d.last != nil {
		last = d.last.Error()
	}
	figure.Info(emit, "lease_etcd_member",
		"The connected member, and the lease that shows that this daemon is alive. Always 1.",
		"`cluster` differs within a job: two clusters",
		"addr", "address", connected, "id", "id", d.member, "cluster", "cluster", d.cluster, "lease", "lease", lease)
	emit(figure.Figure{
		Stat: "lease_etcd_lease_ttl_ms", Metric: "lease_etcd_lease_ttl_seconds", Value: d.ttl,
		Help: "How long etcd remembers a daemon that it does not hear from.",
	})
	emit(figure.Figure{
		Stat: "lease_etcd_revision", Metric: "lease_etcd_revision", Value: d.history.Revision,
		Help:  "etcd's revision; it goes back when an older state is restored.",
		Worry: "falls: an older state was restored; see [ETCD.md](ETCD.md)",
	})
	emit(figure.Figure{
		Stat: "lease_etcd_term", Metric: "lease_etcd_term", Value: d.history.Term,
		Help:  "The term of etcd's leader.",
		Worry: "changes more than three times in half an hour: etcd keeps electing leaders",
	})
	emit(figure.Figure{Stat: "lease_etcd_error_last", Value: last}) // empty if etcd answers
}
