//go:build chaos && linux

package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// A member is a server of ZooKeeper or etcd.
type member interface {
	Addr() string
	Kill()
	LaunchOnly()
	Ready() // waits until it answers, which takes a quorum
	Pause()
	Resume()
}

// spare is how many worker ids there are beside those that the fleet needs: what a daemon had whose
// clock was an hour ahead can be had an hour later.
const spare = 100

// An ensemble is the servers of ZooKeeper or etcd.
type ensemble struct {
	setting
	t       testing.TB
	members []member
	dirs    []string // of their data
	down    int      // how many are killed or stand still
	shut    bool     // for all daemons
	backup  string   // directory; empty: there is none yet
}

func newEnsemble(t testing.TB, of setting) *ensemble {
	e := &ensemble{setting: of, t: t}
	switch of.kind {
	case "etcd":
		for _, m := range etcdtest.Cluster(t, of.size) {
			e.members, e.dirs = append(e.members, m), append(e.dirs, m.Dir)
		}
	case "ZooKeeper":
		var all zktest.Servers
		if of.size == 3 {
			all = zktest.Three(t)
		} else {
			all = zktest.Servers{zktest.Alone(t)}
		}
		for _, s := range all {
			e.members, e.dirs = append(e.members, s), append(e.dirs, s.Dir)
		}
	}
	return e
}

func (e *ensemble) title() string { return e.name }

func (e *ensemble) missing() string {
	if e.down > 0 {
		return "some servers are down"
	}
	return ""
}

func (e *ensemble) flags(addresses []string) []string {
	return []string{"-store", strings.ToLower(e.kind) + "://" + strings.Join(addresses, ",") + "?ns=chaos", "-heartbeat",
		"500ms"}
}

func (e *ensemble) pool() []string {
	var addresses []string
	for _, m := range e.members {
		addresses = append(addresses, m.Addr())
	}
	return e.flags(addresses)
}

func (e *ensemble) connect(d *daemon) []string {
	var addresses []string
	for _, m := range e.members {
		p := redistest.NewProxy(d.t, m.Addr())
		d.members, addresses = append(d.members, p), append(addresses, p.Addr())
	}
	return e.flags(addresses)
}

func (e *ensemble) follow(*world) {}

func (e *ensemble) doors(w *world) {
	for _, d := range w.daemons {
		for _, p := range d.members {
			if p.Refuse(d.refused || e.shut); d.refused || e.shut {
				p.Cut()
			}
		}
	}
}

// down does something to members, and something else in the end, after which they serve again.
func down(n int, begin, end func(member)) effect {
	return func(w *world, _ *daemon) func() time.Duration {
		first, all := w.rand.IntN(len(w.members.members)), w.members.members
		var some []member
		for i := range n {
			some = append(some, all[(first+i)%len(all)])
			begin(some[i])
		}
		w.members.down += n
		return then(func() {
			for _, m := range some {
				end(m)
			}
			for _, m := range some {
				m.Ready()
			}
			w.members.down -= n
		})
	}
}

// replace puts other data, or none, in place of the only server's.
func (e *ensemble) replace(with string) {
	e.members[0].Kill()
	copyTo(e.t, e.dirs[0], with)
	e.members[0].LaunchOnly()
	e.members[0].Ready()
}

func restored(s setting) bool { return s.forgets }
func intact(s setting) bool   { return !s.forgets }
func single(s setting) bool   { return s.size == 1 }

// ensembleFaults happen to the whole fleet.
var ensembleFaults = []fault{
	{part: server, name: "kill -9 of a server, and restart", lasts: 2 * lease,
		on: down(1, member.Kill, member.LaunchOnly)},
	{part: server, name: "kill -9 of a majority, and restart", lasts: 2 * lease, unless: single,
		on: down(2, member.Kill, member.LaunchOnly)},
	{part: server, name: "kill -9 of all servers, and restart", lasts: lease, unless: single,
		on: down(3, member.Kill, member.LaunchOnly)},
	{part: server, name: "SIGSTOP of a server", lasts: 3 * lease, on: down(1, member.Pause, member.Resume)},
	{part: server, name: "SIGSTOP of a majority", lasts: 2 * lease, unless: single,
		on: down(2, member.Pause, member.Resume)},
	{part: server, name: "a backup, for which the server is stopped", unless: intact,
		on: once(func(w *world, _ *daemon) {
			e := w.members
			e.backup = w.t.TempDir()
			e.members[0].Kill()
			copyTo(e.t, e.backup, e.dirs[0])
			e.members[0].LaunchOnly()
			e.members[0].Ready()
		})},
	{part: server, name: "an earlier state restored as the docs say", unless: intact,
		on: once(func(w *world, _ *daemon) {
			e := w.members
			if e.backup == "" {
				w.note("there is no backup yet")
				return
			}
			e.shut = true
			e.doors(w)
			e.replace(e.backup)
			w.lease("restored")
			e.shut = false
			e.doors(w)
			w.newcomers(nil)
		})},
	{part: server, name: "the server wiped", unless: intact, on: once(func(w *world, _ *daemon) {
		w.members.replace("")
		w.newcomers(nil)
	})},
}
