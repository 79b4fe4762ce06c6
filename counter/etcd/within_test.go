package etcd_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// What is left of many sequences goes back in one transaction, within a term and without one. If the answer is lost, it
// is known afterwards that all was written; and once the term is over nothing is.
func TestManyAreGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := open(t, "etcd://"+proxy.Addr()+"?ns=many", patient)
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
			var b counter.Block
			server.Until("there is a block", func() bool { // an etcd that stood still refuses calls
				_, err1 := operator.Define(bg, d)
				var err2 error
				b, err2 = from.Reserve(bg, d.Name, 10)
				if err := errors.Join(err1, err2); err != nil && !errors.Is(err, counter.ErrUnavailable) {
					t.Fatal(err)
				}
				return err1 == nil && err2 == nil
			})
			rests = append(rests, counter.Rest{Name: d.Name, Block: b, Next: b.Lo + 3})
		}
		return rests
	}
	next := func(name string) (n uint64) {
		server.Until(name+" is shown", func() bool {
			r, err := operator.Show(bg, name)
			n = r.Next
			return err == nil
		})
		return n
	}
	for what, from := range map[string]counter.Store{"strict": within, "free": s} {
		rests := reserve(from, what)
		var lost atomic.Bool
		proxy.Rewrite(func(piece []byte) []byte {
			if lost.Load() || next(rests[1].Name) == rests[1].Next {
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
			if err != nil || next(r.Name) != r.Next {
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
		if countertest.Refused(t, err, counter.ErrDeposed); next(rests[i].Name) != rests[i].Block.Hi+1 {
			t.Errorf("%s was written after the term", rests[i].Name)
		}
	}
}
