package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// marchAndPD are layouts that March's segments allow, and PD's: the node in front, in the middle, behind, absent.
var marchAndPD = []string{
	"node:8,time:41,sequence:14", "time:41,node:8,sequence:14,epoch:1420070400000", "time:41,sequence:14,node:8",
	"time:44,sequence:18", "node:5,time:33,sequence:12,unit:1s", "time:33,node:5,sequence:12,unit:500ms",
}

// An asker asks for timestamps of one name.
type asker struct {
	n      *Names
	name   string
	layout generator.Layout
	last   uint64
}

// newAsker returns an asker for a name with that layout, and the name's definition.
func newAsker(t *testing.T, name, text string) (a *asker, line string) {
	t.Helper()
	l, err := generator.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	line = fmt.Sprintf("%s snowflake layout=%s order=strict", name, text)
	if l.WorkerBits > 0 {
		line += " node=3"
	}
	return &asker{name: name, layout: l}, line
}

// reserve asks for n ids in a row, until there is an answer.
func (a *asker) reserve(n int) (id.Run, error) {
	i := slices.IndexFunc(a.n.Catalog.Names(), func(g *issuer.Name) bool { return g.Name == a.name })
	s := a.n.Catalog.Names()[i].From.Source(0)
	when := id.When{Now: a.n.given.Now(), Moment: s.(id.Punctual).Moment()}
	for {
		run, err := s.(id.Reserver).Reserve(when, n)
		if !errors.Is(err, id.ErrWait) {
			return run, err
		}
		time.Sleep(time.Millisecond)
	}
}

// ask checks n ids: each is at the position above the one before, and all are above those of former calls, of the node,
// and of now.
func (a *asker) ask(t *testing.T, n int) {
	t.Helper()
	run, err := a.reserve(n)
	if err != nil || run.N != n {
		t.Fatalf("%s: %+v, %v", a.layout, run, err)
	}
	first, last := run.First, run.First+uint64(n-1)*run.Stride
	for _, v := range []uint64{first, last} {
		p := a.layout.Decompose(v)
		if away := time.Since(p.Time).Abs(); v <= a.last || p.Worker != 3&a.layout.MaxWorker() || away > patience {
			t.Fatalf("%s: %d after %d, of node %d, %v from now", a.layout, v, a.last, p.Worker, away)
		}
	}
	if a.layout.PositionOf(first)+uint64(n-1) != a.layout.PositionOf(last) {
		t.Fatalf("%s: %d ids up to %d are not in a row", a.layout, n, last)
	}
	a.last = last
}

// Every layout that a name of timestamps may have: all named ones, and segments. So many ids are in a row as fit into
// a tick, or into the run-ahead where the node is not between time and sequence.
func TestTimestampsOfEveryLayout(t *testing.T) {
	texts := marchAndPD
	for _, l := range generator.Layouts() {
		texts = append(texts, l.Name)
	}
	var lines []string
	var all []*asker
	for i, text := range texts {
		a, line := newAsker(t, fmt.Sprint("tx", i), text)
		lines, all = append(lines, line), append(all, a)
	}
	bubble(t, func(t *testing.T) {
		n := room(t, Config{
			MaxWait: patience, Counters: stores.Counters{Dir: "/"}, Definitions: strings.Join(lines, ";"),
		}, func(n *Names) { newBoard().serve(n, false) })
		for _, a := range all {
			a.n = n
			most := 1 << a.layout.SequenceBits
			if l := a.layout; l.WorkerLow || l.WorkerHigh || l.WorkerBits == 0 { // the ticks of the run-ahead
				most = min(most*int(max(1, 1000/l.Unit)), id.MaxReserve)
			}
			for _, n := range []int{1, 2, most, 1} {
				a.ask(t, n)
			}
			if most == id.MaxReserve { // more is no command
				continue
			}
			if _, err := a.reserve(most + 1); err == nil || !strings.Contains(err.Error(), fmt.Sprint("at most ", most)) {
				t.Errorf("%s: %d in a row: %v", a.layout, most+1, err)
			}
		}
	})
}

// A fleet comes from March or from PD: its ids go on above the last one of those, even if that is ahead of the clock,
// and none comes twice: before a client has asked this daemon, and afterwards, when it has a block.
func TestTimestampsGoOnAboveThoseOfOthers(t *testing.T) {
	for _, text := range marchAndPD {
		bubble(t, func(t *testing.T) {
			b := newBoard()
			a, line := newAsker(t, "tx", text)
			a.n = room(t, Config{MaxWait: patience, Counters: stores.Counters{Dir: "/"}, Definitions: line},
				func(n *Names) { b.serve(n, false) })
			l := a.layout
			for i, ahead := range []int64{20_000, 30_000} {
				// As March or PD made it: the parts behind each other, of a clock that is ahead.
				tick := uint64((time.Now().UnixMilli() + ahead - l.Epoch) / l.Unit)
				sequence := uint64(4 + i)
				a.last = tick<<l.SequenceBits | sequence
				switch {
				case l.WorkerHigh:
					a.last |= 3 << (l.TimeBits + l.SequenceBits)
				case l.WorkerLow:
					a.last = a.last<<l.WorkerBits | 3
				case l.WorkerBits > 0:
					a.last = (tick<<l.WorkerBits|3)<<l.SequenceBits | sequence
				}
				if _, err := stores.Raise(t.Context(), b.db.Open(), "tx", a.last+1, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second) // it has heard of it
				for range 50 {
					a.ask(t, 10)
				}
			}
		})
	}
}
