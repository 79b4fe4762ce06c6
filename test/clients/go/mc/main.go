// Command mc gets ids with github.com/memcachier/mc, which speaks the binary protocol.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
	"github.com/memcachier/mc/v3"
)

func main() {
	var username, password string
	if len(os.Args) > 4 {
		username, password = os.Args[3], os.Args[4]
	}
	server := os.Args[1] + ":" + os.Args[2]
	client := mc.NewMC(server, username, password)
	defer client.Quit()
	get := func() {
		value, _, cas, err := client.Get("id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("gets", value, cas)
	}
	for range 5 {
		get()
	}
	versions := must.Of(client.Version())
	fmt.Println("version", versions[server])
	stats := must.Of(client.Stats())
	for name, value := range stats[server] {
		fmt.Println("stat", name, value)
	}
	settings := must.Of(client.StatsWithKey("settings"))
	fmt.Println("group settings", len(settings[server]))
	get()
}
