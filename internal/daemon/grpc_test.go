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
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// The daemon's ids, statistics and readiness over gRPC, with its certificate and its users; calls and
// connections count with those of the other ports.
func TestGRPC(t *testing.T) {
	cert, key, pool := selfsigned.Files(t)
	d, _ := run(t, func(c *Config) {
		c.GRPCPort, c.TLSCert, c.TLSKey = redistest.FreePort(t), cert, key
		c.AuthFile = tempfile.Write(t, "auth", "ann:secret\n")
	})
	dial := func(creds credentials.TransportCredentials) *grpc.ClientConn {
		conn, err := grpc.NewClient(net.JoinHostPort("127.0.0.1", strconv.Itoa(d.c.GRPCPort)),
			grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	as := func(user string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization",
			"Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
	}
	conn := dial(credentials.NewClientTLSFromCert(pool, ""))
	ids := katsubushipb.NewGeneratorClient(conn)
	one, err := ids.Fetch(as("ann:secret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	many, err := ids.FetchMulti(as("ann:secret"), &katsubushipb.FetchMultiRequest{N: 1000})
	if err != nil || len(many.Ids) != 1000 || many.Ids[0] <= one.Id {
		t.Errorf("after %d: %d ids, %v", one.Id, len(many.GetIds()), err)
	}
	for _, who := range []string{"ann:wrong", "eve:secret"} {
		if _, err := ids.Fetch(as(who), nil); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", who, err)
		}
	}
	if _, err := katsubushipb.NewGeneratorClient(dial(insecure.NewCredentials())).
		Fetch(as("ann:secret"), nil); status.Code(err) != codes.Unavailable {
		t.Error("plain text:", err)
	}
	s, err := katsubushipb.NewStatsClient(conn).Get(ctx, nil)
	if err != nil || s.Version != "3.4.5" || s.Pid != int32(os.Getpid()) || s.CurrConnections < 1 || s.CmdGet != 1001 ||
		s.GetHits != 1001 || s.GetMisses != 0 ||
		s.TotalConnections < 1 || time.Since(time.Unix(s.Time, 0)).Abs() > patience {
		t.Error(s, err)
	}
	if n := &d.services.Called; n.Requests.Load() != 2 || n.IDs.Load() != 1001 || n.Logins.Load() != 4 ||
		n.LoginErrors.Load() != 2 {
		t.Errorf("%d requests, %d ids, %d logins, %d wrong ones", n.Requests.Load(), n.IDs.Load(), n.Logins.Load(),
			n.LoginErrors.Load())
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
	if _, err := ids.Fetch(as("ann:secret"), nil); err != nil {
		t.Error("not ready, but not stopped either:", err)
	}
}
