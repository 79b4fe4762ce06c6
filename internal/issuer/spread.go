package issuer

import (
	"math/bits"
	"unsafe"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A spread is a source of many goroutines: each begins with a lane that it shares with few others, so that processors
// seldom wait for each other's cache lines.
type spread []*source

// Spread returns a source for any number of goroutines, which are spread over the lanes as event loops are.
func (is *Issuer) Spread() id.Source {
	if len(is.lanes) == 1 {
		return is.Source(0)
	}
	s := make(spread, len(is.lanes))
	for i := range s {
		s[i] = is.source(i)
	}
	return s
}

// Mint implements id.Source.
func (s spread) Mint(when id.When, n int, bulk bool) (id.Run, error) {
	return s[s.lane()].Mint(when, n, bulk)
}

// lane returns where this goroutine begins. Its stack tells it from others, and stays where it is, as a rule. The
// smallest stacks have 2 kB.
func (s spread) lane() int {
	var here byte
	const golden = 0x9e3779b97f4a7c15 // Fibonacci hashing: neighbours get lanes that are far apart
	i, _ := bits.Mul64(uint64(uintptr(unsafe.Pointer(&here)))>>11*golden, uint64(len(s)))
	return int(i)
}
