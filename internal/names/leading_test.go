package names

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

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
	r := leader.NewRunner(leader.Config{})
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

// all returns the figures of the election, each with its labels.
func (n *Names) all() map[string]any {
	got := map[string]any{}
	n.LeaderFigures(func(f figure.Figure) {
		for _, name := range []string{f.Stat, f.Metric + strings.Join(f.Labels, " ")} {
			if got[name] = f.Value; f.Count != strings.HasSuffix(name, "_total") {
				got[name] = "not of its type"
			}
		}
	})
	return got
}

// shows compares some of the figures.
func (n *Names) shows(t *testing.T, want map[string]any) {
	t.Helper()
	got := n.all()
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
}

// Failed calls and groups that were taken away are counted one by one.
func TestFiguresOfAnElection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard()
		n := b.room(t, Config{Definitions: "orders sequence order=strict; bills sequence order=strict", MaxWait: patience})
		orders, bills := leader.GroupOf("orders"), leader.GroupOf("bills")
		if len(n.all()) > 0 {
			t.Error("figures of no election")
		}
		if leads, groups := n.Leaders(); leads != 0 || groups != nil {
			t.Error("leaders without an election")
		}
		n.Reachable(here)
		b.fail(errDown)
		after(600 * time.Millisecond)
		n.shows(t, map[string]any{
			"leader_failures_total": uint64(3), "leader_groups": 0, "leader_until_ms": time.Duration(0),
		})
		b.fail(nil)
		r, last := n.sequences.election.runner.Load(), false
		for range 400 { // also while some groups are led, and later ones were claimed later
			after(10 * time.Millisecond)
			held, until := 0, int64(0)
			for g := range leader.Groups {
				if u := r.Until(g); u > 0 {
					last = last || until > 0 && u < until
					held, until = held+1, min(u, cmp.Or(until, u))
				}
			}
			left := time.Duration(0)
			if held > 0 {
				left = time.Duration(until - n.boot())
			}
			n.shows(t, map[string]any{"leader_groups": held, "leader_until_ms": left, "leader_until_seconds": left})
		}
		after(10 * time.Second)
		n.shows(t, map[string]any{
			"leader_failures_total": uint64(3), "leader_terms_total": uint64(leader.Groups), "leader_lost_total": uint64(0),
			"leader_handed_over_total": uint64(0), "forward_requests_total": uint64(0),
			fmt.Sprintf("group_%d_leader", orders): here, fmt.Sprintf("leader_termgroup %d", orders): int64(1),
			fmt.Sprintf("leader_missing_secondsgroup %d", bills): n.all()[fmt.Sprintf("group_%d_leader_missing_ms", bills)],
		})
		renewals := n.all()["leader_renewals_total"].(uint64)
		b.change(func() {
			b.revision++
			b.Leaders[orders] = leader.Leader{Node: leader.Node{ID: "thief", Redis: there}, Number: 2, Revision: b.revision}
		})
		after(3 * time.Second)
		n.shows(t, map[string]any{
			"leader_failures_total": uint64(3), "leader_lost_total": uint64(1), "leader_groups": leader.Groups - 1,
			fmt.Sprintf("group_%d_leader", orders): there, fmt.Sprintf("group_%d_leader_term", orders): int64(2),
		})
		if now := n.all()["leader_renewals_total"].(uint64); now < renewals+2 {
			t.Errorf("%d renewals after %d", now, renewals)
		}
		want := []Group{{bills, here, true, 1}, {orders, there, false, 2}}
		slices.SortFunc(want, func(a, b Group) int { return a.Number - b.Number })
		if leads, groups := n.Leaders(); leads != leader.Groups-1 || !slices.Equal(groups, want) {
			t.Errorf("it leads %d groups, and %+v", leads, groups)
		}
	})
}

// TestTimeWithoutLeader: the time is counted in which nobody issues, and only that.
func TestTimeWithoutLeader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard()
		leads, follows := b.lead(t, Config{Definitions: "orders sequence order=strict", MaxWait: patience})
		missing := func(n *Names) time.Duration {
			return n.all()[fmt.Sprintf("group_%d_leader_missing_ms", leader.GroupOf("orders"))].(time.Duration)
		}
		before, unseen := missing(leads), missing(follows)
		after(10 * time.Second)
		if now := missing(leads); now != before {
			t.Errorf("%v were missing while it led", now-before)
		}
		if now := missing(follows); now != unseen+10*time.Second { // nobody answers there
			t.Errorf("%v were missing without an answer", now-unseen)
		}
		b.fail(errDown)
		after(10 * time.Second) // it may issue for 4.5 s after its last renewal
		if now := missing(leads) - before; now < 5*time.Second || now > 7*time.Second {
			t.Errorf("%v were missing of ten seconds without etcd", now)
		}
	})
}

// Who follows is ready as long as the leader answers, and for a while longer.
func TestLeadersOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard()
		leads, follows := b.lead(t, Config{Definitions: "orders sequence order=strict"})
		const why = "sequences are led by 127.0.0.1:1, which has not answered for "
		var last time.Duration
		for began := time.Now(); last == 0 && time.Since(began) < patience; after(100 * time.Millisecond) {
			if err := follows.Ready(); err != nil {
				if last = time.Since(began); !strings.HasPrefix(err.Error(), why+"10s: ") {
					t.Error(err)
				}
			}
		}
		if last < unreadyAfter-3*time.Second || last > unreadyAfter {
			t.Errorf("unready after %v", last)
		}
		after(7 * time.Second)
		if err := follows.Ready(); err == nil || !strings.HasPrefix(err.Error(), why+"17s: ") {
			t.Error(err)
		}
		if err := leads.Ready(); err != nil {
			t.Error(err)
		}
		leads.HandOver()
		after(3 * time.Second)
		if err := follows.Ready(); err != nil {
			t.Error("it leads itself:", err)
		}
	})
}

// A daemon whose clock is away from those of two others is not ready, says by how much, and leads no timestamps. From
// when it is right again, it is ready.
func TestReadinessOfAWrongClock(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		-time.Hour: "its clock is 1h0m0s ahead of", 20 * time.Second: "its clock is 20s behind the", time.Second: "",
	} {
		bubble(t, func(t *testing.T) {
			b := newBoard()
			b.others = []leader.NodeKey{{Node: leader.Node{ID: "x", Redis: "x:1"}}, {Node: leader.Node{ID: "y", Redis: "y:1"}}}
			n := b.room(t, Config{Definitions: txLine, MaxWait: time.Second})
			n.Reachable(here)
			for _, step := range []struct {
				ahead time.Duration
				want  string
			}{{0, ""}, {ahead, want}, {0, ""}} {
				b.change(func() { b.ahead = step.ahead })
				after(20 * time.Second)
				err := n.Ready()
				if step.want == "" && err != nil || !strings.Contains(fmt.Sprint(err), step.want) {
					t.Errorf("%v ahead: %v, want %q", step.ahead, err, step.want)
				}
				if _, err := strconv.Atoi(n.next(t, "tx")); (err == nil) != (step.want == "") {
					t.Errorf("%v ahead: %v", step.ahead, err)
				}
			}
		})
	}
}
