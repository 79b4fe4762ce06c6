//go:build race

package strictsim

// underRace: nearly all of the simulation is one goroutine, and the race detector makes it ten times as
// slow.
const underRace = true
