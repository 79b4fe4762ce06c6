package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

const (
	strictLine = "orders sequence order=strict"
	txLine     = "tx snowflake layout=katsubushi order=strict node=1000"
)

// Two daemons lead in turns, each until it hands over, and values go on without a gap.
func TestLeadingInTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newBoard(), new(logbook)
		first, second := b.lead(t, Config{Definitions: strictLine, MaxWait: time.Second}, log.of)
		for want := range 3 {
			if got := first.next(t, "orders"); got != fmt.Sprint(want+1) {
				t.Errorf("%s, want %d", got, want+1)
			}
		}
		if got := second.next(t, "orders"); !strings.HasPrefix(got, "sequence orders: no value from its leader "+here) {
			t.Error(got)
		}
		f := second.all()
		if sent := f["forward_requests_total"].(uint64); sent < 1 || sent > 1000 || f["forward_failures_total"] != sent ||
			f["forward_values_total"] != uint64(0) {
			t.Error(f)
		}
		_, end := leader.SlotsOf(leader.Groups - 1)
		everything := []protocol.Slots{{First: 0, Last: end}}
		host := map[string]string{first.sequences.election.id: "127.0.0.1", second.sequences.election.id: "127.0.0.2"}
		shows := func(n *Names, leads string, epoch uint64, nodes int) {
			t.Helper()
			top := n.Topology()
			if top.Self != n.sequences.election.id || top.Nodes[0].ID != top.Self || len(top.Nodes) != nodes ||
				top.Epoch != epoch {
				t.Errorf("%+v", top)
			}
			for _, node := range top.Nodes {
				if want := node.Host == leads; node.Port != 1 || host[node.ID] != node.Host ||
					want != slices.Equal(node.Slots, everything) || !want && node.Slots != nil {
					t.Errorf("%+v", node)
				}
			}
		}
		for _, n := range []*Names{first, second} {
			shows(n, "127.0.0.1", leader.Groups, 2)
		}
		log.take()
		first.HandOver()
		after(3 * time.Second)
		shows(first, "127.0.0.2", 2*leader.Groups, 2)
		shows(second, "127.0.0.2", 2*leader.Groups, 1)
		if got := second.next(t, "orders"); got != "4" {
			t.Error(got)
		}
		if text := log.take(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
			t.Error(text)
		}
		first.HandOver() // again: nothing happens
		second.HandOver()
		after(3 * time.Second)
		if got := second.next(t, "orders"); got != "5" { // it leads on
			t.Error(got)
		}
		if text := log.take(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
			t.Error(text)
		}
		shows(second, "127.0.0.2", 2*leader.Groups, 1)
	})
}

// Names that are declared while the daemon leads are led at once; those of a daemon that knew none begin its part.
func TestDeclaredWithinATerm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newBoard(), new(logbook)
		n := b.room(t, Config{MaxWait: patience}, log.of)
		n.Reachable(here)
		after(10 * time.Second)
		if _, elects := n.Leads(); elects {
			t.Error("it takes part in an election of nothing")
		}
		for _, line := range []string{strictLine, txLine, "bills sequence order=strict batch=7"} {
			if _, created, err := n.Create(t.Context(), parse(t, line)); err != nil || !created {
				t.Fatal(created, err)
			}
			name, _, _ := strings.Cut(line, " ")
			before := n.number(t, name)
			if after := n.number(t, name); after <= before {
				t.Errorf("%d after %d", after, before)
			}
			after(10 * time.Second)
		}
		s, known := n.sequences.keeper.Status("bills")
		if !known || s.Block != 7 {
			t.Errorf("%+v", s)
		}
		fresh := parse(t, "fresh sequence order=strict")
		n.declaring.Lock() // of what is recorded it does not learn meanwhile
		err := n.declare([]kinds.Definition{fresh, parse(t, "bills sequence order=strict start=2")})
		known = n.sequences.election.known["fresh"] != nil
		n.declaring.Unlock()
		if log.take(); !errors.As(err, new(*kinds.DifferentError)) || known {
			t.Error("what was declared with another that is wrong is known:", err)
		}
		if _, _, err := n.Create(t.Context(), fresh); err != nil || n.next(t, "fresh") != "1" {
			t.Error(err)
		}
		if text := log.take(); strings.Contains(text, "ERROR") {
			t.Error(text)
		}
	})
}

// A daemon that the others cannot reach follows, and says so: as an error, if it was meant to lead.
func TestADaemonWithoutAnAddressFollows(t *testing.T) {
	for _, unreachable := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			b, log := newBoard(), new(logbook)
			free := b.room(t, Config{Definitions: strictLine}, log.of, func(n *Names) { n.given.Unreachable = unreachable })
			free.Reachable("")
			after(10 * time.Second)
			said := log.take()
			level := map[bool]string{false: "WARN", true: "ERROR"}[unreachable]
			if strings.Count(said, level+" this daemon leads no sequence, ") != 1 {
				t.Error(said)
			}
			free.shows(t, map[string]any{"leader_terms_total": uint64(0), "leader_groups": 0})
			leads := b.room(t, Config{Definitions: strictLine})
			leads.Reachable(here)
			after(10 * time.Second)
			if n, _ := leads.Leads(); n != leader.Groups {
				t.Errorf("the other one leads %d groups", n)
			}
			if _, groups := free.Leaders(); len(groups) != 1 || groups[0].Leader != here || groups[0].Mine {
				t.Errorf("%+v", groups)
			}
		})
	}
}

