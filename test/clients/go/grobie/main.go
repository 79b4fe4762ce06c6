// Command grobie reads statistics with github.com/grobie/gomemcache, the client inside the
// Prometheus memcached exporter.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/grobie/gomemcache/memcache"
)

func main() {
	client, err := memcache.New(os.Args[1] + ":" + os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for range 5 {
		item, err := client.Get("id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("get %s\n", item.Value)
	}
	answers, err := client.Stats() // stats, stats slabs and stats items
	if err != nil {
		log.Fatal(err)
	}
	for _, stats := range answers {
		fmt.Println("version", stats.Stats["version"])
		for name, value := range stats.Stats {
			fmt.Println("stat", name, value)
		}
	}
	settings, err := client.StatsSettings()
	if err != nil {
		log.Fatal(err)
	}
	for _, values := range settings {
		fmt.Println("group settings", len(values))
		fmt.Println("stat maxconns", values["maxconns"])
	}
}
