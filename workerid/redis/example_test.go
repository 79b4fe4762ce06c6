package redis_test

import (
	"fmt"

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
