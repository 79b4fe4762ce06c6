// Command rainycape gets ids with github.com/rainycape/memcache.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/rainycape/memcache"
)

func main() {
	client, err := memcache.New(os.Args[1] + ":" + os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
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
	items, err := client.GetMulti([]string{"a", "b", "c"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	get()
}
