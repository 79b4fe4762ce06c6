package zookeeper

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

func TestMain(m *testing.M) {
	storefaults.Main(openStore, func() {
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
			flag.Set(f.Name, "8") // they wait most of the time
		}
		zktest.Main(m)
	})
}

func openStore(s cas.Settings) (workerid.Backend, error) { return Config{Settings: s}.Open() }

// servers are those that a test may break.
type servers struct {
	all zktest.Servers
}

func (s servers) Hosts() []string  { return strings.Split(s.all.Hosts(), ",") }
func (s servers) Pause(i int)      { s.all[i].Pause() }
func (s servers) Resume(i int)     { s.all[i].Resume() }
func (s servers) Kill(i int)       { s.all[i].Kill() }
func (s servers) Launch(i int)     { s.all[i].LaunchOnly() }
func (s servers) Ready()           { s.all.Ready() }
func (s servers) Leader() int      { return s.all.Leader() }
func (s servers) Save() string     { return s.all[0].Save() }
func (s servers) Restore(c string) { s.all[0].Restore(c) }

var pools atomic.Int64

func kind(timeout time.Duration) storefaults.Kind {
	chroot := fmt.Sprintf("/faults%d", pools.Add(1))
	return storefaults.Kind{
		URL:  func(hosts []string, t testing.TB) string { return "zookeeper://" + strings.Join(hosts, ",") + chroot },
		Open: func(s cas.Settings) (workerid.Backend, error) { return Config{Settings: s, Timeout: timeout}.Open() },
		Driver: func(s cas.Settings) (cas.Driver, error) {
			made, err := stores.Config(s, 0, true)
			return made.Driver, err
		},
		Admin: func(s cas.Settings) (workerid.Admin, error) { return Config{Settings: s}.OpenAdmin() },
	}
}

// three is a pool on three servers that only this test uses.
func three(t *testing.T, lease time.Duration, ids uint64) *storefaults.World {
	storefaults.Quorum(t, "TestTheLeaderIsKilled", "TestRestoreWithHoldersAlive")
	t.Parallel()
	return storefaults.New(t, kind(0), servers{zktest.Three(t)}, lease, ids)
}

// common is a pool on a server that other tests use as well.
func common(t *testing.T, lease time.Duration, ids uint64) *storefaults.World {
	t.Parallel()
	return storefaults.New(t, kind(0), servers{zktest.Servers{zktest.Common(t)}}, lease, ids)
}

// calm is a pool on that server, to which nothing happens.
func calm(t *testing.T, ids uint64) *storefaults.World {
	t.Parallel()
	all := servers{zktest.Servers{zktest.Common(t)}}
	return storefaults.New(t, kind(storefaults.Calm), all, storefaults.Long, ids)
}

// alone is a pool on a server of its own.
func alone(t *testing.T, lease time.Duration, ids uint64) *storefaults.World {
	t.Parallel()
	return storefaults.New(t, kind(0), servers{zktest.Servers{zktest.Start(t)}}, lease, ids)
}

func TestAServerStops(t *testing.T)      { three(t, storefaults.Long, 3).ServerStops() }
func TestAServerIsKilled(t *testing.T)   { three(t, storefaults.Long, 3).ServerKilled() }
func TestTheLeaderStops(t *testing.T)    { three(t, storefaults.Long, 3).LeaderStops() }
func TestTheLeaderIsKilled(t *testing.T) { three(t, storefaults.Long, 3).LeaderKilled() }
func TestAMajorityStops(t *testing.T)    { three(t, storefaults.Short, 3).MajorityStops() }
func TestAMajorityIsKilled(t *testing.T) { three(t, storefaults.Short, 3).MajorityKilled() }
func TestAllServersRestart(t *testing.T) { three(t, storefaults.Long, 3).AllRestart() }

func TestExpiryWithoutASuccessor(t *testing.T) { common(t, storefaults.Short, 3).ExpiryWhileStopped() }
func TestExpiryWithASuccessor(t *testing.T)    { common(t, storefaults.Short, 1).ExpiryWithSuccessor() }
func TestRequestsAreHeld(t *testing.T)         { common(t, storefaults.Long, 2).PartitionOfRequests() }
func TestAnswersAreHeld(t *testing.T)          { common(t, storefaults.Long, 2).PartitionOfAnswers() }
func TestAnAnswerIsLost(t *testing.T)          { common(t, storefaults.Long, 1).AnswerLost() }
func TestAnAcquisitionIsLost(t *testing.T)     { common(t, storefaults.Long, 3).AcquisitionLost() }
func TestPoolOf3With5Daemons(t *testing.T)     { common(t, storefaults.Short, 3).FiveForThree() }
func TestTwoLanesOfADaemon(t *testing.T)       { calm(t, 3).TwoLanes() }
func TestCloneOfAProcess(t *testing.T)         { common(t, storefaults.Long, 1).Clone() }

func TestMassStart(t *testing.T) {
	n := uint64(20)
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		n = 200
	}
	common(t, storefaults.Medium, n).MassStart()
}

func TestRestoreWithHoldersAlive(t *testing.T) { alone(t, storefaults.Short, 3).RestoreWithHolders() }
func TestRestoreWithAllHoldersStopped(t *testing.T) {
	alone(t, storefaults.Short, 3).RestoreWithAllStopped()
}
func TestDataDirectoryWiped(t *testing.T) { alone(t, storefaults.Short, 2).Wiped() }
func TestRestoreWithANewcomerFirst(t *testing.T) {
	alone(t, storefaults.Short, 4).RestoreWithNewcomer()
}

