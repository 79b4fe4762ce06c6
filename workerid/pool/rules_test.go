package pool

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A pool whose lease is 10 s, with a window of ann's, at 50 s.
var (
	rules  = Rules{W: 5 * time.Second, MaxSkew: 2000}
	meta   = Meta{Epoch: "e", Floor: 20_000, Fingerprint: "f", Lease: 10_000, Epsilon: 5000, Min: 10, Max: 19}
	now    = Moment{Boot: time.Hour, ID: 50_000, Wall: 50_000}
	anns   = Record{Lo: 30_000, Mark: 60_000, Token: "c.2", Owner: "ann"}
	sent   = Sent{Worker: 12, Record: Record{Lo: 30_000, Mark: 62_000, Token: "c.3", Owner: "ann"}, Epoch: "f"}
	holder = Holding{Owner: "ann", Last: anns, Epoch: "e", Unanswered: []Sent{sent}, Mine: func(token string) bool {
		return token[0] == 'c'
	}}
)

// with changes a copy of a record.
func with(r Record, change func(*Record)) string {
	change(&r)
	return r.String()
}

func TestAHolderJudgesItsRecord(t *testing.T) {
	for what, x := range map[string]struct {
		text  string
		want  Verdict
		found Sent
	}{
		"as it was left":          {anns.String(), Held, Sent{Record: anns, Epoch: "e"}},
		"a write without answer":  {sent.Record.String(), Held, sent},
		"it is gone":              {"", RolledBack, Sent{}},
		"unreadable":              {"?", RolledBack, Sent{}},
		"an older own one":        {with(anns, func(r *Record) { r.Token, r.Mark = "c.1", 59_000 }), RolledBack, Sent{}},
		"another mark, own token": {with(anns, func(r *Record) { r.Mark++ }), RolledBack, Sent{}},
		"a copy of this process":  {with(anns, func(r *Record) { r.Token = "d.1" }), Copied, Sent{}},
		"a successor": {with(anns, func(r *Record) {
			r.Owner, r.Token, r.Mark = "bob", "d.1", 60_000
		}), Taken, Sent{}},
		"an earlier owner": {with(anns, func(r *Record) {
			r.Owner, r.Token, r.Mark = "bob", "d.1", 59_999
		}), RolledBack, Sent{}},
		"given back by an older I": {with(anns, func(r *Record) { r.Owner, r.Token = "", "c.1" }), RolledBack, Sent{}},
	} {
		if got, found := rules.Judge(holder, x.text); got != x.want || found != x.found {
			t.Errorf("%s: %v, %+v, want %v", what, got, found, x.want)
		}
	}
	if rules.Returns(sent, meta) || !rules.Returns(Sent{Epoch: "e"}, meta) {
		t.Error("a lane comes back after a change of the epoch, or not without one")
	}
}

