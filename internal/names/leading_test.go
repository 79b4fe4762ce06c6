package names

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// An onlyBoard is a leader.Board for one daemon. Some calls fail first, and a group may be taken away.
type onlyBoard struct {
	mu sync.Mutex
	leader.State
	revision int64
	failing  int
	stolen   int              // the group to take away; -1 = none
	others   []leader.NodeKey // other daemons, which write their time of day each time that this one does
	ahead    time.Duration    // their clocks' of this one's
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
		for _, o := range b.others {
			o.Revision, o.Stamp = b.revision, time.Now().Add(b.ahead).UnixMilli()
			b.Nodes = append(b.Nodes, o)
		}
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

func newForwarders() (all forwarders) {
	for g := range all {
		all[g] = forward.New(forward.Config{})
	}
	return all
}

// Failed calls and groups that were taken away are counted one by one.
func TestFiguresOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &onlyBoard{failing: 3, stolen: -1}
		began := time.Now()
		e := &election{forward: newForwarders()}
		r := leader.NewRunner(leader.Config{
			Me: leader.Node{ID: "me", Redis: "h:1"}, Board: b, Clock: func() int64 { return int64(time.Since(began)) + 1 },
			Log: slog.New(slog.DiscardHandler), Begin: func(leader.Term) {}, End: func(leader.Term) {},
		})
		e.runner.Store(r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		want := func(failures, terms, lost uint64, groups int) {
			t.Helper()
			synctest.Wait()
			got := map[string]any{}
			e.figures(func(f figure.Figure) { got[f.Metric] = f.Value })
			for name, v := range map[string]any{
				"leader_failures_total": failures, "leader_terms_total": terms, "leader_lost_total": lost, "leader_groups": groups,
				"leader_handed_over_total": uint64(0),
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

// Another daemon with this one's address is told of once, after it has renewed: one that was killed does not.
func TestAnotherDaemonWithThisAddress(t *testing.T) {
	var log strings.Builder
	n := &Names{given: Given{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	e := &election{of: n, id: "me", address: "h:1", sharing: map[string]int64{}}
	said := func(revision int64, want int) {
		t.Helper()
		e.compare([]leader.NodeKey{
			{Node: leader.Node{ID: "me", Redis: "h:1"}, Revision: revision},
			{Node: leader.Node{ID: "dead", Redis: "h:1"}, Revision: 3},
			{Node: leader.Node{ID: "fine", Redis: "h:2"}, Revision: revision},
			{Node: leader.Node{ID: "twin", Redis: "h:1"}, Revision: revision},
		})
		if n := strings.Count(log.String(), "level=ERROR"); n != want || n != strings.Count(log.String(), "id=twin") {
			t.Errorf("at revision %d, want %d lines:\n%s", revision, want, log.String())
		}
	}
	said(5, 0)
	said(5, 0)
	said(6, 1)
	if !strings.Contains(log.String(), "address=h:1") || !strings.Contains(log.String(), "correct -advertise") {
		t.Error(log.String())
	}
	said(7, 1)
	said(8, 1)

	e.address, e.sharing = "", map[string]int64{} // of those that can be reached nowhere
	for revision := range int64(3) {
		e.compare([]leader.NodeKey{{Node: leader.Node{ID: "too"}, Revision: revision}})
	}
	if strings.Contains(log.String(), "id=too") {
		t.Error(log.String())
	}
}

// Clients are sent to the leader, and never to this daemon or its address.
func TestWhereClientsAreSent(t *testing.T) {
	t.Parallel()
	e := election{id: "b", address: "b:1"}
	view := &leader.View{}
	for _, id := range []string{"a", "b", "c", "d"} {
		view.Nodes = append(view.Nodes, leader.NodeKey{Node: leader.Node{ID: id, Redis: id + ":1"}})
	}
	view.Leaders[1].Node = leader.Node{ID: "a", Redis: "a:1"}
	view.Leaders[2].Node = leader.Node{ID: "b", Redis: "b:1"}
	view.Leaders[3].Node = leader.Node{ID: "c", Redis: "c:1"}
	view.Leaders[4].Node = leader.Node{ID: "e", Redis: "b:1"} // before it was restarted
	view.Leaders[6].Node = leader.Node{ID: "b", Redis: "g:1"} // as it was before
	view.Leaders[5].Node = leader.Node{ID: "f", Redis: "f:1"} // whose key is gone
	for g, want := range []string{"", "a:1", "", "c:1", "", "f:1", ""} {
		if got := e.other(view, g); got != want {
			t.Errorf("group %d: %q, want %q", g, got, want)
		}
	}
}

// Who follows is ready as long as the leader answers, and for a while longer.
func TestLeadersOutOfReach(t *testing.T) {
	w := &watched{failing: map[string]failing{"10.0.0.4:11212": {time.Now(), errors.New("no route")}}}
	if err := w.ready(); err != nil {
		t.Errorf("at once: %v", err)
	}
	w.failing["10.0.0.5:11212"] = failing{time.Now().Add(-unreadyAfter), errors.New("no route")}
	if err := w.ready(); err == nil ||
		!strings.Contains(err.Error(), "led by 10.0.0.5:11212, which has not answered for 1") ||
		!strings.Contains(err.Error(), "no route") {
		t.Errorf("after %v: %v", unreadyAfter, err)
	}
}

// Redis's clients are sent to the leader of the timestamps in a slot, if it has no other sequence.
func TestTheSlotsOfTimestamps(t *testing.T) {
	e := &election{id: "me", known: map[string]*strictSequence{}}
	for name, timed := range map[string]bool{"a": true, "b": true, "{b}": false, "c": false, "d": true, "{d}": true} {
		d := counter.Sequence(name)
		if timed {
			d.Time.Layout = "katsubushi"
		}
		e.known[name] = &strictSequence{record: counter.NewRecord(d, "t")}
	}
	if got := e.timedSlots(); !slices.Equal(got, []int{leader.SlotOf("d"), leader.SlotOf("a")}) {
		t.Fatal(got)
	}
	b := &onlyBoard{stolen: -1}
	r := leader.NewRunner(leader.Config{
		Me: leader.Node{ID: "me", Redis: "h:1"}, Board: b, Clock: func() int64 { return 1 },
		Log: slog.New(slog.DiscardHandler), Begin: func(leader.Term) {}, End: func(leader.Term) {},
	})
	for g := range leader.MaxGroups {
		at := "plain:1"
		if leader.Timed(g) {
			at = "timed:1"
		}
		r.View().Leaders[g].Node = leader.Node{ID: at, Redis: at}
	}
	e.runner.Store(r)
	got := map[string][]protocol.Slots{}
	for _, n := range (&Names{sequences: sequences{election: e}}).Topology().Nodes {
		got[n.Host] = n.Slots
	}
	_, end := leader.SlotsOf(leader.Groups - 1)
	a, d := leader.SlotOf("a"), leader.SlotOf("d")
	plain := []protocol.Slots{{First: 0, Last: d - 1}, {First: d + 1, Last: a - 1}, {First: a + 1, Last: end}}
	if !slices.Equal(got["plain"], plain) || !slices.Equal(got["timed"], []protocol.Slots{{First: d, Last: d},
		{First: a, Last: a}}) {
		t.Errorf("%+v", got)
	}
}

// A daemon whose clock is away from those of two others is not ready, says by how much, and leads no timestamps. From
// when it is right again, it is ready.
func TestReadinessOfAWrongClock(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		-time.Hour: "its clock is 1h0m0s ahead of", 20 * time.Second: "its clock is 20s behind the", time.Second: "",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &onlyBoard{stolen: -1, others: []leader.NodeKey{{Node: leader.Node{ID: "x", Redis: "x:1"}},
				{Node: leader.Node{ID: "y", Redis: "y:1"}}}}
			began := time.Now()
			e := &election{forward: newForwarders()}
			r := leader.NewRunner(leader.Config{
				Me: leader.Node{ID: "me", Redis: "h:1"}, Board: b, Clock: func() int64 { return int64(time.Since(began)) + 1 },
				Log: slog.New(slog.DiscardHandler), Begin: func(leader.Term) {}, End: func(leader.Term) {},
				Wall: func() int64 { return time.Now().UnixNano() },
			})
			group := leader.TimedGroupOf("tx")
			r.SetTimed(group)
			e.runner.Store(r)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Run(ctx) }()
			defer func() {
				cancel()
				<-ended
			}()
			says := func(want string) {
				t.Helper()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				err := e.ready()
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("%v ahead: %v, want %q", ahead, err, want)
				}
				if leads := r.Until(group) != 0; leads == (want != "") {
					t.Errorf("%v ahead: it leads: %v", ahead, leads)
				}
			}
			says("")
			b.set(ahead)
			says(want)
			b.set(0)
			says("")
		})
	}
}

// set sets how far ahead the others' clocks are.
func (b *onlyBoard) set(ahead time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead = ahead
}
