package static_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// Each pod of a StatefulSet has an ordinal and a volume of its own, so it needs no store.
func ExampleDir() {
	hostname := "shop-938" // from os.Hostname
	_, ordinal, _ := strings.Cut(hostname, "-")
	worker, err := strconv.ParseUint(ordinal, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	volume, err := os.MkdirTemp("", "shop") // a directory that lasts, in a pod
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(volume)
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{Store: static.Dir(volume, worker)})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	fmt.Println("worker ids", ids.Status().Workers())
	// Output: worker ids [938]
}