const year = 365 * 24 * time.Hour

func TestWrongClockAtStart(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, year} {
		t.Run(ahead.String(), func(t *testing.T) { common(t, storefaults.Long, 6).ClockAtStart(ahead) })
	}
}

func TestWrongClockWhileRunning(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, year} {
		t.Run(ahead.String(), func(t *testing.T) { common(t, storefaults.Long, 3).ClockWhileRunning(ahead) })
	}
}

// Reading all records takes longer than a call may: a newcomer gets a worker id all the same.
func TestANewcomerReadsSlowly(t *testing.T) {
	w := common(t, storefaults.Long, 400)
	slow := w.Proxy(0)
	slow.Rewrite(func(answers []byte) []byte { // some 60,000 bytes at 20 KB a second
		time.Sleep(time.Duration(len(answers)) * time.Second / 20_000)
		return answers
	})
	w.Until("it serves", w.Start(slow.Addr()).Serves)
}

func TestFaultsAreInTheDocumentation(t *testing.T) {
	storefaults.Documented(t, "faults_test.go", "wire_test.go")
}

// Somebody changes the ACL of the pool's keys, so that the daemon's user may do nothing any more, and
// changes it back.
func TestAuthRemovedWhileRunning(t *testing.T) {
	t.Parallel()
	s := zktest.Common(t)
	k := kind(0)
	k.URL = func(hosts []string, t testing.TB) string {
		return "zookeeper://owner:hush@" + strings.Join(hosts, ",") + "/removed?ns=" + zktest.Namespace(t)
	}
	w := storefaults.New(t, k, servers{zktest.Servers{s}}, storefaults.Long, 1)
	d := w.Start()
	w.Until("it serves", d.Serves)
	worker := d.Worker()
	plain := s.Client()
	defer plain.Close()
	for _, user := range []string{"owner:hush", "another:one"} {
		insist(t, "the client is that user", func() error { return plain.AddAuth("digest", []byte(user)) })
	}
	give := func(user, password string) {
		for _, key := range []string{"meta", "id/0001"} {
			insist(t, "the key is that user's", func() error {
				_, err := plain.SetACL("/removed/"+zktest.Namespace(t)+"/"+key, zk.DigestACL(zk.PermAll, user, password), -1)
				return err
			})
		}
	}
	give("another", "one")
	w.Until("ZooKeeper's own words are there", func() bool {
		return d.Is(workerid.Degraded, "ZooKeeper does not permit it to user owner")
	})
	give("owner", "hush")
	w.Until("it serves again", d.Serves)
	if d.MustNotRefuse(); d.Worker() != worker {
		t.Errorf("worker id %d after %d", d.Worker(), worker)
	}
}

// ZooKeeper's disk is full: the server refuses to go on. Then there is room again, and it is started.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small disk takes root")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no disk of its own: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	s := zktest.Start(t, "dataLogDir="+dir)
	w := storefaults.New(t, kind(0), servers{zktest.Servers{s}}, storefaults.Long, 1)
	d := w.Start()
	w.Until("it serves", d.Serves)
	worker := d.Worker()
	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<10))
	}
	f.Close()
	w.Until("the server has stopped to write", func() bool { return d.Is(workerid.Degraded, "") })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Launch()
	w.Until("it serves again", d.Serves)
	if d.MustNotRefuse(); d.Worker() != worker {
		t.Errorf("worker id %d after %d", d.Worker(), worker)
	}
}

// A follower that lags behind the others is not believed: what a driver reads from it is what was written
// last, by anybody, before it asked.
func TestAFollowerThatLags(t *testing.T) {
	storefaults.Quorum(t)
	t.Parallel()
	all := zktest.Three(t)
	all[0].Make("/lag", "/lag/katsubushi", "/lag/katsubushi/id", "/lag/katsubushi/on", "/lag/katsubushi/peers",
		"/lag/katsubushi/meta")
	leader := all.Leader()
	follower := all[(leader+1)%3]
	writer := all[leader].Client()
	d := at(t, "zookeeper://"+follower.Addr()+"/lag")
	// The driver reads while the follower catches up. It may also lose its connection, on a busy machine:
	// then nothing is shown.
	for shown, round := 0, 0; shown < 3 && !t.Failed(); round++ {
		d.connect()
		follower.Pause()
		var writers sync.WaitGroup
		for range 64 {
			writers.Go(func() {
				for range 30 {
					writer.Set("/lag/katsubushi/on", nil, -1)
				}
			})
		}
		writers.Wait()
		newest := fmt.Sprint("newest ", round)
		_, err := writer.Set("/lag/katsubushi/meta", []byte(newest), -1)
		if err != nil {
			t.Logf("round %d: %v", round, err)
			follower.Resume()
			continue
		}
		read := make(chan func())
		go func() {
			ctx, cancel := within(time.Minute)
			defer cancel()
			a, err := d.Commit(ctx, d.conn, pool.Change{IfMeta: newest})
			read <- func() {
				switch {
				case err != nil:
					t.Logf("round %d: %v", round, err)
				case !a.Done:
					t.Errorf("round %d: it read %q, and %q had been written", round, a.View.Meta, newest)
				default:
					shown++
				}
			}
		}()
		follower.Resume()
		(<-read)()
	}
}
