package explore

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/seqsim"
	"github.com/katsubushi/katsubushi/v3/test/sim"
)

//go:embed testdata/unjudged.txt
var unfound string

// Every mutant that a simulation keeps is found in a named world, or listed with what it would need.
func TestEveryMutantIsJudged(t *testing.T) {
	type mutant struct{ name, kept, because string }
	unjudged := map[[2]string]bool{}
	for _, m := range read(unfound, func(m *mutant) map[string]any {
		return map[string]any{"name": &m.name, "kept": &m.kept, "because": &m.because}
	}) {
		unjudged[[2]string{m.kept, m.name}] = m.because != ""
	}
	kept := map[string][]string{}
	for _, m := range sim.PoolMutants() {
		kept["sim"] = append(kept["sim"], string(m))
	}
	for m := seqsim.None + 1; m < seqsim.NumMutants; m++ {
		kept["seqsim"] = append(kept["seqsim"], m.String())
	}
	worlds := map[string]string{"sim": "leases"}
	found := map[[2]string]bool{}
	for _, m := range mutants {
		for simulation, names := range worlds {
			for name := range strings.FieldsSeq(names) {
				if strings.HasPrefix(m.world, name) {
					found[[2]string{simulation, m.name}] = true
				}
			}
		}
	}
	for simulation, names := range kept {
		for _, name := range names {
			listed, is := unjudged[[2]string{simulation, name}], found[[2]string{simulation, name}]
			if listed == is {
				t.Errorf("%s, %q: found in a world %v, listed as not %v", simulation, name, is, listed)
			}
		}
		if len(names) < 8 {
			t.Errorf("%s has only %d mutants", simulation, len(names))
		}
	}
}
