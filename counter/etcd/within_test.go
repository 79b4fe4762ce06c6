package etcd_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

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
	commit(map[int]leader.Leader{3: {Node: leader.Node{ID: "x", Redis: "10.0.0.1:1"}, Number: 7},
		15: {Number: 2, Heir: "y"}})
	if written := <-saw; len(written) != 2 || written[3] != now.Leaders[3] || written[15] != now.Leaders[15] ||
		written[3].Revision == 0 {
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

// What is left of many sequences goes back in one transaction, within a term and without one. If the answer is lost, it
// is known afterwards that all was written; and once the term is over nothing is.
func TestManyAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := open(t, "etcd://"+proxy.Addr()+"?ns=many", 10*time.Second)
	operator := open(t, "etcd://"+server.Addr()+"?ns=many", patient)
	g, me := leader.GroupOf("{a}"), leader.Node{ID: "x"}
	lead := leader.Change{Leaders: map[int]int64{g: 0}, Lead: map[int]leader.Leader{g: {Node: me, Number: 1}}, Put: &me}
	_, now, err := s.Commit(bg, lead)
	if err != nil {
		t.Fatal(err)
	}
	within := s.Within(leader.Term{Group: g, Fence: now.Leaders[g].Revision, Number: 1})
	reserve := func(from counter.Store, what string) (rests []counter.Rest) {
		for i := range counter.MaxRests {
			d := counter.Sequence(fmt.Sprintf("{a}%s%d", what, i))
			d.Strict = what == "strict"
			_, err1 := operator.Define(bg, d)
			b, err2 := from.Reserve(bg, d.Name, 10)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			rests = append(rests, counter.Rest{Name: d.Name, Block: b, Next: b.Lo + 3})
		}
		return rests
	}
	next := func(name string) uint64 {
		r, _ := operator.Show(bg, name)
		return r.Next
	}
	for what, from := range map[string]counter.Store{"strict": within, "free": s} {
		rests := reserve(from, what)
		var lost atomic.Bool
		proxy.Rewrite(func(piece []byte) []byte {
			if lost.Load() || next(rests[1].Name) == 4 {
				lost.Store(true)
				return nil
			}
			return piece
		})
		all := make(chan []error)
		go func() { all <- from.ReturnAll(bg, rests) }()
		server.Until("the answer is lost", lost.Load)
		proxy.Rewrite(nil)
		proxy.Cut()
		if err := errors.Join(<-all...); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		revisions := map[int64]bool{}
		for _, r := range rests {
			got, err := server.Client().Get(bg, "/katsubushi/many/seq/"+r.Name)
			if err != nil || next(r.Name) != 4 {
				t.Fatalf("%s is at %d, %v", r.Name, next(r.Name), err)
			}
			revisions[got.Kvs[0].ModRevision] = true
		}
		if len(revisions) != 1 {
			t.Errorf("%s: %d transactions", what, len(revisions))
		}
	}
	rests := reserve(within, "strict")
	lead.Leaders, lead.Lead = nil, map[int]leader.Leader{g: {Number: 1}}
	if done, _, err := s.Commit(bg, lead); err != nil || !done {
		t.Fatal(done, err)
	}
	for i, err := range within.ReturnAll(bg, rests) {
		if refused(t, err, counter.ErrDeposed); next(rests[i].Name) != rests[i].Block.Hi+1 {
			t.Errorf("%s was written after the term", rests[i].Name)
		}
	}
}