func TestANewcomerTakesWhatStoodStill(t *testing.T) {
	still := anns.String()
	moved := with(anns, func(r *Record) { r.Token = "c.1" })
	latest := with(anns, func(r *Record) { r.Mark = now.ID + meta.Lease + rules.MaxSkew })
	tooLate := with(anns, func(r *Record) { r.Mark = now.ID + meta.Lease + rules.MaxSkew + 1 })
	for what, x := range map[string]struct {
		before, after, present string
		want                   bool
	}{
		"it stood still":                   {still, still, "", true},
		"its owner lives":                  {still, still, Presence{Owner: "ann", Addr: "h:1"}.String(), false},
		"an earlier owner lives":           {still, still, Presence{Owner: "bob", Addr: "h:1"}.String(), true},
		"an unreadable presence":           {still, still, "?", true},
		"it moved":                         {moved, still, "", false},
		"it came":                          {"", still, "", false},
		"it went":                          {still, "", "", false},
		"unreadable":                       {"?", "?", "", false},
		"as far ahead as clocks may be":    {latest, latest, "", true},
		"a mark that no good clock writes": {tooLate, tooLate, "", false},
	} {
		if got := rules.Vacant(x.before, x.after, x.present, meta, now); got != x.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A window begins above what was recorded and above the floor, and has no tick that is not there yet.
func TestWindows(t *testing.T) {
	past := Record{Lo: 1, Mark: 40_000, Owner: "bob", Token: "d.1"}
	for _, x := range []struct {
		floor    int64
		rec      Record
		now      int64
		lo, mark int64
	}{
		{20_000, past, 50_000, 40_002, 60_000},
		{45_000, past, 50_000, 45_002, 60_000},
		{20_000, past, 40_002, 40_002, 50_002},
		{20_000, past, 40_001, 40_002, 40_001}, // empty: it begins in the future
		{20_000, Record{}, 50_000, 20_002, 60_000},
	} {
		m, at := meta, now
		m.Floor, at.ID = x.floor, x.now
		want := Record{Lo: x.lo, Mark: x.mark, Token: "c.9", Owner: "ann"}
		if got := rules.Take(x.rec, m, "ann", "c.9", at); got != want {
			t.Errorf("floor %d, at %d: %+v, want %+v", x.floor, x.now, got, want)
		}
	}
	// An extension never lowers the mark, whatever the clock says.
	for id, mark := range map[int64]int64{29_999: 60_000, 30_000: 60_000, 50_000: 60_000, 50_001: 60_001} {
		at := now
		at.ID = id
		if got := rules.Extend(anns, meta, "c.9", at); got != (Record{Lo: 30_000, Mark: mark, Token: "c.9", Owner: "ann"}) {
			t.Errorf("extended at %d: %+v", id, got)
		}
	}
	for last, mark := range map[int64]int64{45_000: 45_000, 29_999: 29_999, 0: 29_999} {
		if got := rules.Release(anns, last, "c.9"); got != (Record{Lo: 30_000, Mark: mark, Token: "c.9"}) {
			t.Errorf("released at %d: %+v", last, got)
		}
	}
}

// The floor rises above the own window, above every window that a good clock can have written, and never
// falls.
func TestTheFloor(t *testing.T) {
	for _, x := range []struct{ floor, hi, id, wall, want int64 }{
		{20_000, 60_000, 50_000, 50_000, 65_000},
		{20_000, 60_000, 40_000, 50_000, 65_000},
		{20_000, 60_000, 50_000, 40_000, 65_000},
		{20_000, 70_000, 50_000, 50_000, 70_000},
		{80_000, 70_000, 50_000, 50_000, 80_000},
	} {
		m := meta
		m.Floor = x.floor
		got := rules.Raise(m, x.hi, "e2", Moment{ID: x.id, Wall: x.wall})
		m.Floor, m.Epoch = x.want, "e2"
		if got != m {
			t.Errorf("%+v: %+v", x, got)
		}
		before := m
		before.Floor = x.want - raiseLasts - 1
		if rules.Raised(before, x.hi, Moment{ID: x.id, Wall: x.wall}) && x.floor < x.want {
			t.Errorf("%+v: a floor of %d, raised too long ago, counts", x, before.Floor)
		}
		if !rules.Raised(m, x.hi, Moment{ID: x.id, Wall: x.wall}) {
			t.Errorf("%+v: the floor that was just raised does not count", x)
		}
	}
	m := meta
	m.Floor = 64_000 // a second ago
	if !rules.Raised(m, 64_000, now) || rules.Raised(m, 64_001, now) {
		t.Error("a raised floor counts for a window above it, or not for one below")
	}
	for floor, want := range map[int64]bool{59_999: false, 60_000: true} {
		m.Floor = floor
		if rules.Covered(m, "", 60_000) != want || !rules.Covered(m, anns.String(), 60_000) ||
			rules.Covered(m, anns.String(), 60_001) {
			t.Errorf("covered by a floor of %d, or by a record", floor)
		}
	}
}

func TestVacantWorkerIDsAreSorted(t *testing.T) {
	at := func(mark int64) string { return Record{Mark: mark, Lo: 1, Token: "t"}.String() }
	records := map[uint64]string{10: at(60_000), 11: at(55_000), 12: at(21_000), 13: at(22_000), 14: at(23_000)}
	workers := []uint64{10, 11, 12, 13, 14}
	rules.Order(workers, records, meta, "ann", now)
	if !slices.Equal(workers[3:], []uint64{11, 10}) {
		t.Errorf("%v: those that begin in the future come last, the earliest first", workers)
	}
	firsts := map[uint64]bool{}
	for owner := range 100 {
		rules.Order(workers, records, meta, string(rune('a'+owner)), now)
		firsts[workers[0]] = true
	}
	if len(firsts) != 3 {
		t.Errorf("100 owners begin with %v, of the three that can issue at once", firsts)
	}
}

// The clock is compared with holders whose marks moved, and with nobody else.
func TestSkew(t *testing.T) {
	mark := func(owner string, clock int64) string {
		return Record{Lo: 1, Mark: clock + meta.Lease, Token: "t", Owner: owner}.String()
	}
	apart := 3 * time.Second
	for _, x := range []struct {
		clock, ahead int64 // of a holder, at the second reading
		bad          bool
	}{
		{52_000, 2000, false}, {52_001, 2001, true}, {50_000, 0, false}, {47_000, 0, false}, {46_999, -1, false},
		{45_000, -2000, false}, {44_999, -2001, true},
	} {
		before := map[uint64]string{10: mark("ann", x.clock-3000), 11: mark("bob", 0), 12: mark("eve", 1000),
			13: mark("", 500)}
		after := map[uint64]string{10: mark("ann", x.clock), 11: mark("bob", 0), 12: mark("joe", 2000), 13: mark("", 1000),
			14: mark("new", 5000)}
		ahead, holders, err := rules.Skew(before, after, meta, apart, now)
		if want := time.Duration(x.ahead) * time.Millisecond; holders != 1 || ahead != want || (err != nil) != x.bad ||
			x.bad && !errors.Is(err, workerid.ErrSkew) {
			t.Errorf("a clock at %d: %v ahead, %d holders, %v", x.clock, ahead, holders, err)
		}
	}
	if _, holders, err := rules.Skew(nil, map[uint64]string{10: mark("ann", 0)}, meta, apart, now); holders != 0 ||
		err != nil {
		t.Error(holders, err)
	}
}

func TestTimesOfAWatch(t *testing.T) {
	if w := WatchOf(2*time.Second, time.Second); w != 4200*time.Millisecond {
		t.Errorf("watched for %v", w)
	}
	if rules.Watch(true) != rules.W || rules.Watch(false) != rules.W || !rules.Fresh(rules.W) || rules.Fresh(rules.W+1) {
		t.Error("W is not what a watch takes, or how long a write needs none")
	}
}
