// Command gomemcached gets ids with github.com/couchbase/gomemcached, which speaks the binary
// protocol.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/couchbase/gomemcached"
	memcached "github.com/couchbase/gomemcached/client"
)

func main() {
	client, err := memcached.Connect("tcp", os.Args[1]+":"+os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	get := func() {
		answer, err := client.Get(0, "id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("gets %s %d\n", answer.Body, answer.Cas)
	}
	for range 5 {
		get()
	}
	answers := make(map[string]*gomemcached.MCResponse)
	if err := client.GetBulk(0, []string{"a", "b", "c"}, answers, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("multi %s %s %s\n", answers["a"].Body, answers["b"].Body, answers["c"].Body)
	stats, err := client.StatsMap("")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", stats["version"])
	for name, value := range stats {
		fmt.Println("stat", name, value)
	}
	get()
}
