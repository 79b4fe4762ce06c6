package storefaults

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A fault is one that may happen to the stores of each kind.
type fault struct {
	name    string // in FAULTS.md, up to a comma
	servers place
	lease   time.Duration
	ids     uint64
	happen  func(*World)
}

// A place is what servers a fault happens to.
type place int

const (
	shared    place = iota // one, which other tests may use as well
	calm                   // such a one, to which nothing happens
	own                    // one that this test alone uses
	three                  // only with KATSUBUSHI_SOAK
	threeEver              // always
	ownThree               // with data that this test may replace; a kind that cannot do that has one
)

func faults() []fault {
	crowd := uint64(20)
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		crowd = 200
	}
	all := []fault{
		{"a server stops", three, Long, 3, (*World).ServerStops},
		{"a server is killed", three, Long, 3, (*World).ServerKilled},
		{"the leader stops", three, Long, 3, (*World).LeaderStops},
		{"the leader is killed", threeEver, Long, 3, (*World).LeaderKilled},
		{"a majority stops", three, Short, 3, (*World).MajorityStops},
		{"a majority is killed", three, Short, 3, (*World).MajorityKilled},
		{"all servers restart", three, Long, 3, (*World).AllRestart},
		{"a lease ends without a successor", shared, Short, 3, (*World).ExpiryWhileStopped},
		{"a lease ends with a successor", shared, Short, 1, (*World).ExpiryWithSuccessor},
		{"requests are held", shared, Long, 2, (*World).PartitionOfRequests},
		{"answers are held", shared, Long, 2, (*World).PartitionOfAnswers},
		{"an answer is lost", shared, Long, 1, (*World).AnswerLost},
		{"an acquisition is lost", shared, Long, 3, (*World).AcquisitionLost},
		{"five daemons for three worker ids", shared, Short, 3, (*World).FiveForThree},
		{"two lanes of a daemon", calm, Long, 3, (*World).TwoLanes},
		{"a clone of a process", shared, Long, 1, (*World).Clone},
		{"a mass start", shared, Medium, crowd, (*World).MassStart},
		{"a restore with holders alive", ownThree, Short, 3, (*World).RestoreWithHolders},
		{"a restore with a newcomer first", own, Short, 4, (*World).RestoreWithNewcomer},
		{"a restore with all holders stopped", own, Short, 4, (*World).RestoreWithAllStopped},
		{"all data is wiped", own, Short, 2, (*World).Wiped},
	}
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour} {
		all = append(all,
			fault{fmt.Sprint("a wrong clock at the start, ", ahead), shared, Long, 6,
				func(w *World) { w.ClockAtStart(ahead) }},
			fault{fmt.Sprint("a wrong clock while running, ", ahead), shared, Long, 3,
				func(w *World) { w.ClockWhileRunning(ahead) }})
	}
	return all
}

// Faults lets everything happen to a kind of store that may happen to each.
func Faults(t *testing.T, k Kind) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			if f.servers == three {
				Quorum(t)
			}
			t.Parallel()
			k, n := k, 1
			if f.servers >= three {
				n = 3
			}
			if f.servers == calm {
				k.Timeout = Calm
			}
			f.happen(New(t, k, k.Servers(t, n, f.servers == own || f.servers == ownThree), f.lease, f.ids))
		})
	}
}
