package etcd_test

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// Within a term a daemon remembers what it wrote last and does not read it again. An operator may have
// written meanwhile: no value below a raise is granted, nor is one given back.
func TestAnOperatorWritesWithinATerm(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	url := etcdtest.URL(t, server)
	s, operator := open(t, url, patient), open(t, url, patient)
	strict(t, s, "orders")
	g, me := leader.GroupOf("orders"), leader.Node{ID: "x"}
	claim := func(number uint64, was int64) leader.Term {
		t.Helper()
		done, now, err := s.Commit(bg, leader.Change{Leaders: map[int]int64{g: was}, Lead: map[int]leader.Leader{g: {Node: me, Number: number}}, Put: &me})
		if err != nil || !done {
			t.Fatal(done, err)
		}
		return leader.Term{Group: g, Fence: now.Leaders[g].Revision, Number: number}
	}
	term := claim(1, 0)
	within := s.Within(term)
	reserve := func(n, lo uint64) counter.Block {
		t.Helper()
		b, err := within.Reserve(bg, "orders", n)
		if err != nil || b.Lo != lo {
			t.Fatalf("%+v, %v; want it from %d on", b, err, lo)
		}
		return b
	}
	first := reserve(5, 1)
	reserve(5, 6)
	refused(t, within.Return(bg, "orders", first, 3), counter.ErrStale)
	last := reserve(5, 11)
	if err := within.Return(bg, "orders", last, 13); err != nil {
		t.Fatal(err)
	}
	last = reserve(5, 13)
	if _, err := operator.Raise(bg, "orders", 100); err != nil {
		t.Fatal(err)
	}
	refused(t, within.Return(bg, "orders", last, 15), counter.ErrStale)
	reserve(5, 100)
	if _, err := operator.Raise(bg, "orders", 200); err != nil {
		t.Fatal(err)
	}
	last = reserve(5, 200)

	// Another term's daemon writes. What the first one remembers is not its next term's.
	term = claim(2, term.Fence)
	other := operator.Within(term)
	if b, err := other.Reserve(bg, "orders", 5); err != nil || b.Lo != 205 {
		t.Fatal(b, err)
	}
	refused(t, within.Return(bg, "orders", last, 201), counter.ErrDeposed)
	term = claim(3, term.Fence)
	within = s.Within(term)
	reserve(5, 210)
	if _, err := operator.Retire(bg, "orders"); err != nil {
		t.Fatal(err)
	}
	_, err := within.Reserve(bg, "orders", 5)
	refused(t, err, counter.ErrRetired)
}

// A watch shows the keys that a Change wrote, as the answer to it does. Of others it says only that there are some.
func TestAWatchShowsKeys(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	s := open(t, etcdtest.URL(t, server), patient)
	var now leader.State
	commit := func(lead map[int]leader.Leader) {
		t.Helper()
		var err error
		if _, now, err = s.Commit(bg, leader.Change{Lead: lead}); err != nil {
			t.Fatal(err)
		}
	}
	commit(map[int]leader.Leader{1: {Number: 1}}) // the number of groups too
	saw := make(chan map[int]leader.Leader, 10)
	go s.Watch(t.Context(), func(written map[int]leader.Leader) { saw <- written })
	if written := <-saw; written != nil {
		t.Errorf("%+v at first", written)
	}
	commit(map[int]leader.Leader{3: {Node: leader.Node{ID: "x", Redis: "10.0.0.1:1"}, Number: 7}, 15: {Number: 2, Heir: "y"}})
	if written := <-saw; len(written) != 2 || written[3] != now.Leaders[3] || written[15] != now.Leaders[15] || written[3].Revision == 0 {
		t.Errorf("%+v, want what is in %+v", written, now.Leaders)
	}
	key := "/katsubushi/" + etcdtest.Namespace(t) + "/leader/03"
	for _, words := range [][]string{{"del", key}, {"put", key, "?"}, {"put", key + "1", "?"}} {
		server.Control(words...)
		if written := <-saw; written != nil {
			t.Errorf("%q: %+v", words, written)
		}
	}
}
