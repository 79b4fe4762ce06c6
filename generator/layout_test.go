package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

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
	} else if !strings.HasPrefix(text, "{") {
		return ParseLayout(text)
	}
	return l, json.Unmarshal([]byte(text), &l)
}

func kindOf(name string) TextKind {
	return textKinds[slices.IndexFunc(textKinds, func(k TextKind) bool { return k.String() == name })]
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
		if back, err := l.Compose(p); back != id || err != nil || l.AtPosition(l.PositionOf(id), p.Worker) != id {
			t.Errorf("%d came apart as %v at %d and together as %d, %v", id, p, l.PositionOf(id), back, err)
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
			if again, err := layoutOf(l.Name); l.Name != "" && again != l {
				t.Errorf("%s is %+v, %v", l.Name, again, err)
			}
			return l.Fingerprint() + " of " + l.String(), err
		},
		"in-row": func(text string) (uint64, error) {
			l, err := layoutOf(text)
			return l.InRow(time.Second), err
		},
		"text": func(kind, text string) (string, error) {
			l, err := layoutOf(text)
			if err != nil {
				return "", err
			}
			made, err := NewTextLayout(kindOf(kind), l)
			if err != nil {
				return "", err
			}
			at := Parts{Time: time.Date(2026, 11, 22, 1, 2, 3, 456e6, time.UTC), Worker: 0x2a5 & l.MaxWorker(),
				Sequence: 0x3c1 & l.MaxSequence()}
			number, err := l.Compose(at)
			return fmt.Sprintf("%s, of it %d bits are random", made.Make(number, 0xfedcba9876543210).Append(nil, 0),
				made.RandomBits()), err
		},
		"text-time": func(kind string, ms int64) error {
			made, err := NewTextLayout(kindOf(kind), Katsubushi())
			return errors.Join(err, made.CheckTime(ms))
		},
		"uuid4": func() string { return string(UUID4(0x0123456789abcdef, 0xfedcba9876543210).Append(nil, 0)) },
	}
	steps.Run(t, "testdata/layouts.txt", func(*testing.T) steps.Calls { return calls })
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
