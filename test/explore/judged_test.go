package explore

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/sim"
)

//go:embed testdata/unjudged.txt
var unfound string

// Every mutant that package sim keeps is found in a world of leases, or listed with what it would need.
func TestEveryMutantIsJudged(t *testing.T) {
	type mutated struct{ name, because string }
	unjudged := read(unfound, func(m *mutated) map[string]any {
		return map[string]any{"name": &m.name, "because": &m.because}
	})
	for _, m := range sim.PoolMutants() {
		listed := slices.ContainsFunc(unjudged, func(x mutated) bool { return x.name == string(m) && x.because != "" })
		found := slices.ContainsFunc(mutants, func(x mutant) bool {
			return x.name == string(m) && strings.HasPrefix(x.world, "leases")
		})
		if listed == found {
			t.Errorf("%q: found in a world %v, listed as not %v", m, found, listed)
		}
	}
}
