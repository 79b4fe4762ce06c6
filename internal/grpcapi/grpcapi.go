// Package grpcapi answers over gRPC what clients of kayac/go-katsubushi ask: ids of the default kind
// and statistics; and health and reflection, which gRPC's tools ask.
//
// Where users must log in, they must for ids alone, as over HTTP.
//
// The guarantee: a client that does not take its answers, or does not finish its requests, holds a
// bounded part of the daemon's memory, for a bounded time; see connections. Not promised: fairness
// among the calls of one connection.
package grpcapi

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// Limits of a client.
const (
	maxIDs     = 1000     // ids of one FetchMulti, as in kayac/go-katsubushi
	maxMessage = 64 << 10 // bytes of a request
	maxHeaders = 8 << 10  // bytes of a call's metadata
	maxStreams = 250      // calls at once on one connection; more are reset with REFUSED_STREAM

	// maxReflecting limits the calls of reflection, over all connections: their answers are long, and
	// there may be any number in one call.
	maxReflecting = 16

	// workers is how many goroutines stay for calls: each new one has to grow its stack first, which was
	// a fifth of a Fetch's cost. Calls beyond that get new ones.
	workers = 64

	readBuffer = 8 << 10 // bytes, for each connection, idle or not; 100 calls may come in one read

	handshakeTime = 10 * time.Second // for TLS and the first frames
	// A connection on which nothing was received for pingAfter is pinged. If that is not answered
	// within pingTimeout, the connection is closed.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
	// leastPing is how often a client may ping: clients behind some proxies must, to stay connected.
	leastPing = 10 * time.Second
)

// Config says where the answers come from. The functions are called from many goroutines.
type Config struct {
	// Batch issues n ids for a key, or returns an error, whose text is shown to the client. An empty key
	// stands for the default kind of id. It may wait, but not when ctx has ended.
	Batch func(ctx context.Context, key []byte, n int) ([]id.Run, error)
	Stats func() *katsubushipb.StatsResponse
	Ready func() error // nil while ids are issued
	// Login finds the user whom credentials belong to, as an httpapi.Login does; nil = everybody may
	// have ids.
	Login    func(ctx context.Context, from netip.Addr, c users.Credentials) (*users.Account, error)
	Counters *Counters
	// Busy is called five times a second while there are more than 1,000 requests for ids a second.
	Busy func()

	// Limits are those of the engine's ports. Their connections and these count together.
	Limits server.Config
	TLS    *server.TLS // nil = plain
}

// A Server is a gRPC port.
type Server struct {
	*grpc.Server
	conns *connections
	quit  func()
}

// New makes the server; the caller gives it a listener and stops it.
func New(c Config) Server {
	conns := &connections{limits: c.Limits, counters: c.Counters, busy: c.Busy, open: make(map[*conn]struct{})}
	conns.freed = sync.NewCond(&conns.sharing)
	stopping, reflecting := make(chan struct{}), make(chan struct{}, maxReflecting)
	s := grpc.NewServer(
		grpc.Creds(conns.credentials(c.TLS)),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(handshakeTime), grpc.ReadBufferSize(readBuffer), grpc.NumStreamWorkers(workers),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: c.Limits.IdleTimeout, Time: pingAfter,
			Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
			error) {
			defer caller(ctx).begin().end()
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			handle grpc.StreamHandler) error {
			defer caller(stream.Context()).begin().end()
			if info.FullMethod != healthpb.Health_Watch_FullMethodName {
				select {
				case reflecting <- struct{}{}:
					defer func() { <-reflecting }()
				default:
					return status.Errorf(codes.ResourceExhausted, "at most %d clients at once ask what services there are",
						maxReflecting)
				}
			}
			return handle(srv, stream)
		}),
	)
	katsubushipb.RegisterGeneratorServer(s, &generator{Config: &c})
	katsubushipb.RegisterStatsServer(s, &stats{get: c.Stats})
	healthpb.RegisterHealthServer(s, &health{ready: c.Ready, stopping: stopping})
	reflection.Register(s) // v1 and v1alpha
	return Server{s, conns, sync.OnceFunc(func() { close(stopping) })}
}

