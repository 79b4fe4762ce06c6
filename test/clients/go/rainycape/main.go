// Command rainycape gets ids with github.com/rainycape/memcache.
package main

import (
	"fmt"
	"os"

	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
	"github.com/rainycape/memcache"
)

func main() {
	client := must.Of(memcache.New(os.Args[1] + ":" + os.Args[2]))
	defer client.Close()
	get := func() {
		item := must.Of(client.Get("id"))
		fmt.Printf("get %s\n", item.Value)
	}
	for range 5 {
		get()
	}
	items := must.Of(client.GetMulti([]string{"a", "b", "c"}))
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	get()
}
