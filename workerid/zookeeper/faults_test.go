package zookeeper

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

func TestMain(m *testing.M) { storefaults.Main(m, stores, zktest.End) }

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

var kind = storefaults.Kind{Stores: stores, Servers: func(t testing.TB, n int, mayBreak bool) storefaults.Servers {
	switch {
	case mayBreak:
		return servers{zktest.Servers{zktest.Start(t)}}
	case n == 3:
		return servers{zktest.Three(t)}
	}
	return servers{zktest.Servers{zktest.Common(t)}}
}}

func TestFaults(t *testing.T) { storefaults.Faults(t, kind) }

// Reading all records takes longer than a call may: a newcomer gets a worker id all the same.
func TestANewcomerReadsSlowly(t *testing.T) {
	t.Parallel()
	w := storefaults.New(t, kind, kind.Servers(t, 1, false), storefaults.Long, 400)
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
	k := kind
	k.User = "owner:hush@"
	w := storefaults.New(t, k, k.Servers(t, 1, false), storefaults.Long, 1)
	d := w.Start()
	w.Until("it serves", d.Serves)
	worker := d.Worker()
	plain := s.Client()
	defer plain.Close()
	for _, user := range []string{"owner:hush", "another:one"} {
		insist(t, "the client is that user", func() error { return plain.AddAuth("digest", []byte(user)) })
	}
	give := func(user, password string) {
		root := Config{Settings: cas.Settings{URL: w.URL(w.Hosts()...)}}.Pool()
		for _, key := range []string{"meta", "id/0001"} {
			insist(t, "the key is that user's", func() error {
				_, err := plain.SetACL(root+"/"+key, zk.DigestACL(zk.PermAll, user, password), -1)
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
	w := storefaults.New(t, kind, servers{zktest.Servers{s}}, storefaults.Long, 1)
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
