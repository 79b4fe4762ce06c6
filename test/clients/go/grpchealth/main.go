// Command grpchealth asks with grpc-go's client whether the services are up.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	conn := must.Of(grpc.Dial(os.Args[1]+":"+os.Args[2], grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	health := healthpb.NewHealthClient(conn)
	for _, name := range []string{"", "katsubushi.Generator", "katsubushi.Stats"} {
		ctx, cancel := context.WithCancel(context.Background())
		now := must.Of(health.Check(ctx, &healthpb.HealthCheckRequest{Service: name}))
		fmt.Println("health", "Check/"+name, now.Status)
		watch := must.Of(health.Watch(ctx, &healthpb.HealthCheckRequest{Service: name}))
		now = must.Of(watch.Recv())
		fmt.Println("health", "Watch/"+name, now.Status)
		cancel()
	}
}
