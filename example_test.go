package katsubushi_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

func Example() {
	dir, err := os.MkdirTemp("", "ids") // a directory that lasts, in a program
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	ids, err := katsubushi.Open(ctx, katsubushi.Config{Store: static.Dir(dir, 977)})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	first, err := ids.ID(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := ids.ID(ctx)
	fmt.Println(first < second, err)
	// Output: true <nil>
}
