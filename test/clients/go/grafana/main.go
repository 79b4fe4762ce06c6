// Command grafana gets ids with github.com/grafana/gomemcache.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/grafana/gomemcache/memcache"
	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
)

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	get := func() {
		item := must.Of(client.Get("id"))
		fmt.Printf("get %s\n", item.Value)
	}
	for range 5 {
		get()
	}
	items := must.Of(client.GetMulti(context.Background(), []string{"a", "b", "c"}))
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	must.Do(client.Ping()) // sends version, and keeps the answer to itself
	get()
}
