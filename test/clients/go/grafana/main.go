// Command grafana gets ids with github.com/grafana/gomemcache.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/grafana/gomemcache/memcache"
)

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	get := func() {
		item, err := client.Get("id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("get %s\n", item.Value)
	}
	for range 5 {
		get()
	}
	items, err := client.GetMulti(context.Background(), []string{"a", "b", "c"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	if err := client.Ping(); err != nil { // sends version, and keeps the answer to itself
		log.Fatal(err)
	}
	get()
}
