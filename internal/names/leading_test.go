package names

import (
	"slices"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

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
