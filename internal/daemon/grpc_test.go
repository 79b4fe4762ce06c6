package daemon

import (
	"context"
	"encoding/base64"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// The daemon's ids, statistics and readiness over gRPC, with its certificate and its users. What is counted of calls
// and logins, internal/services tests.
func TestGRPC(t *testing.T) {
	cert, key, pool := selfsigned.Files(t)
	d, _ := run(t, func(c *Config) {
		c.GRPCPort, c.TLSCert, c.TLSKey = redistest.FreePort(t), cert, key
		c.AuthFile = tempfile.Write(t, "auth", "ann:secret\n")
	})
	conn, err := grpc.NewClient(net.JoinHostPort("127.0.0.1", strconv.Itoa(d.c.GRPCPort)),
		grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(pool, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	login := metadata.AppendToOutgoingContext(ctx, "authorization",
		"Basic "+base64.StdEncoding.EncodeToString([]byte("ann:secret")))
	ids := katsubushipb.NewGeneratorClient(conn)
	one, err := ids.Fetch(login, nil)
	if err != nil {
		t.Fatal(err)
	}
	many, err := ids.FetchMulti(login, &katsubushipb.FetchMultiRequest{N: 1000})
	if err != nil || len(many.Ids) != 1000 || many.Ids[0] <= one.Id {
		t.Errorf("after %d: %d ids, %v", one.Id, len(many.GetIds()), err)
	}
	if _, err := ids.Fetch(ctx, nil); status.Code(err) != codes.Unauthenticated {
		t.Error("without a login:", err)
	}
	s, err := katsubushipb.NewStatsClient(conn).Get(ctx, nil)
	if err != nil || s.Version != "3.4.5" || s.Pid != int32(os.Getpid()) || s.CurrConnections < 1 || s.CmdGet != 1001 ||
		s.GetHits != 1001 || s.GetMisses != 0 ||
		s.TotalConnections < 1 || time.Since(time.Unix(s.Time, 0)).Abs() > patience {
		t.Error(s, err)
	}
	health := healthpb.NewHealthClient(conn)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		if r, err := health.Check(ctx, nil); err != nil || r.Status != want {
			t.Error(r, err)
		}
		d.observer.Leave() // as at the start of the shutdown delay
	}
	if _, err := ids.Fetch(login, nil); err != nil {
		t.Error("not ready, but not stopped either:", err)
	}
}