// Serve serves until Shutdown, and closes the listener. Its error is any other reason to end.
func (s Server) Serve(ln net.Listener) error {
	defer s.conns.sweep()()
	if err := s.Server.Serve(listener{ln, s.conns}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Shutdown accepts nothing more, tells clients to go, and waits for the calls under way. When ctx ends
// it cuts them off.
func (s Server) Shutdown(ctx context.Context) error {
	s.quit()
	stopped := make(chan struct{})
	go func() {
		s.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		s.Stop()
		<-stopped
		return ctx.Err()
	}
}

// generator implements the service Generator.
type generator struct {
	katsubushipb.UnimplementedGeneratorServer
	*Config
}

// Fetch implements Generator.
func (g *generator) Fetch(ctx context.Context, _ *katsubushipb.FetchRequest) (*katsubushipb.FetchResponse, error) {
	if err := g.admit(ctx); err != nil {
		return nil, err
	}
	runs, err := g.issue(ctx, 1)
	if err != nil {
		return nil, err
	}
	return &katsubushipb.FetchResponse{Id: runs[0].First}, nil
}

// FetchMulti implements Generator.
func (g *generator) FetchMulti(ctx context.Context,
	req *katsubushipb.FetchMultiRequest) (*katsubushipb.FetchMultiResponse, error) {
	if err := g.admit(ctx); err != nil {
		return nil, err
	}
	n := int(max(req.GetN(), 1))
	if n > maxIDs {
		return nil, status.Errorf(codes.InvalidArgument, "n=%d: at most %d allowed", n, maxIDs)
	}
	runs, err := g.issue(ctx, n)
	if err != nil {
		return nil, err
	}
	ids := make([]uint64, 0, n)
	for _, run := range runs {
		for i := range uint64(run.N) {
			ids = append(ids, run.First+i*run.Stride)
		}
	}
	return &katsubushipb.FetchMultiResponse{Ids: ids}, nil
}

// issue gets ids and counts them.
func (g *generator) issue(ctx context.Context, n int) ([]id.Run, error) {
	g.Counters.Requests.Add(1)
	runs, err := g.Batch(ctx, nil, n)
	if err == nil {
		g.Counters.IDs.Add(uint64(n))
		return runs, nil
	}
	g.Counters.Refused.Add(uint64(n))
	return nil, unavailable(err)
}

// unavailable is the status for what cannot be done at this moment.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unavailable, visible.Text(err.Error()))
}

// defaultName is the name that a user needs the right to: that of the default kind of id.
const defaultName = "id"

// admit reports whether a call for ids may be answered. Those of a connection that was closed meanwhile may
// be many, and no client waits for them.
func (g *generator) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if g.Login == nil {
		return nil
	}
	header := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(header) != 1 {
		return errNobody
	}
	c, ok := users.ParseAuthorization(header[0])
	if !ok {
		return errNobody
	}
	g.Counters.Logins.Add(1)
	who, err := g.Login(ctx, address(ctx), c)
	switch {
	case err != nil:
		return unavailable(err)
	case who == nil:
		g.Counters.LoginErrors.Add(1)
		return errWrong
	}
	if rights := who.Rights(); rights == nil || !rights.Permit([]byte(defaultName), users.Get) {
		return status.Error(codes.PermissionDenied, id.NotPermitted(defaultName).Error())
	}
	return nil
}

// The errors of calls without a login, and with one that is wrong. Neither says whether there is such a user.
var (
	errNobody = status.Error(codes.Unauthenticated, "a user and a password, or a token, are needed")
	errWrong  = status.Error(codes.Unauthenticated, "the user, the password or the token is wrong")
)

// address returns where a call comes from, as far as it is known.
func address(ctx context.Context) (from netip.Addr) {
	if p, ok := peer.FromContext(ctx); ok {
		if at, err := netip.ParseAddrPort(p.Addr.String()); err == nil {
			from = at.Addr()
		}
	}
	return from
}

// stats implements the service Stats.
type stats struct {
	katsubushipb.UnimplementedStatsServer
	get func() *katsubushipb.StatsResponse
}

// Get implements Stats.
func (s *stats) Get(context.Context, *katsubushipb.StatsRequest) (*katsubushipb.StatsResponse, error) {
	return s.get(), nil
}
