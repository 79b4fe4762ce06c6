package grpcapi

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
)

// health implements grpc.health.v1. grpc-go's own must be notified of each change; this one asks the
// daemon, so that it always says what /readyz says. It also ends its watches when the daemon stops, which would
// otherwise last until the drain's end.
type health struct {
	healthpb.UnimplementedHealthServer
	ready    func() error
	stopping <-chan struct{}
}

// lookPause is how often a watch looks for a change.
const lookPause = 250 * time.Millisecond

// services are the names that may be asked for; "" is the daemon as a whole.
var services = []string{"", katsubushipb.Generator_ServiceDesc.ServiceName, katsubushipb.Stats_ServiceDesc.ServiceName}

func (h *health) status(service string) healthpb.HealthCheckResponse_ServingStatus {
	for _, known := range services {
		switch {
		case known != service:
		case h.ready() == nil:
			return healthpb.HealthCheckResponse_SERVING
		default:
			return healthpb.HealthCheckResponse_NOT_SERVING
		}
	}
	return healthpb.HealthCheckResponse_SERVICE_UNKNOWN
}

// Check implements Health.
func (h *health) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	is := h.status(req.GetService())
	if is == healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &healthpb.HealthCheckResponse{Status: is}, nil
}

// List implements Health.
func (h *health) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	list := make(map[string]*healthpb.HealthCheckResponse)
	for _, service := range services {
		list[service] = &healthpb.HealthCheckResponse{Status: h.status(service)}
	}
	return &healthpb.HealthListResponse{Statuses: list}, nil
}

// Watch implements Health.
func (h *health) Watch(req *healthpb.HealthCheckRequest,
	stream grpc.ServerStreamingServer[healthpb.HealthCheckResponse]) error {
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for told := healthpb.HealthCheckResponse_UNKNOWN; ; {
		if is := h.status(req.GetService()); is != told {
			if err := stream.Send(&healthpb.HealthCheckResponse{Status: is}); err != nil {
				return err
			}
			told = is
		}
		select {
		case <-look.C:
		case <-h.stopping:
			return status.Error(codes.Unavailable, "the daemon is stopping")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}
