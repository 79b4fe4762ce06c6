package sim

import "github.com/katsubushi/katsubushi/v3/workerid/pool"

// poolMutants replace one rule each.
var poolMutants = map[Mutant]func(*poolClient, pool.Rules){}
