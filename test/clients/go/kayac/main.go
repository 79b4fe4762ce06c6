// Command kayac gets ids over gRPC with the client that comes with github.com/kayac/go-katsubushi.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
	katsubushi "github.com/kayac/go-katsubushi/v2/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	conn := must.Of(grpc.Dial(os.Args[1]+":"+os.Args[2], grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	ids, ctx := katsubushi.NewGeneratorClient(conn), context.Background()
	fetch := func() {
		one := must.Of(ids.Fetch(ctx, &katsubushi.FetchRequest{}))
		fmt.Println("get", one.Id)
	}
	for range 5 {
		fetch()
	}
	many := must.Of(ids.FetchMulti(ctx, &katsubushi.FetchMultiRequest{N: 1000}))
	if len(many.Ids) != 1000 {
		log.Fatalf("%d ids instead of 1000", len(many.Ids))
	}
	fmt.Println("multi", strings.Trim(fmt.Sprint(many.Ids), "[]"))
	fetch()
	s := must.Of(katsubushi.NewStatsClient(conn).Get(ctx, &katsubushi.StatsRequest{}))
	fmt.Println("version", s.Version)
	for name, value := range map[string]int64{
		"pid": int64(s.Pid), "uptime": s.Uptime, "time": s.Time, "curr_connections": s.CurrConnections,
		"total_connections": s.TotalConnections,
		"cmd_get":           s.CmdGet, "get_hits": s.GetHits, "get_misses": s.GetMisses,
	} {
		fmt.Println("stat", name, value)
	}
}
