// Command gomemcache gets ids with github.com/bradfitz/gomemcache, over TLS if it is told whom to trust.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	if len(os.Args) > 3 {
		pem, err := os.ReadFile(os.Args[3])
		if err != nil {
			log.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		client.DialContext = (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext
	}
	get := func() {
		item, err := client.Get("id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("gets %s %d\n", item.Value, item.CasID)
	}
	for range 5 {
		get()
	}
	items, err := client.GetMulti([]string{"a", "b", "c"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	if err := client.Ping(); err != nil { // sends version, and keeps the answer to itself
		log.Fatal(err)
	}
	get()
}
