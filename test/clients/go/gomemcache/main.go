// Command gomemcache gets ids with github.com/bradfitz/gomemcache, over TLS if it is told whom to trust.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/katsubushi/katsubushi/v3/test/clients/go/must"
)

func main() {
	client := memcache.New(os.Args[1] + ":" + os.Args[2])
	if len(os.Args) > 3 {
		pem := must.Of(os.ReadFile(os.Args[3]))
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		client.DialContext = (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext
	}
	get := func() {
		item := must.Of(client.Get("id"))
		fmt.Printf("gets %s %d\n", item.Value, item.CasID)
	}
	for range 5 {
		get()
	}
	items := must.Of(client.GetMulti([]string{"a", "b", "c"}))
	fmt.Printf("multi %s %s %s\n", items["a"].Value, items["b"].Value, items["c"].Value)
	must.Do(client.Ping()) // sends version, and keeps the answer to itself
	get()
}
