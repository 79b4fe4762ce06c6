package redis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// A program outside of this module says which of its own settings are wrong.
func ExampleConfig_Validate() {
	c := redis.Config{URL: "redis://localhost", Terms: workerid.Terms{Layout: "mine", Min: 7, Max: 1}}
	for _, e := range workerid.SettingErrors(c.Validate()) {
		fmt.Println(e.Field, "is wrong:", e.Err)
	}
	// Output:
	// Max is wrong: 1: not below the smallest, 7
}

// A program makes ids beside daemons, with a worker id from the pool that `katsubushi lease init` has made in the Redis
// of these Sentinels.
func ExampleLeased() {
	ids, err := katsubushi.Open(context.Background(), katsubushi.Config{
		Store: redis.Leased("redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/main"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
}
