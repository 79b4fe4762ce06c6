package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
)

// An onlyBoard is a leader.Board for one daemon. Some calls fail first, and a group may be taken away.
type onlyBoard struct {
	mu sync.Mutex
	leader.State
	revision int64
	failing  int
	stolen   int // the group to take away; -1 = none
}

func (b *onlyBoard) Commit(_ context.Context, c leader.Change) (bool, leader.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	switch {
	case b.failing > 0:
		b.failing--
		return false, leader.State{}, errors.New("no answer")
	case b.stolen >= 0:
		b.Leaders[b.stolen] = leader.Leader{Node: leader.Node{ID: "thief"}, Number: 2, Revision: b.revision}
		b.stolen = -1
		return false, b.State, nil
	}
	for g, l := range c.Lead {
		l.Revision = b.revision
		b.Leaders[g] = l
	}
	if c.Put != nil {
		b.Nodes = []leader.NodeKey{{Node: *c.Put, Revision: b.revision}}
	}
	if c.Drop != nil {
		b.Nodes = nil
	}
	return true, b.State, nil
}

func (b *onlyBoard) Watch(ctx context.Context, _ func(map[int]leader.Leader)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Failed calls and groups that were taken away are counted one by one.
func TestFiguresOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &onlyBoard{failing: 3, stolen: -1}
		began := time.Now()
		e := &election{forwarder: forward.New(forward.Config{})}
		r := leader.NewRunner(leader.Config{
			Me: leader.Node{ID: "me", Redis: "h:1"}, Board: b, Clock: func() int64 { return int64(time.Since(began)) + 1 },
			Log: slog.New(slog.DiscardHandler), Begin: func(leader.Term) {}, End: func(leader.Term) {},
		})
		e.runner.Store(r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		want := func(failures, terms, lost uint64, groups int64) {
			t.Helper()
			synctest.Wait()
			got := map[string]any{}
			for _, f := range e.figures() {
				got[f.name] = f.value
			}
			for name, v := range map[string]any{
				"leader_failures_total": failures, "leader_terms_total": terms, "leader_lost_total": lost, "leader_groups": groups, "leader_handed_over_total": uint64(0),
			} {
				if got[name] != v {
					t.Errorf("%s is %v, want %v", name, got[name], v)
				}
			}
		}
		time.Sleep(10 * time.Second)
		want(3, leader.Groups, 0, leader.Groups)
		b.mu.Lock()
		b.stolen = 5
		b.mu.Unlock()
		time.Sleep(2 * time.Second)
		want(3, leader.Groups, 1, leader.Groups-1)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
