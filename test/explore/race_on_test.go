//go:build race

package explore

// underRace: the simulation has one goroutine, so the race detector finds nothing in it and makes
// it ten times as slow.
const underRace = true
