package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A link is one TCP connection to a server, or the attempt to make one.
type link struct {
	name   string // for cas.Driver; empty until it is ready
	server string
	began  time.Time
	client *zk.Conn
	wire   *wire // set before up is closed

	up      chan struct{} // closed when there is a session
	down    chan struct{} // closed when the connection is gone, for good
	expired atomic.Bool   // the server does not know the kept session any more
	failure error         // why there is no connection; set before down is closed
	stop    context.CancelFunc

	late  atomic.Int64    // ns since began: when the oldest call was sent that was given up and not answered yet; 0 = none
	known map[string]node // what was read or written over this link
	bred  bool            // the parents of all keys are there
}

// A node is what is recorded of a key.
type node struct {
	text    string
	absent  bool
	version int32
	owner   int64 // the session that it ends with; 0 = none
	zxid    int64 // of the change that wrote it
}

// dial begins to make a connection. It does not wait.
func dial(server string, kept session, timeout time.Duration, encrypted *tls.Config) *link {
	ctx, stop := context.WithCancel(context.Background())
	l := &link{server: server, began: time.Now(), up: make(chan struct{}), down: make(chan struct{}), stop: stop,
		known: map[string]node{}}
	var up, down sync.Once
	gone := func(err error) {
		down.Do(func() {
			l.failure = err
			close(l.down)
		})
	}
	dialed := false
	dialer := func(network, address string, _ time.Duration) (net.Conn, error) {
		if dialed {
			return nil, net.ErrClosed
		}
		dialed = true
		c, err := connect(ctx, network, address, encrypted)
		if err != nil {
			gone(err)
			return nil, err
		}
		l.wire = &wire{Conn: c, resume: kept}
		context.AfterFunc(ctx, func() { c.Close() }) // the library forgets that after a session has expired
		return l.wire, nil
	}
	watch := func(e zk.Event) {
		switch {
		case e.Type != zk.EventSession:
		case e.State == zk.StateHasSession:
			up.Do(func() { close(l.up) })
		case e.State == zk.StateExpired:
			l.expired.Store(true)
			gone(zk.ErrSessionExpired)
		case e.State == zk.StateDisconnected:
			gone(errClosed)
		}
	}
	// Limits the library's memory; a pool's texts are far smaller.
	limit := zk.WithMaxBufferSize(cas.MaxBytes + 1<<16)
	client, _, err := zk.Connect([]string{server}, timeout, zk.WithHostProvider(&single{server: server}),
		zk.WithDialer(dialer),
		zk.WithEventCallback(watch), zk.WithLogger(library{}), zk.WithLogInfo(false), limit)
	if err != nil { // only for an empty list of servers
		panic(err)
	}
	l.client = client
	return l
}

var errClosed = errors.New("the server closed the connection; it may be starting, or without a quorum")

// connect dials a server.
func connect(ctx context.Context, network, address string, encrypted *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	if encrypted == nil {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}
	d := tls.Dialer{Config: encrypted}
	return d.DialContext(ctx, network, address)
}

// drop closes the connection. The session goes on.
func (l *link) drop() {
	l.stop()
	go l.client.Close() // what it sends gets nowhere; it waits a second for the answer
}

func (l *link) gone() bool {
	select {
	case <-l.down:
		return true
	default:
		return false
	}
}

// waiting is how long a call that was given up has not been answered.
func (l *link) waiting() time.Duration {
	if at := l.late.Load(); at != 0 {
		return time.Since(l.began) - time.Duration(at)
	}
	return 0
}

// call lets the library do something until ctx ends or the connection breaks. Then f may go on for a
// while; it must not touch what the driver has.
func call[T any](ctx context.Context, l *link, f func(*zk.Conn) (T, error)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	var none T
	done := make(chan outcome, 1)
	sent := max(1, int64(time.Since(l.began)))
	go func() {
		v, err := f(l.client)
		done <- outcome{v, err}
		l.late.CompareAndSwap(sent, 0)
	}()
	select {
	case o := <-done:
		return o.v, o.err
	case <-l.down:
		return none, fmt.Errorf("the connection to %s broke, and the call may have been carried out: %w", l.server, l.failure)
	case <-ctx.Done():
		l.late.CompareAndSwap(0, sent)
		select {
		case o := <-done: // at the same moment
			l.late.CompareAndSwap(sent, 0)
			return o.v, o.err
		default:
		}
		return none, fmt.Errorf("no answer from %s yet: %w", l.server, context.Cause(ctx))
	}
}

// single is a zk.HostProvider of one server that is dialed once.
type single struct {
	server string
	asked  bool
}

func (s *single) Init([]string) error { return nil }
func (s *single) Len() int            { return 1 }
func (s *single) Connected()          {}

// Next says at the second time that all servers were tried. Then the library empties its queue and
// waits for a second, in which the client is closed.
func (s *single) Next() (server string, retryStart bool) {
	retryStart, s.asked = s.asked, true
	return s.server, retryStart
}
