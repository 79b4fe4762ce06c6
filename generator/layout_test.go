package generator

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// kayacDump is how kayac/go-katsubushi takes an id apart, written from its documentation: 41 bits
// of milliseconds since 2015, 10 bits of worker id, 12 of sequence.
func kayacDump(id uint64) (t time.Time, worker, sequence uint64) {
	epoch := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	return epoch.Add(time.Duration(id/(1024*4096)) * time.Millisecond), id / 4096 % 1024, id % 4096
}

// front is Katsubushi with the worker id in front.
func front() Layout {
	l := Katsubushi()
	l.Name, l.WorkerHigh = "", true
	return l
}

// layoutOf is the layout that a name or JSON means.
func layoutOf(text string) (l Layout, err error) {
	if text == "front" {
		return front(), nil
	} else if text[0] != '{' {
		return LayoutByName(text)
	}
	return l, json.Unmarshal([]byte(text), &l)
}

// TestLayouts: how ids are taken apart and put together, and what is refused.
func TestLayouts(t *testing.T) {
	check := func(text string) error {
		l, err := layoutOf(text)
		if err != nil {
			return err
		}
		if _, cannot := NewSnowflake(Options{Layout: l}); cannot == nil {
			t.Errorf("%+v made a generator", l)
		}
		return l.Check()
	}
	apart := func(text string, id uint64) (string, error) {
		l, err := layoutOf(text)
		p := l.Decompose(id)
		if back, err := l.Compose(p); back != id || err != nil {
			t.Errorf("%d came apart as %v and together as %d, %v", id, p, back, err)
		}
		return fmt.Sprintf("%s, worker %d, sequence %d", p.Time.Format(time.RFC3339Nano), p.Worker, p.Sequence), err
	}
	calls := steps.Calls{"apart": apart, "check": check,
		"compose": func(ms int64, worker, sequence uint64) (uint64, error) {
			return Katsubushi().Compose(Parts{Time: time.UnixMilli(ms), Worker: worker, Sequence: sequence})
		},
		"time": func(ms int64) error { return Katsubushi().CheckTime(ms) },
		"fingerprint": func(text string) (string, error) {
			l, err := layoutOf(text)
			return l.Fingerprint() + " of " + l.String(), err
		},
	}
	steps.Run(t, "testdata/layouts.txt", func(*testing.T) steps.Calls { return calls })
}

func TestGeneratedIDsDecodeAsKayacDumps(t *testing.T) {
	for _, now := range []int64{1420070400000, 1420070400001, 1732060800123, 1420070400000 + 1<<41 - 1} {
		for _, worker := range []uint64{0, 1, 7, 512, 1023} {
			s := mustNew(t, Options{Layout: Katsubushi(), Worker: worker, Lo: now, Hi: now})
			for seq := range uint64(4096) {
				r := mustTake(t, s, now, now, 1)
				at, w, q := kayacDump(r.First)
				if at.UnixMilli() != now || w != worker || q != seq {
					t.Fatalf("id %d dumps as %v, %d, %d; issued at %d by %d as number %d", r.First, at, w, q, now, worker, seq)
				}
			}
		}
	}
}

// Ids of our Sonyflake layout, in the eyes of Sony's own library.
func TestSonyflakeAgrees(t *testing.T) {
	l := Sonyflake()
	sony, err := sonyflake.New(sonyflake.Settings{StartTime: time.UnixMilli(l.Epoch), MachineID: func() (int, error) {
		return 0, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, worker := range []uint64{0, 1, 0xabcd, 65535} {
		for _, ticks := range []int64{1, 2, 32_000_000_000, 1<<39 - 1} {
			lo := l.Epoch + 10*ticks
			s := mustNew(t, Options{Layout: l, Worker: worker, Lo: lo, Hi: lo + 9})
			for seq := 0; seq < 256; seq++ {
				id := mustTake(t, s, lo, lo, 1).First
				want := map[string]int64{"id": int64(id), "time": ticks, "sequence": int64(seq), "machine": int64(worker)}
				for part, v := range sony.Decompose(int64(id)) {
					if w, ok := want[part]; ok && v != w {
						t.Fatalf("worker %d, tick %d, sequence %d: %s is %d", worker, ticks, seq, part, v)
					}
				}
			}
		}
	}
	// And the other way: one of theirs in ours.
	theirs, err := sony.NextID()
	if err != nil {
		t.Fatal(err)
	}
	p := l.Decompose(uint64(theirs))
	if !p.Time.Equal(sony.ToTime(theirs)) || p.Worker != 0 {
		t.Errorf("id %d of theirs is of %v and machine 0, not %v", theirs, sony.ToTime(theirs), p)
	}
}

// bwmarrin/snowflake's default epoch and split are Twitter's.
func TestTwitterAgrees(t *testing.T) {
	l := Twitter()
	now := int64(1732060800123)
	s := mustNew(t, Options{Layout: l, Worker: 11<<5 | 26, Lo: now, Hi: now})
	for seq := range int64(4096) {
		id := snowflake.ParseInt64(int64(mustTake(t, s, now, now, 1).First))
		if id.Time() != now || id.Node() != 378 || id.Step() != seq {
			t.Fatalf("%d: time %d, node %d, step %d", id, id.Time(), id.Node(), id.Step())
		}
	}
}

func TestLayoutsByName(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range Layouts() {
		if err := l.Check(); err != nil {
			t.Errorf("%s: %v", l, err)
		}
		if got, err := LayoutByName(l.Name); got != l || err != nil {
			t.Errorf("LayoutByName(%q) = %v, %v", l.Name, got, err)
		}
		if seen[l.Fingerprint()] {
			t.Errorf("%s: fingerprint %s is taken", l, l.Fingerprint())
		}
		seen[l.Fingerprint()] = true
	}
	if _, err := LayoutByName("ulid"); err == nil || !strings.Contains(err.Error(), "sonyflake") {
		t.Errorf("an unknown name should list the known ones: %v", err)
	}
}

// FuzzCompose: any valid layout puts together what it took apart, and ids are ordered by time first.
func FuzzCompose(f *testing.F) {
	for _, l := range Layouts() {
		f.Add(uint64(1541815603606036480), l.Epoch, l.Unit, l.TimeBits, l.WorkerBits, l.SequenceBits, l.WorkerLow)
	}
	f.Add(uint64(math.MaxUint64), int64(-1<<61), int64(60000), uint8(45), uint8(3), uint8(16), false)
	f.Fuzz(func(t *testing.T, id uint64, epoch, unit int64, tb, wb, sb uint8, low bool) {
		l := Layout{Epoch: epoch, Unit: unit, TimeBits: tb, WorkerBits: wb, SequenceBits: sb, WorkerLow: low}
		if l.Check() != nil {
			return
		}
		if total := tb + wb + sb; total < 64 {
			id &= 1<<total - 1
		}
		p := l.Decompose(id)
		back, err := l.Compose(p)
		if err != nil || back != id {
			t.Fatalf("%+v: %d came apart as %v and together as %d, %v", l, id, p, back, err)
		}
		if p.Time.UnixMilli()+unit < l.End() {
			p.Time = time.UnixMilli(p.Time.UnixMilli() + unit)
			if later, err := l.Compose(p); err != nil || later <= id {
				t.Fatalf("%+v: one tick after %d is %d, %v", l, id, later, err)
			}
		}
	})
}
