// Command goredis gets ids with github.com/redis/go-redis: with a plain client, or one for a cluster.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	address := os.Args[1] + ":" + os.Args[2]
	var client redis.UniversalClient
	switch os.Args[3] {
	case "cluster":
		client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{address}})
	case "auth":
		client = redis.NewClient(&redis.Options{Addr: address, Username: os.Args[4], Password: os.Args[5]})
	default:
		client = redis.NewClient(&redis.Options{Addr: address})
	}
	defer client.Close()
	for range 5 {
		fmt.Println("get", must.Of(client.Get(ctx, "id").Result()))
	}
	if os.Args[3] == "cluster" {
		fmt.Println(append([]any{"multi"}, must.Of(client.MGet(ctx, "{x}a", "{x}b", "{x}c").Result())...)...)
	} else {
		fmt.Println(append([]any{"multi"}, must.Of(client.MGet(ctx, "a", "b", "c").Result())...)...)
	}
	if os.Args[3] == "auth" {
		return
	}
	fmt.Println("incr", must.Of(client.Incr(ctx, "orders").Result()))
	fmt.Println("incrby", must.Of(client.IncrBy(ctx, "orders", 10).Result()), 10)
	var get *redis.StringCmd
	var incr *redis.IntCmd
	must.Of(client.Pipelined(ctx, func(p redis.Pipeliner) error {
		get, incr = p.Get(ctx, "orders{x}"), p.Incr(ctx, "orders")
		return nil
	}))
	fmt.Println("get", get.Val())
	fmt.Println("incr", incr.Val())
	must.Of(client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		get, incr = p.Get(ctx, "{orders}"), p.Incr(ctx, "orders")
		return nil
	}))
	fmt.Println("exec", get.Val(), incr.Val())
}
