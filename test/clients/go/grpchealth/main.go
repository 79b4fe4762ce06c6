// Command grpchealth asks with grpc-go's client whether the services are up.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	conn, err := grpc.Dial(os.Args[1]+":"+os.Args[2], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	health := healthpb.NewHealthClient(conn)
	for _, name := range []string{"", "katsubushi.Generator", "katsubushi.Stats"} {
		ctx, cancel := context.WithCancel(context.Background())
		now, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("health", "Check/"+name, now.Status)
		watch, err := health.Watch(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			log.Fatal(err)
		}
		if now, err = watch.Recv(); err != nil {
			log.Fatal(err)
		}
		fmt.Println("health", "Watch/"+name, now.Status)
		cancel()
	}
}
