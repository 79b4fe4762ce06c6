package etcd_test

import (
	"context"
	"log"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/etcd"
)

// A program makes ids beside daemons, with a worker id from the pool that `katsubushi lease init` has made.
func ExampleLeased() {
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{
		Store: etcd.Leased("etcd://10.0.0.1,10.0.0.2,10.0.0.3"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
}
