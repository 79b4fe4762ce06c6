package etcdlink

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
)

// maxAnswer is the largest answer that a Conn takes, in bytes. A larger one is TooLarge.
const maxAnswer = 4 << 20

// window is what a member may send before it is told to go on, in bytes. It is fixed: a window that adapts
// itself costs a ping with every answer, and an idle daemon a third of its CPU time.
const window = 1 << 20

func fixedWindows() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window)}
}

// A Conn is one connection to one member. When it breaks, all calls fail from then on. No call is
// ever sent twice. Calls may overlap.
type Conn struct {
	Target
	Endpoint string
	client   *clientv3.Client
	line     *line
	token    atomic.Pointer[string]
}

// A line makes the one TCP connection of a Conn, and learns when it ends.
type line struct {
	mu     sync.Mutex
	err    error // why there will not be another one; nil = none was made yet
	broken atomic.Bool
}

var errBroken = errors.New("the connection broke")

func (l *line) dial(ctx context.Context, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		l.err = err
		l.broken.Store(true)
		return nil, err
	}
	l.err = errBroken
	return &watched{c, l}, nil
}

// watched notices that gRPC has given up its connection.
type watched struct {
	net.Conn
	line *line
}

func (w *watched) Close() error {
	w.line.broken.Store(true)
	return w.Conn.Close()
}

// GetRequestMetadata implements credentials.PerRPCCredentials. The library's own logs in for every
// stream, and a stream is what keeps a lease.
func (c *Conn) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t := c.token.Load(); t != nil && *t != "" {
		return map[string]string{rpctypes.TokenFieldNameGRPC: *t}, nil
	}
	return nil, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (c *Conn) RequireTransportSecurity() bool { return false }

// Dial connects to a member and waits until that answers, as long as ctx lasts.
func (t Target) Dial(ctx context.Context, endpoint string) (*Conn, error) {
	encryption, err := t.TLS()
	if err != nil {
		return nil, err
	}
	c := &Conn{Target: t, Endpoint: endpoint, line: &line{}}
	c.Endpoints = []string{endpoint} // what errors name
	c.client, err = clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: encryption, Logger: zap.NewNop(),
		MaxUnaryRetries: 1, MaxCallRecvMsgSize: maxAnswer, // one attempt is no retry
		DialOptions: append(fixedWindows(),
			grpc.WithContextDialer(c.line.dial), grpc.WithPerRPCCredentials(c), grpc.WithIdleTimeout(0), grpc.WithDisableRetry(),
			grpc.WithChainUnaryInterceptor(hasty), // after the library's, which waits for another connection
			// ctx ends the first attempt, and no other one helps.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff: backoff.Config{BaseDelay: time.Hour, Multiplier: 1, MaxDelay: time.Hour},
			}),
		),
	})
	if err != nil {
		return nil, t.explain(endpoint, 0, err)
	}
	wire := c.client.ActiveConnection()
	for wire.Connect(); ; {
		s := wire.GetState()
		if s == connectivity.Ready {
			return c, nil
		}
		if s == connectivity.TransientFailure || !wire.WaitForStateChange(ctx, s) {
			err := c.failure(ctx)
			c.Close()
			return nil, err
		}
	}
}

// hasty fails a call at once if there is no connection.
func hasty(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption) error {
	return invoke(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// failure words why a connection could not be made.
func (c *Conn) failure(ctx context.Context) error {
	// The first call of a connection that failed says why.
	_, err := c.client.Get(ctx, "x")
	if err == nil {
		err = errBroken
	}
	return c.explain("connect", 0, err)
}

// Broken says whether the connection has ended. Later calls fail.
func (c *Conn) Broken() bool { return c.line.broken.Load() }

// LogIn asks for a token, and uses it. If etcd wants no passwords, there is none.
func (c *Conn) LogIn(ctx context.Context, timeout time.Duration) (token string, err error) {
	password, err := c.Password()
	if err != nil {
		return "", err
	}
	r, err := c.client.Auth.Authenticate(ctx, c.User, password)
	if errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return "", nil
	}
	if err != nil {
		return "", c.explain("log in", timeout, err)
	}
	c.UseToken(r.Token)
	return r.Token, nil
}

// UseToken sends a token that LogIn has returned with all calls.
func (c *Conn) UseToken(token string) { c.token.Store(&token) }

// Commit carries out a transaction about a key. Nothing to compare is true.
func (c *Conn) Commit(ctx context.Context, timeout time.Duration, key string, compare []Cmp, then,
	otherwise []Op) (Answer, error) {
	r, err := c.client.Txn(ctx).If(compare...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return Answer{}, c.explain(key, timeout, err)
	}
	return answerOf(r), nil
}

// Grant makes a lease of so many seconds. etcd may make it longer, and chooses its id.
func (c *Conn) Grant(ctx context.Context, timeout time.Duration, seconds int64) (lease int64, err error) {
	r, err := c.client.Grant(ctx, seconds)
	if err != nil {
		return 0, c.explain("grant a lease", timeout, err)
	}
	return int64(r.ID), nil
}

// KeepAlive renews a lease. The library's own repeats itself.
func (c *Conn) KeepAlive(ctx context.Context, timeout time.Duration, lease int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := etcdserverpb.NewLeaseClient(c.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err == nil {
		err = stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: lease})
	}
	if err == nil {
		var r *etcdserverpb.LeaseKeepAliveResponse
		if r, err = stream.Recv(); err == nil && r.TTL <= 0 {
			err = rpctypes.ErrGRPCLeaseNotFound
		}
	}
	return c.explain("keep the lease", timeout, err)
}

// Revoke ends a lease, and its keys.
func (c *Conn) Revoke(ctx context.Context, timeout time.Duration, lease int64) error {
	_, err := c.client.Revoke(ctx, clientv3.LeaseID(lease))
	return c.explain("end the lease", timeout, err)
}

// Close closes the connection.
func (c *Conn) Close() error { return c.client.Close() }
