package zookeeper_test

import (
	"context"
	"log"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/zookeeper"
)

// A program makes ids beside daemons, with a worker id from the pool that `katsubushi lease init` has made.
func ExampleLeased() {
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{
		Store: zookeeper.Leased("zookeeper://10.0.0.1,10.0.0.2,10.0.0.3"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
}
