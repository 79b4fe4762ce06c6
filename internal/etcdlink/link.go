package etcdlink

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// A Target says where etcd is, and who wants to connect. Its functions are called for each connection.
type Target struct {
	Endpoints []string // http://host:port, https: with TLS
	User      string   // empty = none
	Password  func() (string, error)
	TLS       func() (*tls.Config, error) // nil = not encrypted
	Root      string                      // begins the keys of the caller
}

// TargetOf returns how to connect to what a URL names.
func TargetOf(e endpoint.Target) Target {
	before := "http://"
	if e.TLS {
		before = "https://"
	}
	t := Target{User: e.User, Password: e.Secret, TLS: e.Encryption, Root: e.Key() + "/"}
	for _, host := range e.Hosts {
		t.Endpoints = append(t.Endpoints, before+strings.Replace(host, "%", "%25", 1))
	}
	return t
}

func (t *Target) hosts() string { return strings.Join(t.Endpoints, ",") }

func (t *Target) who() string {
	if t.User == "" {
		return "this client"
	}
	return "user " + t.User
}

// A Link is the connections to etcd's members, which it makes again by itself. They are made at the
// first call, because the library logs in before it returns a client. Any goroutine may use it.
type Link struct {
	Target
	timeout time.Duration // of one attempt

	busy   chan struct{} // holds an element while a goroutine logs in
	mu     sync.Mutex
	client *clientv3.Client // nil = none yet, or the last one was refused
	closed bool
}

// NewLink makes a Link, and does not connect. timeout is for one call.
func NewLink(t Target, timeout time.Duration) *Link {
	return &Link{Target: t, timeout: timeout, busy: make(chan struct{}, 1)}
}

// gRPC must not write to stderr: what matters to us is returned as an error. Its logger can only be
// set before the first use.
func init() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}

var errClosed = errors.New("the connections to etcd are closed")

func (l *Link) current() (*clientv3.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	return l.client, nil
}

// Connected says whether there is a client already.
func (l *Link) Connected() bool {
	c, _ := l.current()
	return c != nil
}

// connect returns the client, which it makes if need be.
func (l *Link) connect(ctx context.Context) (*clientv3.Client, error) {
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := l.current(); c != nil || err != nil {
		return c, err
	}
	c, err := l.dial()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.Join(errClosed, c.Close())
	}
	l.client = c
	return c, nil
}

func (l *Link) dial() (*clientv3.Client, error) {
	encryption, err := l.TLS()
	if err != nil {
		return nil, err
	}
	password, err := l.Password()
	if err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: l.Endpoints, TLS: encryption, Username: l.User, Password: password, Logger: zap.NewNop(),
		DialTimeout: l.timeout, // for logging in
		// A member that stands still is left out after this. It cannot be much less: gRPC pings at most every 10 s,
		// and etcd closes connections that ping more often than every 5 s.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		MaxUnaryRetries: 3, // of reads, and after a token has expired
		// The library's own grows to two minutes.
		DialOptions: append(fixedWindows(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: l.timeout,
		})),
	}
	return clientv3.New(c)
}

// Get reads keys, as they were confirmed last. key is what errors name.
func (l *Link) Get(ctx context.Context, key string, op Op) (a Answer, err error) {
	err = l.ask(ctx, key, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Do(ctx, op)
		if err != nil {
			return err
		}
		got := r.Get()
		a.read(got.Header)
		a.Found = []Found{{pairsOf(got.Kvs), got.Count}}
		return nil
	})
	return a, err
}

// Commit carries out a transaction about a key.
func (l *Link) Commit(ctx context.Context, key string, compare []Cmp, then, otherwise []Op) (a Answer, err error) {
	err = l.ask(ctx, key, func(ctx context.Context, c *clientv3.Client) error {
		r, err := c.Txn(ctx).If(compare...).Then(then...).Else(otherwise...).Commit()
		if err == nil {
			a = answerOf(r)
		}
		return err
	})
	return a, err
}

// ask gives a request a client, and the time of one attempt. key is what errors name.
func (l *Link) ask(ctx context.Context, key string, request func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	c, err := l.connect(ctx)
	if err == nil {
		err = request(ctx, c)
	}
	if err == nil {
		return nil
	}
	err = l.explain(key, l.timeout, err)
	switch kind := KindOf(err); {
	case kind == BadLogin: // the file may have another password meanwhile
		l.drop(c)
	case kind != Denied && l.User != "":
		// with a token that etcd has forgotten in a restart, the library may not end to log in again
		l.drop(c)
	}
	return err
}

// Watch calls changed once it watches the keys that begin so, and after each change: with the keys that were
// written, as one Found, or deleted, without a text. It returns when ctx ends, or when etcd does not answer.
func (l *Link) Watch(ctx context.Context, prefix string, changed func(Answer)) error {
	c, err := l.connect(ctx)
	if err != nil {
		return l.explain(prefix, l.timeout, err)
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		if err := r.Err(); err != nil {
			return l.explain(prefix, l.timeout, err)
		}
		a := Answer{Found: make([]Found, 1)}
		a.read(r.Header)
		for _, e := range r.Events {
			a.Found[0].Pairs = append(a.Found[0].Pairs, pairsOf([]*mvccpb.KeyValue{e.Kv})...)
		}
		changed(a)
	}
	return ctx.Err()
}

// drop makes the next call log in again.
func (l *Link) drop(c *clientv3.Client) {
	l.mu.Lock()
	if c == nil || l.client != c {
		l.mu.Unlock()
		return
	}
	l.client = nil
	l.mu.Unlock()
	c.Close()
}

// Close closes the connections.
func (l *Link) Close() error {
	l.mu.Lock()
	c := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}
