// Command gomemcachetls gets ids with github.com/bradfitz/gomemcache over TLS.
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
	pem, err := os.ReadFile(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	client.DialContext = (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext
	for range 5 {
		item, err := client.Get("id")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("get %s\n", item.Value)
	}
	items, err := client.GetMulti([]string{"a", "b", "c"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
}
