package issuer

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// A sequenceBed is a Sequence whose keeper is the test.
type sequenceBed struct {
	*Sequence
	rung, woken int
}

func newSequenceBed(d counter.Definition) *sequenceBed {
	b := &sequenceBed{}
	b.Sequence = NewSequence(SequenceConfig{
		Definition: d, MaxWait: time.Second, Ring: func() { b.rung++ }, Wake: func() { b.woken++ },
		Status: func() counter.Status { return counter.Status{Block: 10, Left: 70, DaysLeft: 1e300} },
	})
	return b
}

func (b *sequenceBed) wantError(t *testing.T, text string) {
	t.Helper()
	_, err := b.Mint(id.At(0), 1, false)
	_, err2 := b.Reserve(id.At(0), 1)
	if err == nil || err2 == nil || err.Error() != text || err2.Error() != text {
		t.Errorf("%v, %v, want %s", err, err2, text)
	}
}

var allOrders = counter.Sequence("orders")

// askFor lets time pass beside a request that waits, which asks as often as engines do.
func askFor(d time.Duration, ask func()) {
	for ; d > 0; d -= Patience {
		ask()
		time.Sleep(min(d, Patience))
	}
}

// The keeper is asked once, however many clients wait; whoever waits is woken, and the time that
// they waited counts for the next block no more.
func TestASequenceAsksItsCallersToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSequenceBed(allOrders)
		wait := id.ErrWait.Error()
		askFor(time.Second, func() { b.wantError(t, wait) })
		b.wantError(t, "sequence orders: no block for 1.0s: the counter store does not answer")
		if left, short := b.Left(); left != 0 || short != 1 || b.rung != 1 || b.woken != 0 {
			t.Errorf("%d left, %d asked for, rang %d times, woke %d times", left, short, b.rung, b.woken)
		}
		b.Refuse(errors.New("disk full"))
		b.wantError(t, "sequence orders: no block for 1.0s: disk full")
		if b.woken != 0 {
			t.Error("woken although there is nothing new")
		}
		if err := b.Append(1, 10); err != nil || b.woken != 1 {
			t.Errorf("%v, woke %d times", err, b.woken)
		}
		b.Refuse(nil)
		if left, short := b.Left(); left != 10 || short != 0 {
			t.Errorf("%d left, %d asked for", left, short)
		}
		if run, err := b.Mint(id.At(0), 20, true); err != nil || run.First != 1 || run.N != 10 {
			t.Errorf("%+v, %v", run, err)
		}
		time.Sleep(time.Hour)
		b.rung = 0
		b.wantError(t, wait)
		if _, err := b.Reserve(id.At(0), 7); err != id.ErrWait {
			t.Error(err)
		}
		time.Sleep(7 * time.Millisecond)
		b.Append(11, 16)
		if left, short := b.Left(); left != 6 || short != 7 || b.rung != 2 { // 7 in a row are not there yet
			t.Errorf("%d left, %d asked for, rang %d times", left, short, b.rung)
		}
		b.Append(17, 17)
		if run, err := b.Reserve(id.At(0), 7); err != nil || run.First != 11 || run.N != 7 {
			t.Errorf("%+v, %v", run, err)
		}
		facts := map[string]any{"": 1e6 * 86400, "order": "free",
			"last": int64(17), "at_hand": int64(0), "left": int64(70), "days_left": 1e6,
			"block": int64(10), "waits": uint64(2), "refusals": uint64(4),
			"waited_ms": time.Second + 7*time.Millisecond}
		b.Figures(func(f figure.Figure) {
			if facts[f.Stat] != f.Value || (f.Help == "") != (f.Metric == "") {
				t.Errorf("%+v, want %v", f, facts[f.Stat])
			}
			delete(facts, f.Stat)
		})
		if len(facts) > 0 || b.Issued() != 17 {
			t.Errorf("missing: %v; issued %d", facts, b.Issued())
		}
	})
}