// A leader with a daemon's own address cannot be asked: it was killed, and restarted at once. Clients are not
// sent there, and of two daemons that live with one address the log tells.
func TestALeaderWithTheSameAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard()
		var logs [2]logbook
		var all [2]*Names
		for i := range all {
			all[i] = b.room(t, Config{Definitions: strictLine}, logs[i].of)
			all[i].Reachable(here)
			after(10 * time.Second)
		}
		if got := all[1].next(t, "orders"); !strings.HasPrefix(got, "sequence orders: no daemon has led it for ") {
			t.Error(got)
		}
		if top := all[1].Topology(); len(top.Nodes) != 1 || top.Nodes[0].ID != top.Self {
			t.Errorf("%+v", top)
		}
		for i := range logs { // each of the two
			if text := logs[i].take(); strings.Count(text, "ERROR another daemon has the address of this one") != 1 {
				t.Error(text)
			}
		}
	})
}

// Of an etcd that was restored into a new cluster nothing is learnt: readiness and the answers to clients say that the
// daemon must be restarted. Sequences in free order are served.
func TestRestoredIntoANewCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newBoard(), new(logbook)
		n := b.room(t, Config{Definitions: strictLine + "; free sequence", MaxWait: time.Second}, log.of)
		n.Reachable(here)
		after(10 * time.Second)
		if err := n.Ready(); err != nil || n.next(t, "orders") != "1" {
			t.Error(err)
		}
		why := fmt.Errorf("%w: this is cluster 2", leader.ErrReplaced)
		b.fail(why)
		after(10 * time.Second)
		if err := n.Ready(); err == nil || err.Error() != "sequences with order=strict are refused: "+why.Error() {
			t.Error(err)
		}
		if got := n.next(t, "orders"); !strings.Contains(got, why.Error()) {
			t.Error(got)
		}
		if got := n.next(t, "free"); got != "1" {
			t.Error(got)
		}
		b.fail(nil)
		after(10 * time.Second)
		if err := n.Ready(); err != nil || n.next(t, "orders") != "2" {
			t.Error(err)
		}
	})
}

// What an operator demands is done once, or answered, within seconds; of a term that is over it is void.
func TestDemands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, log := newBoard(), new(logbook)
		n := b.room(t, Config{Definitions: strictLine, MaxWait: time.Second}, log.of)
		n.Reachable(here)
		after(10 * time.Second)
		leave := func(d leader.Demand) (answer string) {
			t.Helper()
			if err := b.Leave(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			after(3 * time.Second)
			b.change(func() { answer = b.demands[d.Group].Answer })
			return answer
		}
		g := leader.GroupOf("orders")
		for range 2 { // also when it is asked again
			log.take()
			if got := leave(leader.Demand{Group: g, Term: 1}); got != leader.ErrAlone.Error() {
				t.Errorf("alone: %q", got)
			}
			if text := log.take(); strings.Count(text, "WARN not handed over, although an operator asked") != 1 {
				t.Error(text)
			}
		}
		second := b.room(t, Config{Definitions: strictLine, MaxWait: time.Second})
		second.Reachable(there)
		after(3 * time.Second)
		for _, void := range []leader.Demand{{Group: g, Term: 7}, {Group: g}, {Group: g, Term: 1, Answer: "no"},
			{Group: leader.Groups}} {
			if leave(void); log.take() != "" {
				t.Errorf("%+v is not void", void)
			}
		}
		b.change(func() { b.demands = map[int]leader.Demand{} })
		for range 2 {
			var term uint64
			b.change(func() { term = b.Leaders[g].Number })
			if got := leave(leader.Demand{Group: g, Term: term}); got != "" {
				t.Errorf("answered: %s", got)
			}
			if leads, _ := second.Leads(); leads != int(term%2) {
				t.Errorf("term %d, and the other one leads %d groups", term, leads)
			}
		}
		if text := log.take(); strings.Count(text, "INFO handed over, as an operator asked groups=["+fmt.Sprint(g)) != 1 {
			t.Error(text)
		}
	})
}

// A daemon that stops gives back what it has not issued, and the next one goes on there. If its store is gone, it says
// what follows.
func TestTheEndOfAnElection(t *testing.T) {
	closed(t, Config{}).HandOver() // without a store
	b, log := newBoard(), new(logbook)
	var n *Names
	for life := range 2 {
		bubble(t, func(t *testing.T) {
			n = b.room(t, Config{Definitions: strictLine + ";" + txLine, MaxWait: patience}, log.of)
			n.Reachable(here)
			if got := n.next(t, "orders"); got != fmt.Sprint(life+1) {
				t.Errorf("%s in life %d", got, life)
			}
		})
		if text := log.take(); strings.Contains(text, "WARN") {
			t.Error(text)
		}
		if err := n.sequences.election.forward[0].Ping(t.Context(), here); err == nil || err.Error() != "the daemon stops" {
			t.Error("connections are open:", err)
		}
	}
	bubble(t, func(t *testing.T) {
		first, _ := b.lead(t, Config{Definitions: strictLine, MaxWait: patience}, log.of)
		b.fail(errDown)
		log.take()
		first.HandOver()
		if text := log.take(); strings.Count(text, "WARN sequences are not handed over yet error=context deadline") != 1 {
			t.Error(text)
		}
	})
	text := log.take()
	if strings.Count(text, "WARN sequences are not handed over: other daemons will lead them in some seconds") != 2 {
		t.Error(text)
	}
}
