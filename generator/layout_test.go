package generator

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"
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

func TestGoldenIDs(t *testing.T) {
	for _, c := range []struct {
		what   string
		layout Layout
		id     uint64
		parts  Parts
	}{
		{"katsubushi, the first id", Katsubushi(), 0, Parts{Time: time.UnixMilli(1420070400000)}},
		{"katsubushi, 1 ms of worker 1", Katsubushi(), 1<<22 | 1<<12, Parts{Time: time.UnixMilli(1420070400001), Worker: 1}},
		{"katsubushi, a full one", Katsubushi(), math.MaxInt64,
			Parts{Time: time.UnixMilli(1420070400000 + 1<<41 - 1), Worker: 1023, Sequence: 4095}},
		// The tweet that en.wikipedia.org/wiki/Snowflake_ID explains.
		{"twitter, @Wikipedia in June 2022", Twitter(), 1541815603606036480,
			Parts{Time: time.Date(2022, 6, 28, 16, 7, 40, 105e6, time.UTC), Worker: 378}},
		// "Sharding & IDs at Instagram" (2012): 1,387,263,000 ms after the epoch, user 31341 of
		// 2000 shards, the table's 5001st row.
		{"instagram, the article's example", Instagram(), 1387263000<<23 | 1341<<10 | 905,
			Parts{Time: time.UnixMilli(1314220021721 + 1387263000), Worker: 31341 % 2000, Sequence: 5001 % 1024}},
		{"instagram, the sign bit", Instagram(), 1 << 63, Parts{Time: time.UnixMilli(1314220021721 + 1<<40)}},
		{"worker id in front, the last one", front(), 5<<53 | 1<<12 | 7,
			Parts{Time: time.UnixMilli(1420070400001), Worker: 5, Sequence: 7}},
		{"js53, the largest safe integer", JS53(), 1<<53 - 1,
			Parts{Time: time.UnixMilli(1420070400000 + 1<<41 - 1), Worker: 31, Sequence: 127}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.parts.Time = c.parts.Time.UTC()
			if got := c.layout.Decompose(c.id); got != c.parts {
				t.Errorf("Decompose(%d) = %v, want %v", c.id, got, c.parts)
			}
			if got, err := c.layout.Compose(c.parts); got != c.id || err != nil {
				t.Errorf("Compose = %d, %v, want %d", got, err, c.id)
			}
		})
	}
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

func TestFingerprint(t *testing.T) {
	if got, want := Sonyflake().Fingerprint(),
		"epoch=1409529600000;unit=10ms;bits=39/16/8;order=time,sequence,worker"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	renamed := Katsubushi()
	renamed.Name = ""
	if renamed.Fingerprint() != Katsubushi().Fingerprint() || renamed.String() != renamed.Fingerprint() {
		t.Error("the name is no part of the fingerprint, and an unnamed layout is called by it")
	}
	for what, change := range map[string]func(*Layout){
		"epoch":    func(l *Layout) { l.Epoch++ },
		"unit":     func(l *Layout) { l.Unit++ },
		"time":     func(l *Layout) { l.TimeBits-- },
		"worker":   func(l *Layout) { l.WorkerBits-- },
		"sequence": func(l *Layout) { l.SequenceBits-- },
		"low":      func(l *Layout) { l.WorkerLow = true },
		"high":     func(l *Layout) { l.WorkerHigh = true },
	} {
		l := Katsubushi()
		change(&l)
		if l.Fingerprint() == Katsubushi().Fingerprint() {
			t.Errorf("%s is missing", what)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, l := range []Layout{
		{},
		{Unit: 0, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		{Unit: 60001, TimeBits: 41, WorkerBits: 10, SequenceBits: 12},
		{Unit: 1, TimeBits: 0, WorkerBits: 10, SequenceBits: 12},
		{Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 0},
		{Unit: 1, TimeBits: 43, WorkerBits: 10, SequenceBits: 12},
		{Unit: 1, TimeBits: 51, WorkerBits: 0, SequenceBits: 12},
		{Unit: 1, TimeBits: 255, WorkerBits: 255, SequenceBits: 255},
		{Unit: 60000, TimeBits: 50, WorkerBits: 2, SequenceBits: 12},
		{Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Epoch: math.MinInt64},
		{Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12, Epoch: math.MaxInt64},
		{Unit: 1, TimeBits: 41, WorkerBits: 10, SequenceBits: 12, WorkerLow: true, WorkerHigh: true},
	} {
		if l.Check() == nil {
			t.Errorf("%+v passed", l)
		}
		if _, err := NewSnowflake(Options{Layout: l}); err == nil {
			t.Errorf("%+v made a generator", l)
		}
	}
}

func TestCheckTime(t *testing.T) {
	l := Katsubushi()
	for ms, want := range map[int64]string{
		l.Epoch:     "",
		l.End() - 1: "",
		l.Epoch - 1: "generator: 2014-12-31T23:59:59Z is before the epoch of layout katsubushi, 2015-01-01T00:00:00Z",
		l.End(): "generator: 2084-09-06T15:47:35Z is past the time field of layout katsubushi, which ends at " +
			"2084-09-06T15:47:35Z",
		math.MinInt64: "before the epoch",
		math.MaxInt64: "past the time field",
	} {
		err := l.CheckTime(ms)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckTime(%d) = %v, want %q", ms, err, want)
		}
	}
}

func TestComposeRefuses(t *testing.T) {
	l := Katsubushi()
	for _, p := range []Parts{
		{Time: time.UnixMilli(l.Epoch - 1)},
		{Time: time.UnixMilli(l.End())},
		{Time: time.UnixMilli(l.Epoch), Worker: 1024},
		{Time: time.UnixMilli(l.Epoch), Sequence: 4096},
	} {
		if id, err := l.Compose(p); err == nil {
			t.Errorf("%v composed to %d", p, id)
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
