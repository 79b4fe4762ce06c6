package names

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
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

// inMemory gives a room a store of sequences in memory, and a clock that goes on in its bubble.
func inMemory(db *memcounter.Database) func(*Names) {
	began := time.Now()
	return func(n *Names) {
		n.openStore = func() (stores.CounterStore, error) { return db.Open(), nil }
		n.boot = func() int64 { return int64(time.Since(began)) + 1 }
		n.moment = n.boot
	}
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
		}, inMemory(memcounter.NewDatabase()))
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
			db := memcounter.NewDatabase()
			a, line := newAsker(t, "tx", text)
			a.n = room(t, Config{MaxWait: patience, Counters: stores.Counters{Dir: "/"}, Definitions: line}, inMemory(db))
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
				if _, err := stores.Raise(t.Context(), db.Open(), "tx", a.last+1, nil); err != nil {
					t.Fatal(err)
				}
				after(2 * time.Second) // it has heard of it
				for range 50 {
					a.ask(t, 10)
				}
			}
		})
	}
}

// A daemon whose own ids could be the same as recorded timestamps refuses them, and only them.
func TestTimestampsOfAnOwnNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		db, log := memcounter.NewDatabase(), new(logbook)
		own, other := parse(t, "own snowflake layout=katsubushi order=strict node=1").Definition,
			parse(t, "other snowflake layout=katsubushi order=strict node=2").Definition
		record(t, db.Open(), own, other)
		n := room(t, Config{MaxWait: patience, Counters: stores.Counters{Dir: "/"}}, inMemory(db), log.of)
		if got := n.next(t, "own"); !strings.Contains(got, counter.ErrUnusable.Error()) ||
			!strings.Contains(got, "node=1: this daemon's worker ids go up to 1, and its own ids could be the same") {
			t.Error(got)
		}
		if v := n.number(t, "other"); generator.Katsubushi().Decompose(v).Worker != 2 {
			t.Error(v)
		}
		if text := log.take(); strings.Count(text, "ERROR timestamps are refused name=own error=node=1: ") != 1 {
			t.Error(text)
		}
	})
}

// The time is sampled every second, and those who wait for the first one are not left alone.
func TestTheTimeOfTimestamps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBoard()
		n := b.room(t, Config{Definitions: txLine, MaxWait: patience})
		offset := func() time.Duration {
			return time.Duration(time.Now().UnixNano() - n.boot() - n.sequences.time.offset.Load())
		}
		after(3 * time.Second)
		if n.sequences.time.offset.Load() != 0 {
			t.Error("it knows the fleet's time, and takes no part")
		}
		n.Reachable(here)
		if v := n.number(t, "tx"); time.Since(generator.Katsubushi().Decompose(v).Time).Abs() > patience {
			t.Error(v)
		}
		if off := offset(); off != 0 {
			t.Errorf("%v away", off)
		}
		n.sequences.time.offset.Add(int64(time.Hour)) // as a clock that was set
		after(2 * time.Second)
		if off := offset(); off != 0 {
			t.Errorf("%v away after two seconds", off)
		}
	})
}
