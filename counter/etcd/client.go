package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// A link is the connections to etcd's members. They are made at the first call, because the library
// logs in before it returns a client.
type link struct {
	target       target
	passwordFile string
	timeout      time.Duration // of one attempt

	busy   chan struct{} // holds a token while somebody logs in
	mu     sync.Mutex
	client *clientv3.Client // nil = none yet, or the last one was refused
	closed bool
}

// gRPC must not write to stderr: what matters to us is returned as an error. It can only be told before
// anybody uses it.
func init() {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
}

func (l *link) current() (*clientv3.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errors.New("the counter store is closed")
	}
	return l.client, nil
}

// connect returns the client, which it makes if need be.
func (l *link) connect(ctx context.Context) (*clientv3.Client, error) {
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
		return nil, errors.Join(errors.New("the counter store is closed"), c.Close())
	}
	l.client = c
	return c, nil
}

func (l *link) dial() (*clientv3.Client, error) {
	encryption, err := l.target.tls()
	if err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: l.target.endpoints, TLS: encryption, Username: l.target.user, Logger: zap.NewNop(),
		DialTimeout: l.timeout, // for logging in
		// A member that stands still is left out after this. gRPC asks no more often than every 10 s.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
		MaxUnaryRetries: 3, // of reads, and after a token has expired
		// The library's own grows to two minutes.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: l.timeout,
		})},
	}
	if l.passwordFile != "" {
		if c.Password, err = secretfile.Password(l.passwordFile); err != nil {
			return nil, err
		}
	}
	return clientv3.New(c)
}

// get reads keys, as they were confirmed last.
func (l *link) get(ctx context.Context, key string, opts ...clientv3.OpOption) (r *clientv3.GetResponse, err error) {
	err = l.ask(ctx, key, func(ctx context.Context, c *clientv3.Client) (err error) {
		r, err = c.Get(ctx, key, opts...)
		return err
	})
	return r, err
}

// commit carries out a transaction about a key.
func (l *link) commit(ctx context.Context, key string, compare []clientv3.Cmp, then, otherwise []clientv3.Op) (r *clientv3.TxnResponse, err error) {
	err = l.ask(ctx, key, func(ctx context.Context, c *clientv3.Client) (err error) {
		r, err = c.Txn(ctx).If(compare...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	return r, err
}

// ask gives a request a client, and the time of one attempt. key is what errors name.
func (l *link) ask(ctx context.Context, key string, request func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	c, err := l.connect(ctx)
	if err == nil {
		err = request(ctx, c)
	}
	if err == nil {
		return nil
	}
	err = l.explain(c, key, err)
	if errors.Is(err, counter.ErrUnavailable) && l.target.user != "" {
		l.drop(c) // with a token that etcd has forgotten in a restart, the library may not end to log in again
	}
	return err
}

// explain words an error of etcd's client.
func (l *link) explain(c *clientv3.Client, key string, err error) error {
	is := func(list ...error) bool {
		for _, e := range list {
			if errors.Is(rpctypes.Error(err), e) {
				return true
			}
		}
		return false
	}
	switch {
	case is(rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %s: etcd has no space left for writes (NOSPACE): compact and defragment it, or raise its --quota-backend-bytes, and then `etcdctl alarm disarm`",
			counter.ErrUnavailable, key)
	case is(rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%s: etcd does not permit it to %s: `etcdctl role grant-permission ROLE --prefix=true readwrite %s`", key, l.who(), l.target.root)
	case is(rpctypes.ErrUserEmpty):
		return fmt.Errorf("%s: etcd wants a user and a password, and the URL names no user", key)
	case is(rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserNotFound):
		l.drop(c) // the file may have another password meanwhile
		return fmt.Errorf("%s: etcd refuses %s: wrong user or password", key, l.who())
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("no answer within %v", l.timeout)
	}
	return unavailable{fmt.Sprintf("etcd at %s does not answer: %s: %s", strings.Join(l.target.endpoints, ","), key, text), err}
}

// unavailable is a counter.ErrUnavailable in better words.
type unavailable struct {
	text  string
	cause error
}

func (u unavailable) Error() string   { return u.text }
func (u unavailable) Unwrap() []error { return []error{counter.ErrUnavailable, u.cause} }

func (l *link) who() string {
	if l.target.user == "" {
		return "this client"
	}
	return "user " + l.target.user
}

// drop makes the next call log in again.
func (l *link) drop(c *clientv3.Client) {
	l.mu.Lock()
	if c == nil || l.client != c {
		l.mu.Unlock()
		return
	}
	l.client = nil
	l.mu.Unlock()
	c.Close()
}

func (l *link) close() error {
	l.mu.Lock()
	c := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}
