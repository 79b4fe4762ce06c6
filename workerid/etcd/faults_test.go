package etcd

import (
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestMain(m *testing.M) { storefaults.Main(m, stores, func() {}) }

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

var kind = storefaults.Kind{Stores: stores, Servers: func(t testing.TB, n int, _ bool) storefaults.Servers {
	return members{t, etcdtest.Cluster(t, n)}
}}

func TestFaults(t *testing.T) { storefaults.Faults(t, kind) }

// While etcd has no room, holders issue all the time.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t, "--quota-backend-bytes", "3000000")
	w := storefaults.New(t, kind, members{t, []*etcdtest.Member{m}}, storefaults.Long, 3)
	const words = "no space left for writes (NOSPACE)"
	holder := w.Start()
	w.Extended(holder)
	had := holder.Worker()
	fill(t, m)
	w.Until("the holder says why", func() bool { return holder.Is(workerid.Degraded, words) })
	newcomer := w.Start()
	w.Until("the newcomer says why", func() bool { return newcomer.Is(workerid.Acquiring, words) })
	drain(t, m)
	w.Extended(holder, newcomer)
	if holder.MustNotRefuse(); holder.Worker() != had {
		w.Errorf("the holder had %d and has %d", had, holder.Worker())
	}
}

// The same address leads to another member, as it does behind a load balancer.
func TestConnectionMovesToAnotherMember(t *testing.T) {
	storefaults.Quorum(t)
	t.Parallel()
	w := storefaults.New(t, kind, kind.Servers(t, 3, false), storefaults.Long, 1)
	p := w.Proxy(0)
	d := w.Start(p.Addr())
	w.Extended(d)
	had := d.Worker()
	for _, addr := range w.Hosts()[1:] {
		p.Retarget(addr)
		p.Cut()
		w.Extended(d)
	}
	if d.MustNotRefuse(); d.Worker() != had {
		t.Errorf("it had %d and has %d", had, d.Worker())
	}
}
