//go:build race

package sim

// underRace: the simulation has one goroutine, so the race detector finds nothing in it and makes
// it ten times as slow.
const underRace = true
