package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// thinkers are the modes with one connection that does not poll. Each cycles through its times.
func thinkers() (list []mode) {
	lone := func(name, title string, think ...time.Duration) {
		list = append(list, mode{name: name, title: "get, 1 connection that sleeps, " + title, conns: 1, think: think})
	}
	lone("blocking", "and asks at once", 0)
	for _, us := range []int{5, 10, 20, 45, 70, 120, 500} {
		lone(fmt.Sprintf("think%d", us), fmt.Sprintf("and thinks for %d us", us), time.Duration(us)*time.Microsecond)
	}
	// The same times in each run: 5 to 500 us, each order of magnitude as often.
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]time.Duration, 509)
	for i := range random {
		random[i] = time.Duration(5_000 * math.Pow(100, rnd.Float64()))
	}
	lone("think-random", "and thinks for 5 to 500 us", random...)
	lone("think-alternating", "and thinks for 5 and 500 us in turns", 5*time.Microsecond, 500*time.Microsecond)
	bursts := make([]time.Duration, 64)
	bursts[0] = 2 * time.Millisecond
	lone("think-bursts", "64 times at once, and then thinks for 2 ms", bursts...)
	return list
}
