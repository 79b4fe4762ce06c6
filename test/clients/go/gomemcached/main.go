// Command gomemcached gets ids with github.com/couchbase/gomemcached, which speaks the binary
// protocol.
package main

import (
	"fmt"
	"os"

	"github.com/couchbase/gomemcached"
	memcached "github.com/couchbase/gomemcached/client"
	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
)

func main() {
	client := must.Of(memcached.Connect("tcp", os.Args[1]+":"+os.Args[2]))
	defer client.Close()
	get := func() {
		answer := must.Of(client.Get(0, "id"))
		fmt.Printf("gets %s %d\n", answer.Body, answer.Cas)
	}
	for range 5 {
		get()
	}
	answers := make(map[string]*gomemcached.MCResponse)
	must.Do(client.GetBulk(0, []string{"a", "b", "c"}, answers, nil))
	fmt.Printf("multi %s %s %s\n", answers["a"].Body, answers["b"].Body, answers["c"].Body)
	stats := must.Of(client.StatsMap(""))
	fmt.Println("version", stats["version"])
	for name, value := range stats {
		fmt.Println("stat", name, value)
	}
	get()
}
