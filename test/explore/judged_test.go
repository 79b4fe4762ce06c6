package explore

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/test/seqsim"
	"github.com/katsubushi/katsubushi/v3/test/sim"
)

// Why a mutant that a simulation keeps is found in no world.
const (
	oneRecord = "no world has a sequence without strict order in a store that loses nothing"
	waitsLong = "it makes daemons wait, or lose leases, and issues nothing twice"
	deeper    = "all schedules of a backup at the start and one more fault are not enough: some 2,320,000 points"
	oneFault  = "all schedules of one fault and one preemption are not enough (16,768 points)"
)

// unjudged are the mutants that no world finds.
var unjudged = map[string]map[string]string{
	"sim": {
		"W counts from the answer":                               deeper,
		"a lost answer is taken for a write that did not happen": waitsLong,
		"a record that moved during the watch is taken":          waitsLong,
		"a reservation has ticks": "a third fault: from a start with a backup at hand and worker id 2 freed since, " +
			"31:12.0.0.0.0.0 35:8.1.0.2.0.1 shows it",
		"any raised floor is taken for a new one":           deeper,
		"meta is not compared when a worker id is acquired": deeper,
		"meta is not compared when leases are extended":     waitsLong,
		"the first reading is not judged":                   deeper,
		"the floor does not cover the own window":           deeper,
		"the mark is lowered":                               deeper,
		"the watch is half a heartbeat": "all schedules of two faults of six kinds, the last of them a stop or a kill, are " +
			"not enough: 5,966,512 points",
		"versions survive a reconnection": deeper,
	},
	"redismodel": {
		"no request id": oneFault, "mark lowered by extend": oneFault, "a newcomer's clock is believed": oneFault,
		"operator's release writes down the present": oneFault,
		"incarnation without request id":             waitsLong, "roll-back not noticed": waitsLong,
	},
	"seqsim": {
		"ReserveAfterUse":  oneRecord,
		"ResumeBlock":      oneRecord,
		"WriteNumber":      oneRecord,
		"IgnoreToken":      oneRecord,
		"IgnoreStep":       oneRecord,
		"NeverRing":        oneRecord,
		"AppendLate":       oneRecord,
		"RaiseLowers":      oneRecord,
		"ReturnBelowFloor": oneRecord,
	},
}

// Every mutant that a simulation keeps is found in a named world, or listed with what it would need.
func TestEveryMutantIsJudged(t *testing.T) {
	kept := map[string][]string{}
	for _, m := range sim.PoolMutants() {
		kept["sim"] = append(kept["sim"], string(m))
	}
	for _, m := range redismodel.Mutants() {
		kept["redismodel"] = append(kept["redismodel"], m.String())
	}
	for m := seqsim.None + 1; m < seqsim.NumMutants; m++ {
		kept["seqsim"] = append(kept["seqsim"], m.String())
	}
	worlds := map[string]string{"sim": "leases", "redismodel": "redis"}
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
			listed, is := unjudged[simulation][name] != "", found[[2]string{simulation, name}]
			if listed == is {
				t.Errorf("%s, %q: found in a world %v, listed as not %v", simulation, name, is, listed)
			}
		}
		if len(names) < 8 {
			t.Errorf("%s has only %d mutants", simulation, len(names))
		}
	}
}
