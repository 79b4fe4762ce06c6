//go:build !race

package strictsim

const underRace = false
