package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// What is left of many sequences goes back in one transaction, within a term and without one. One that an operator
// has raised, and one of another group, are refused for themselves. If the answer is lost, it is known afterwards
// that all was written; and once the term is over nothing is.
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
	for what, from := range map[string]counter.Store{"strict": within, "free": s} {
		var rests []counter.Rest
		reserve := func(lo uint64) {
			t.Helper()
			rests = nil
			for i := range counter.MaxRests {
				name := fmt.Sprintf("{a}%s%d", what, i)
				if lo == 1 {
					d := counter.Sequence(name)
					d.Strict = what == "strict"
					if _, err := operator.Define(bg, d); err != nil {
						t.Fatal(err)
					}
				}
				b, err := from.Reserve(bg, name, 10)
				if err != nil || b.Lo != lo && i > 0 {
					t.Fatal(b, err)
				}
				rests = append(rests, counter.Rest{Name: name, Block: b, Next: b.Lo + 3})
			}
		}
		returned := func(next uint64) {
			t.Helper()
			revisions := map[int64]bool{}
			for _, r := range rests[1:] {
				key := "/katsubushi/many/seq/" + r.Name
				got, err := server.Client().Get(bg, key)
				if err != nil {
					t.Fatal(err)
				}
				revisions[got.Kvs[0].ModRevision] = true
				if want := fmt.Sprintf(`"next":%d,`, next); !strings.Contains(string(got.Kvs[0].Value), want) {
					t.Errorf("%s has no %s", got.Kvs[0].Value, want)
				}
			}
			if len(revisions) != 1 {
				t.Errorf("%s: %d transactions", what, len(revisions))
			}
		}
		reserve(1)
		if _, err := operator.Raise(bg, rests[0].Name, 1000); err != nil {
			t.Fatal(err)
		}
		for i, err := range from.ReturnAll(bg, rests) {
			if i == 0 && !errors.Is(err, counter.ErrStale) || i > 0 && err != nil {
				t.Errorf("%s %d: %v", what, i, err)
			}
		}
		returned(4)

		reserve(4)
		var lost atomic.Bool
		proxy.Rewrite(func(piece []byte) []byte {
			r, err := operator.Show(bg, rests[1].Name)
			if lost.Load() || err == nil && r.Next == 7 {
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
		returned(7)
		reserve(7)
	}
	b := counter.Block{Lo: 1, Hi: 5, Token: "x"}
	strangers := []counter.Rest{{Name: "{b}", Block: b, Next: 1}, {Name: "{a}none", Block: b, Next: 1}}
	errs := within.ReturnAll(bg, strangers)
	refused(t, errs[0], counter.ErrDeposed, "group")
	refused(t, errs[1], counter.ErrUnknown)

	lead.Leaders, lead.Lead = nil, map[int]leader.Leader{g: {Number: 1}}
	if done, _, err := s.Commit(bg, lead); err != nil || !done {
		t.Fatal(done, err)
	}
	var rests []counter.Rest
	for i := range 5 {
		r, err := operator.Show(bg, fmt.Sprintf("{a}strict%d", i))
		if err != nil {
			t.Fatal(err)
		}
		b := counter.Block{Lo: r.Next - 10, Hi: r.Next - 1, Token: r.Token}
		rests = append(rests, counter.Rest{Name: r.Name, Block: b, Next: b.Lo})
	}
	for i, err := range within.ReturnAll(context.Background(), rests) {
		refused(t, err, counter.ErrDeposed)
		if r, _ := operator.Show(bg, rests[i].Name); r.Next != rests[i].Block.Hi+1 {
			t.Errorf("written after the term: %+v", r)
		}
	}
}
