package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

var began = time.Now()

func clock() int64 { return int64(time.Since(began)) + 1 }

// A member is a daemon that takes part in an election, as far as the store of its sequences goes. It reserves one
// value of each sequence in a term, and gives it back at the end.
type member struct {
	*leader.Runner
	*etcd.Store
	t      *testing.T
	stop   func() error
	frozen sync.Mutex // while it is held no call gets through, in either direction

	mu     sync.Mutex
	terms  map[int]leader.Term
	story  []string
	blocks map[string]counter.Block
	names  []string
}

func join(t *testing.T, id, url string, names ...string) *member {
	m := &member{t: t, Store: open(t, url, patient), terms: map[int]leader.Term{}, blocks: map[string]counter.Block{},
		names: names}
	m.Runner = leader.NewRunner(leader.Config{
		Me: leader.Node{ID: id, Redis: id + ":11212"}, Board: m, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Begin: m.begin, End: m.end,
	})
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	m.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { m.stop() })
	return m
}

// Commit implements leader.Board.
func (m *member) Commit(ctx context.Context, c leader.Change) (bool, leader.State, error) {
	m.pass()
	defer m.pass()
	return m.Store.Commit(ctx, c)
}

// pass waits while the member is frozen.
func (m *member) pass() {
	m.frozen.Lock()
	defer m.frozen.Unlock()
}

func (m *member) begin(t leader.Term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms[t.Group] = t
	m.story = append(m.story, fmt.Sprintf("begin %d/%d", t.Group, t.Number))
}

func (m *member) end(t leader.Term) {
	for _, name := range m.names {
		m.mu.Lock()
		b, ok := m.blocks[name]
		delete(m.blocks, name)
		m.mu.Unlock()
		if ok && leader.GroupOf(name) == t.Group {
			if err := m.Within(t).Return(bg, name, b, b.Lo+1); err != nil && !errors.Is(err, counter.ErrDeposed) {
				m.t.Error(err)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.terms, t.Group)
	m.story = append(m.story, fmt.Sprintf("end %d/%d", t.Group, t.Number))
}

func (m *member) term(name string) (leader.Term, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.terms[leader.GroupOf(name)]
	return t, ok && m.Until(t.Group) > clock()
}

func (m *member) leads(name string) bool {
	_, ok := m.term(name)
	return ok
}

func (m *member) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.terms)
}

// strict defines a sequence of that name.
func strict(t *testing.T, s *etcd.Store, name string) {
	t.Helper()
	d := counter.Sequence(name)
	d.Strict = true
	if r, err := s.Define(bg, d); err != nil || !r.Strict {
		t.Fatal(err)
	}
}

// Two daemons: the second one takes a group over that is handed to it, without a gap, and the first one takes it
// over when the second stands still.
func TestLeadersOfSequences(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	url := etcdtest.URL(t, server)
	const name = "orders"
	group := leader.GroupOf(name)
	s := open(t, url, patient)
	strict(t, s, name)
	_, err := s.Reserve(bg, name, 1)
	refused(t, err, counter.ErrOrder, "outside of a term")
	refused(t, s.Return(bg, name, counter.Block{Lo: 1, Hi: 1, Token: "x"}, 1), counter.ErrOrder)

	a := join(t, "a", url, name)
	server.Until("a leads all groups", func() bool { return a.held() == leader.Groups && a.leads(name) })
	term, _ := a.term(name)
	b1, err := a.Within(term).Reserve(bg, name, 10)
	if err != nil || b1.Lo != 1 || b1.Hi != 10 {
		t.Fatalf("%+v, %v", b1, err)
	}
	free := counter.Sequence("{orders}free")
	if _, err := a.Define(bg, free); err != nil {
		t.Fatal(err)
	}
	_, err = a.Within(term).Reserve(bg, free.Name, 1)
	refused(t, err, nil, "order=free")
	strict(t, s, "items")
	_, err = a.Within(term).Reserve(bg, "items", 1)
	refused(t, err, counter.ErrDeposed, "group")
	other := term
	other.Fence++
	_, err = a.Within(other).Reserve(bg, name, 1)
	refused(t, err, counter.ErrDeposed, fmt.Sprintf("/leader/%02d", group))

	b := join(t, "b", url, name)
	server.Until("a knows of b", func() bool { return len(a.View().Nodes) == 2 })
	a.mu.Lock()
	a.blocks[name] = b1
	a.mu.Unlock()
	server.Until("b has the group", func() bool {
		a.Demote(bg, group) // more than once, if b was too slow to take it
		return b.leads(name)
	})
	_, err = a.Within(term).Reserve(bg, name, 1)
	refused(t, err, counter.ErrDeposed)
	term, _ = b.term(name)
	b2, err := b.Within(term).Reserve(bg, name, 5)
	if err != nil || b2.Lo != 2 {
		t.Fatalf("%+v, %v: a has returned what follows 1", b2, err)
	}
	server.Until("a knows who leads", func() bool {
		n, _ := a.View().Leader(group)
		return n == leader.Node{ID: "b", Redis: "b:11212"}
	})

	b.frozen.Lock()
	server.Until("a has the group again", func() bool {
		if a.leads(name) && clock() < b.Until(group) {
			t.Fatal("both may answer")
		}
		return a.leads(name)
	})
	refused(t, b.Within(term).Return(bg, name, b2, 3), counter.ErrDeposed) // although it is the last block
	within := b.Within(term)
	for range 2 {
		_, err = within.Reserve(bg, name, 5)
		refused(t, err, counter.ErrDeposed)
	}
	term, _ = a.term(name)
	if b3, err := a.Within(term).Reserve(bg, name, 1); err != nil || b3.Lo != 7 {
		t.Errorf("%+v, %v", b3, err)
	}
	server.Until("the key of b is deleted", func() bool {
		return a.held() == leader.Groups && !strings.Contains(server.Control("get", "--prefix", "/katsubushi/"), "/node/b")
	})
	b.frozen.Unlock()
	server.Until("b has noticed", func() bool { return b.held() == 0 && len(a.View().Nodes) == 2 })

	for _, m := range []*member{a, b} {
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	}
	if keys := server.Control("get", "--prefix", "--keys-only", "/katsubushi/"); strings.Contains(keys, "/node/") {
		t.Error(keys)
	}
	server.Kill()
	_, err = within.Reserve(bg, name, 5) // etcd need not be asked again
	refused(t, err, counter.ErrDeposed)
}

