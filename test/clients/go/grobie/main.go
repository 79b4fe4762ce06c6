// Command grobie reads statistics with github.com/grobie/gomemcache, the client inside the
// Prometheus memcached exporter.
package main

import (
	"fmt"
	"os"

	"github.com/grobie/gomemcache/memcache"
	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
)

func main() {
	client := must.Of(memcache.New(os.Args[1] + ":" + os.Args[2]))
	for range 5 {
		item := must.Of(client.Get("id"))
		fmt.Printf("get %s\n", item.Value)
	}
	answers := must.Of(client.Stats()) // stats, stats slabs and stats items
	for _, stats := range answers {
		fmt.Println("version", stats.Stats["version"])
		for name, value := range stats.Stats {
			fmt.Println("stat", name, value)
		}
	}
	settings := must.Of(client.StatsSettings())
	for _, values := range settings {
		fmt.Println("group settings", len(values))
		fmt.Println("stat maxconns", values["maxconns"])
	}
}
