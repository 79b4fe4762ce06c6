package sim

import (
	"fmt"
	"testing"
)

const poolSeeds = 15

func TestPool(t *testing.T) {
	for _, store := range []Store{PoolOutages, PoolRestores, PoolClones, PoolClocks} {
		for _, weather := range []Weather{Storm, Bridged} {
			if weather == Bridged && store != PoolOutages {
				continue
			}
			t.Run(fmt.Sprint(store, " in ", weather), func(t *testing.T) {
				runAll(t, Config{Minutes: minutes, Store: store, Weather: weather}, 1, poolSeeds)
			})
		}
	}
}
