package redislink

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	DialTimeout = time.Second            // for a connection, and each step of finding the master
	Patience    = 5 * time.Second        // for an answer, before the connection is closed
	WaitTimeout = 500 * time.Millisecond // for replicas to have what was written
)

// ErrEvicts is returned for a server that may evict keys when it is short of memory. Retry;
// somebody must set maxmemory-policy to noeviction.
var ErrEvicts = errors.New("redis: maxmemory-policy is not noeviction, so that keys could be evicted")

// A Link is a connection to the master. It is used for one call at a time.
type Link struct {
	Conn *goredis.Conn
	Addr string
	ID   string // the server's id of the connection; every copy of this process has a different one

	client   *goredis.Client
	patience time.Duration // for an answer
}

// plain turns off everything that go-redis does on its own: retries, reconnects, extra connections.
func plain(o *goredis.Options) *goredis.Options {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = DialTimeout, Patience, DialTimeout, true
	o.PoolSize, o.MinIdleConns, o.ConnMaxIdleTime, o.ConnMaxLifetime = 1, 0, -1, 0
	o.Protocol, o.DisableIdentity = 2, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ReadBufferSize, o.WriteBufferSize = 8<<10, 8<<10
	return o
}

// dial connects to a server once. The client library gets this connection and never another one.
func dial(ctx context.Context, o *goredis.Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		return err
	}
	if o.TLSConfig != nil {
		encrypted := tls.Client(c, o.TLSConfig)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			c.Close()
			return fmt.Errorf("no TLS with %s: %w", o.Addr, err)
		}
		c = alerted{encrypted}
	}
	o.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if c == nil {
			return nil, errors.New("the connection is gone")
		}
		once := c
		c = nil
		return once, nil
	}
	return nil
}

// alerted is a connection whose server may refuse the certificate, or miss one, after the handshake: in TLS 1.3 only
// then is it judged.
type alerted struct{ *tls.Conn }

// Write returns the reason that the server sent before it closed the connection, instead of the reset.
func (c alerted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		if _, reason := c.Read(make([]byte, 1)); isAlert(reason) {
			return n, reason
		}
	}
	return n, err
}

// open connects to a server and checks that it may be used.
func open(ctx context.Context, o *goredis.Options, allowEviction bool) (*Link, error) {
	if err := dial(ctx, o); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	l := newLink(o)
	if err := l.greet(ctx, allowEviction); err != nil {
		l.Close()
		return nil, fmt.Errorf("redis: %s: %w", o.Addr, err)
	}
	return l, nil
}

func newLink(o *goredis.Options) *Link {
	c := goredis.NewClient(o)
	return &Link{Conn: c.Conn(), Addr: o.Addr, client: c, patience: o.ReadTimeout}
}

func (l *Link) greet(ctx context.Context, allowEviction bool) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	id, err := l.Conn.ClientID(ctx).Result()
	if err != nil {
		return err
	}
	l.ID = strconv.FormatInt(id, 10)
	memory, err := l.Conn.Info(ctx, "memory").Result()
	if err != nil {
		return err
	}
	_, policy, _ := strings.Cut(memory, "maxmemory_policy:")
	policy, _, _ = strings.Cut(policy, "\r")
	if policy != "" && policy != "noeviction" && !allowEviction {
		return fmt.Errorf("%w (it is %s)", ErrEvicts, policy)
	}
	return nil
}

// Close closes the connection.
func (l *Link) Close() {
	l.Conn.Close()
	l.client.Close()
}

// Run runs a script and then, in the same round trip, WAIT for that many
// replicas. It returns the script's answer and how many replicas have what it wrote. An error of
// the script itself is a goredis.Error; after any other one the script may or may not have run.
func (l *Link) Run(text string, keys []string, args []string, replicas int) (reply any, have int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	values := make([]any, len(args))
	for i, a := range args {
		values[i] = a
	}
	sum := sha1.Sum([]byte(text))
	for _, load := range []bool{false, true} {
		pipe := l.Conn.Pipeline()
		var cmd *goredis.Cmd
		if load {
			cmd = pipe.Eval(ctx, text, keys, values...)
		} else {
			cmd = pipe.EvalSha(ctx, hex.EncodeToString(sum[:]), keys, values...)
		}
		var wait *goredis.Cmd
		if replicas > 0 {
			wait = pipe.Do(ctx, "WAIT", replicas, WaitTimeout.Milliseconds())
		}
		pipe.Exec(ctx) // the commands have their errors
		if reply, err = cmd.Result(); err != nil && !load && goredis.HasErrorPrefix(err, "NOSCRIPT") {
			continue
		}
		if wait != nil {
			have, _ = wait.Int() // without an answer no replica counts
		}
		break
	}
	if goredis.HasErrorPrefix(err, "CROSSSLOT") {
		err = fmt.Errorf("%w: the server is a node of a cluster: the URL must begin with rediscluster://", err)
	}
	return reply, have, err
}

// Wait counts the replicas that have what was written over this connection.
func (l *Link) Wait(replicas int) (have int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	return l.Conn.Do(ctx, "WAIT", replicas, WaitTimeout.Milliseconds()).Int()
}

// askReplicas asks a Sentinel, which is dialed, how many replicas of the master it knows, also those that are away.
func askReplicas(ctx context.Context, o *goredis.Options, master string) (int, error) {
	c := goredis.NewSentinelClient(o)
	defer c.Close()
	known, err := c.Replicas(ctx, master).Result()
	return len(known), err
}

// askSentinel asks a Sentinel, which is dialed, for the master's address. It names no nodes.
func askSentinel(ctx context.Context, o *goredis.Options, master string) (addr string, nodes []string, err error) {
	c := goredis.NewSentinelClient(o)
	defer c.Close()
	found, err := c.GetMasterAddrByName(ctx, master).Result()
	switch {
	case errors.Is(err, goredis.Nil):
		return "", nil, fmt.Errorf("it knows no master %q", master)
	case err != nil:
		return "", nil, err
	case len(found) != 2:
		return "", nil, fmt.Errorf("it answered %q", found)
	}
	return net.JoinHostPort(found[0], found[1]), nil, nil
}

// askNode asks a cluster node, which is dialed, which node has the key, and for the list of nodes.
func askNode(ctx context.Context, o *goredis.Options, key string) (addr string, nodes []string, err error) {
	c := goredis.NewClient(o)
	defer c.Close()
	slot, err := c.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return "", nil, err
	}
	//lint:ignore SA1019 servers before 7.0 have nothing else
	slots, err := c.ClusterSlots(ctx).Result()
	if err != nil {
		return "", nil, err
	}
	for _, r := range slots {
		for i, n := range r.Nodes {
			host, port, err := net.SplitHostPort(n.Addr)
			if err != nil {
				continue
			}
			if host == "" { // the node that we asked; it does not know its own address
				host, _, _ = net.SplitHostPort(o.Addr)
			}
			node := net.JoinHostPort(host, port)
			if nodes = append(nodes, node); i == 0 && int64(r.Start) <= slot && slot <= int64(r.End) {
				addr = node
			}
		}
	}
	if addr == "" {
		return "", nil, fmt.Errorf("%w %d", errNoNode, slot)
	}
	return addr, nodes, nil
}