// A block may be used up by the first ones that are woken. Then the wait of the others begins anew.
func TestABlockThatIsUsedUpAtOnceEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Sequence
		var err error
		s = NewSequence(SequenceConfig{Definition: allOrders, MaxWait: time.Second, Ring: func() {}, Wake: func() {
			s.Mint(id.At(0), 10, false)
			_, err = s.Mint(id.At(0), 1, false)
		}})
		askFor(2*time.Second, func() { s.Mint(id.At(0), 1, false) })
		if _, err := s.Mint(id.At(0), 1, false); err == nil || err == id.ErrWait {
			t.Fatal(err)
		}
		if s.Append(1, 10); err != id.ErrWait {
			t.Error(err)
		}
	})
}

// A counter that falls for a moment looks like a restart to whoever reads it. So it must not be too large
// for a moment either: it would stay there.
func TestIssuedNeverFalls(t *testing.T) {
	s := NewSequence(SequenceConfig{Definition: allOrders, MaxWait: time.Second, Ring: func() {}, Wake: func() {}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lo := uint64(1); lo < 30_000*1000; lo += 1000 { // a block with a gap after it, whose rest is passed over
			s.Append(lo, lo+499)
			s.Mint(id.At(0), 400, false)
			s.Raise(lo + 500)
		}
	}()
	for last, running := uint64(0), true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		now := s.Issued()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
	if n := s.Issued(); n != 30_000*400 {
		t.Errorf("%d issued", n)
	}
}

func TestWhatASequenceSaysWhenThereIsNoHope(t *testing.T) {
	for _, c := range []struct {
		why  error
		seal bool
		text string
		good bool // for good: clients must not ask again
	}{
		{counter.ErrEnded, false, "sequence orders has ended at 9223372036854775807", true},
		{counter.ErrUnknown, false, "sequence orders: no such sequence in the counter store", false},
		{counter.ErrRetired, true, "sequence orders is retired", true},
		{nil, true, "sequence orders is stopped", false},
	} {
		b := newSequenceBed(allOrders)
		b.Append(1, 3)
		b.Refuse(c.why)
		if c.seal {
			b.Seal()
		} else if run, err := b.Mint(id.At(0), 9, false); err != nil || run.N != 3 { // what is there is issued
			t.Errorf("%v: %+v, %v", c.why, run, err)
		}
		b.wantError(t, c.text)
		_, err := b.Mint(id.At(0), 1, false)
		if final, ok := err.(interface{ Final() bool }); ok != c.good || ok && !final.Final() {
			t.Errorf("%v: for good = %v", err, ok)
		}
		if b.woken < 2 {
			t.Errorf("%v: woken %d times", c.why, b.woken)
		}
		if err := b.Ready(0); err != nil {
			t.Errorf("%v: %v", c.why, err)
		}
	}
}

func TestARefusalIsOneLine(t *testing.T) {
	b := newSequenceBed(allOrders)
	b.Refuse(errors.Join(counter.ErrForeign, errors.New("a\r\nb")))
	_, err := b.Mint(id.At(0), 1, false)
	if err == nil || strings.ContainsAny(err.Error(), "\r\n") || !strings.HasSuffix(err.Error(), "; a; b") {
		t.Errorf("%q", err)
	}
}

func TestASequenceAllocatesNothing(t *testing.T) {
	b := newSequenceBed(allOrders)
	b.Append(1, 1<<40)
	s := b.Source(1).(id.Reserver)
	if n := testing.AllocsPerRun(1000, func() {
		s.Mint(id.At(0), 3, true)
		s.Reserve(id.At(0), 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b = newSequenceBed(allOrders)
	// 10,000 parked connections ask often
	if n := testing.AllocsPerRun(1000, func() { b.Mint(id.At(0), 1, false) }); n != 0 {
		t.Errorf("%v allocations to say wait", n)
	}
}

func BenchmarkMintSequence(b *testing.B) {
	bed := newSequenceBed(allOrders)
	bed.Append(1, 1<<62)
	s := bed.Source(0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Mint(id.At(0), 1, false); err != nil {
			b.Fatal(err)
		}
	}
}
