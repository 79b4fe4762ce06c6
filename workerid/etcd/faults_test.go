package etcd

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// TestMain runs more tests beside each other than there are processors: they wait for servers most of
// the time.
func TestMain(m *testing.M) {
	storefaults.Main(openStore, func() {
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
			flag.Set(f.Name, "8")
		}
		os.Exit(m.Run())
	})
}

func openStore(s cas.Settings) (workerid.Backend, error) { return Config{Settings: s}.Open() }

// members are those that a test may break.
type members struct {
	t   testing.TB
	all []*etcdtest.Member
}

func (s members) Hosts() (addrs []string) {
	for _, m := range s.all {
		addrs = append(addrs, m.Addr())
	}
	return addrs
}

func (s members) Pause(i int)  { s.all[i].Pause() }
func (s members) Resume(i int) { s.all[i].Resume() }
func (s members) Kill(i int)   { s.all[i].Kill() }
func (s members) Launch(i int) { s.all[i].LaunchOnly() }

func (s members) Ready() {
	for _, m := range s.all {
		if m.Running() {
			m.Ready()
		}
	}
}

func (s members) Leader() int {
	leader := etcdtest.Leader(s.all)
	for i, m := range s.all {
		if m == leader {
			return i
		}
	}
	panic("the leader is none of them")
}

func (s members) Save() (file string) {
	file = filepath.Join(s.t.TempDir(), "snapshot")
	s.all[0].Snapshot(file)
	return file
}

func (s members) Restore(file string) { etcdtest.Replace(s.all, file) }

func kind(timeout time.Duration) storefaults.Kind {
	ns := fmt.Sprintf("faults%d", pools.Add(1))
	return storefaults.Kind{
		URL:  func(hosts []string, t testing.TB) string { return "etcd://" + strings.Join(hosts, ",") + "?ns=" + ns },
		Open: func(s cas.Settings) (workerid.Backend, error) { return Config{Settings: s, Timeout: timeout}.Open() },
		Driver: func(s cas.Settings) (cas.Driver, error) {
			made, err := stores.Config(s, 0, lasting)
			return made.Driver, err
		},
		Admin: func(s cas.Settings) (workerid.Admin, error) { return Config{Settings: s}.OpenAdmin() },
	}
}

// calm is a pool on one etcd that nothing happens to.
func calm(t *testing.T, ids uint64) *storefaults.World {
	t.Parallel()
	return storefaults.New(t, kind(storefaults.Calm), members{t, etcdtest.Cluster(t, 1)}, long, ids)
}

// world is a pool on an etcd of n members.
func world(t *testing.T, n int, lease time.Duration, ids uint64) *storefaults.World {
	if n > 1 {
		storefaults.Quorum(t, "TestTheLeaderIsKilled", "TestRestoreWithHoldersAlive")
	}
	t.Parallel()
	return storefaults.New(t, kind(0), members{t, etcdtest.Cluster(t, n)}, lease, ids)
}

const (
	long  = storefaults.Long
	short = storefaults.Short
)

func TestAMemberStops(t *testing.T)      { world(t, 3, long, 3).ServerStops() }
func TestAMemberIsKilled(t *testing.T)   { world(t, 3, long, 3).ServerKilled() }
func TestTheLeaderStops(t *testing.T)    { world(t, 3, long, 3).LeaderStops() }
func TestTheLeaderIsKilled(t *testing.T) { world(t, 3, long, 3).LeaderKilled() }
func TestAMajorityStops(t *testing.T)    { world(t, 3, short, 3).MajorityStops() }
func TestAMajorityIsKilled(t *testing.T) { world(t, 3, short, 3).MajorityKilled() }
func TestAllMembersRestart(t *testing.T) { world(t, 3, long, 3).AllRestart() }

func TestExpiryWithoutASuccessor(t *testing.T) { world(t, 1, short, 3).ExpiryWhileStopped() }
func TestExpiryWithASuccessor(t *testing.T)    { world(t, 1, short, 1).ExpiryWithSuccessor() }
func TestRequestsAreHeld(t *testing.T)         { world(t, 1, long, 2).PartitionOfRequests() }
func TestAnswersAreHeld(t *testing.T)          { world(t, 1, long, 2).PartitionOfAnswers() }
func TestAnAnswerIsLost(t *testing.T)          { world(t, 1, long, 1).AnswerLost() }
func TestAnAcquisitionIsLost(t *testing.T)     { world(t, 1, long, 3).AcquisitionLost() }
func TestPoolOf3With5Daemons(t *testing.T)     { world(t, 1, short, 3).FiveForThree() }
func TestTwoLanesOfADaemon(t *testing.T)       { calm(t, 3).TwoLanes() }
func TestCloneOfAProcess(t *testing.T)         { world(t, 1, long, 1).Clone() }

func TestMassStart(t *testing.T) {
	n := uint64(20)
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		n = 200
	}
	world(t, 1, storefaults.Medium, n).MassStart()
}

func TestRestoreWithHoldersAlive(t *testing.T)      { world(t, 3, short, 3).RestoreWithHolders() }
func TestRestoreWithANewcomerFirst(t *testing.T)    { world(t, 1, short, 4).RestoreWithNewcomer() }
func TestRestoreWithAllHoldersStopped(t *testing.T) { world(t, 1, short, 4).RestoreWithAllStopped() }
func TestAllDataIsWiped(t *testing.T)               { world(t, 1, short, 2).Wiped() }

const year = 365 * 24 * time.Hour

func TestWrongClockAtStart(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, year} {
		t.Run(ahead.String(), func(t *testing.T) { world(t, 1, long, 6).ClockAtStart(ahead) })
	}
}

func TestWrongClockWhileRunning(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, year} {
		t.Run(ahead.String(), func(t *testing.T) { world(t, 1, long, 3).ClockWhileRunning(ahead) })
	}
}

// serving waits until daemons serve and extend their leases.
func serving(w *storefaults.World, all ...*storefaults.Daemon) {
	w.Helper()
	for _, d := range all {
		w.Until("a daemon serves", d.Serves)
		was := w.View().Records[d.Worker()]
		w.Until("it extends its lease", func() bool { return d.Serves() && w.View().Records[d.Worker()] != was })
	}
}

// While etcd has no room, holders issue all the time.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, "--quota-backend-bytes", "3000000")
	w := storefaults.New(t, kind(0), members{t, []*etcdtest.Member{m}}, long, 3)
	const words = "no space left for writes (NOSPACE)"
	holder := w.Start()
	serving(w, holder)
	had := holder.Worker()
	fill(t, m)
	w.Until("the holder says why", func() bool { return holder.Is(workerid.Degraded, words) })
	newcomer := w.Start()
	w.Until("the newcomer says why", func() bool { return newcomer.Is(workerid.Acquiring, words) })
	drain(t, m)
	serving(w, holder, newcomer)
	if holder.MustNotRefuse(); holder.Worker() != had {
		w.Errorf("the holder had %d and has %d", had, holder.Worker())
	}
}

// The same address leads to another member, as it does behind a load balancer.
func TestConnectionMovesToAnotherMember(t *testing.T) {
	w := world(t, 3, long, 1)
	p := w.Proxy(0)
	d := w.Start(p.Addr())
	serving(w, d)
	had := d.Worker()
	for _, addr := range w.Hosts()[1:] {
		p.Retarget(addr)
		p.Cut()
		serving(w, d)
	}
	if d.MustNotRefuse(); d.Worker() != had {
		t.Errorf("it had %d and has %d", had, d.Worker())
	}
}