// A watch ends with an error if etcd has forgotten what it missed, or closes the connection. It says so, and is
// begun anew.
func TestWatchIsOnlyAHint(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s, direct := open(t, "etcd://"+proxy.Addr()+"?ns=watch", patient),
		open(t, "etcd://"+server.Addr()+"?ns=watch", patient)
	var hints atomic.Int64
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	watch := func() { ended <- s.Watch(ctx, func(map[int]leader.Leader) { hints.Add(1) }) }
	go watch()
	server.Until("it watches", func() bool { return hints.Load() > 0 })
	revision := int64(0)
	claim := func() {
		t.Helper()
		me := leader.Node{ID: "x"}
		_, now, err := direct.Commit(bg, leader.Change{})
		if err != nil {
			t.Fatal(err)
		}
		done, now, err := direct.Commit(bg, leader.Change{
			Leaders: map[int]int64{3: now.Leaders[3].Revision},
			Lead:    map[int]leader.Leader{3: {Node: me, Number: now.Leaders[3].Number + 1}}, Put: &me,
		})
		if err != nil || !done || now.Leaders[3].ID != "x" || now.Leaders[3].Revision <= revision || len(now.Nodes) != 1 {
			t.Fatalf("%+v, %v, %v", now, done, err)
		}
		revision = now.Leaders[3].Revision
	}
	before := hints.Load()
	claim()
	server.Until("it noticed", func() bool { return hints.Load() > before })
	proxy.Refuse(true)
	proxy.Cut()
	claim()
	claim()
	if _, err := server.Client().Compact(bg, revision); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(false)
	select {
	case err := <-ended:
		if err == nil || ctx.Err() != nil {
			t.Error(err)
		}
		t.Log(err)
	case <-time.After(patient):
		t.Fatal("the watch goes on")
	}
	before = hints.Load()
	go watch()
	server.Until("it watches again", func() bool { return hints.Load() > before })
	strict(t, direct, "orders")
	before = hints.Load()
	if _, err := s.Within(leader.Term{Group: leader.GroupOf("orders"), Fence: 5}).
		Reserve(bg, "orders", 1); !errors.Is(err, counter.ErrDeposed) || hints.Load() == before {
		t.Errorf("%v: deposed, and it is not told to look", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Keys that are not what this program writes stop the election, and are named. So is another number of groups.
func TestKeysOfAnotherProgram(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s := open(t, etcdtest.URL(t, server), patient)
	root := "/katsubushi/" + etcdtest.Namespace(t) + "/"
	me := leader.Node{ID: "x", Redis: "h:1"}
	claim := leader.Change{Leaders: map[int]int64{0: 0}, Nodes: map[string]int64{"x": 0},
		Lead: map[int]leader.Leader{0: {Node: me, Number: 1}}, Put: &me}
	for key, value := range map[string]string{
		"leader/groups": "32", "leader/07": `{"version":2,"id":"y"}`,
		"leader/16": `{"version":1,"id":"","redis":"","term":1,"heir":""}`, "node/y": "17",
		"leader/01": `{"version":1,"more":1}`,
	} {
		server.Put(root+key, value)
		_, _, err := s.Commit(bg, leader.Change{})
		refused(t, err, nil, root+key)
		if key == "leader/groups" {
			refused(t, err, nil, `"32"`, "16")
			if done, _, err := s.Commit(bg, claim); done || err == nil {
				t.Errorf("%v, %v: a claim in another number of groups", done, err)
			}
			if text := server.Get(root + "leader/00"); text != "" {
				t.Error(text)
			}
		}
		if _, err := server.Client().Delete(bg, root+key); err != nil {
			t.Fatal(err)
		}
	}
	done, now, err := s.Commit(bg, claim)
	if want := (leader.NodeKey{Node: me, Revision: now.Leaders[0].Revision}); err != nil || !done ||
		now.Node("x") != want {
		t.Fatalf("%+v, %v", now, err)
	}
	if text := server.Get(root + "leader/groups"); text != "16" {
		t.Errorf("%q", text)
	}
	done, again, err := s.Commit(bg, claim)
	if err != nil || done || again.Leaders != now.Leaders {
		t.Errorf("claimed twice: %+v, %v", again, err)
	}
	for _, late := range []leader.Change{
		{Leaders: map[int]int64{0: now.Leaders[0].Revision - 1}, Nodes: map[string]int64{"x": now.Node("x").Revision},
			Put: &me},
		{Leaders: map[int]int64{0: now.Leaders[0].Revision}, Nodes: map[string]int64{"x": now.Node("x").Revision - 1},
			Put: &me},
		{Leaders: map[int]int64{0: now.Leaders[0].Revision, 1: 5}, Put: &me},
		{Nodes: map[string]int64{"x": now.Node("x").Revision, "y": 5}, Put: &me},
	} {
		if done, after, err := s.Commit(bg, late); err != nil || done || after.Node("x") != now.Node("x") {
			t.Errorf("%+v: %v, %+v, %v", late, done, after, err)
		}
	}
	drop := leader.Change{Nodes: map[string]int64{"x": now.Node("x").Revision}, Drop: []string{"x"}}
	if done, now, err := s.Commit(bg, drop); err != nil || !done || len(now.Nodes) > 0 {
		t.Errorf("%+v, %v", now, err)
	}
	server.Put(root+"leader/groups", "17") // after this daemon has seen that it was right
	next := leader.Change{Leaders: map[int]int64{1: 0}, Lead: map[int]leader.Leader{1: {Node: me, Number: 1}}}
	if done, _, err := s.Commit(bg, next); done || err == nil {
		t.Errorf("%v, %v", done, err)
	}
}

// An etcd is restored into a new cluster under a daemon. The daemon says that it must be restarted, and writes
// nothing in its terms, also after an operator has raised the sequence. If the first cluster answers again, the
// daemon goes on in the same terms.
func TestRestoredIntoANewCluster(t *testing.T) {
	t.Parallel()
	server, copied := etcdtest.Start(t), etcdtest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	const name = "orders"
	a := join(t, "a", "etcd://"+proxy.Addr()+"?ns=copied", name)
	strict(t, a.Store, name)
	server.Until("a leads all groups", func() bool { return a.held() == leader.Groups && a.leads(name) })
	term, _ := a.term(name)
	if _, err := a.Within(term).Reserve(bg, name, 10); err != nil {
		t.Fatal(err)
	}
	since, _, err := a.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot")
	server.Snapshot(file)
	copied.Kill()
	etcdtest.Replace([]*etcdtest.Member{copied}, file)
	copied.Launch()
	if a.Replaced() != nil {
		t.Fatal(a.Replaced())
	}

	proxy.Retarget(copied.Addr())
	proxy.Cut()
	server.Until("a says that it is another cluster", func() bool { return a.Replaced() != nil })
	refused(t, a.Replaced(), leader.ErrReplaced, "restart")
	if now, records, err := a.Changes(bg, since); err != nil || now == since || len(records) == 0 {
		t.Errorf("another cluster is a change: %q, %v, %v", now, records, err)
	}
	if _, err := open(t, "etcd://"+copied.Addr()+"?ns=copied", patient).Raise(bg, name, 1000); err != nil {
		t.Fatal(err)
	}
	_, err = a.Within(term).Reserve(bg, name, 1) // the copy has the same fence
	refused(t, err, counter.ErrForeign, "restart")
	_, err = a.Define(bg, counter.Sequence("items"))
	refused(t, err, counter.ErrForeign, "/seq/items", "the daemon began with")
	proxy.Retarget(server.Addr())
	proxy.Cut()
	server.Until("a leads on", func() bool { return a.Replaced() == nil && a.leads(name) })
	if again, _ := a.term(name); again != term {
		t.Errorf("%+v, and before that %+v", again, term)
	}
}
