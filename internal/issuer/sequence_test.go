package issuer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A sequenceBed is a Sequence whose keeper is the test.
type sequenceBed struct {
	*Sequence
	bell    bells
	refused atomic.Uint64 // requests for any sequence
	status  counter.Status
}

// bells count who is called.
type bells struct{ rung, woken atomic.Int64 }

func newSequenceBed() *sequenceBed {
	b := &sequenceBed{status: counter.Status{Block: 10, Left: 70, DaysLeft: 1e300}}
	b.Sequence = NewSequence(SequenceConfig{
		Definition: counter.Sequence("orders"), MaxWait: time.Second, Refused: &b.refused,
		Ring: func() { b.bell.rung.Add(1) }, Wake: func() { b.bell.woken.Add(1) },
		Status: func() counter.Status { return b.status },
	})
	return b
}

// said returns who was called in a step.
func (b *bells) said() (said []string) {
	rung, woken := b.rung.Swap(0), b.woken.Swap(0)
	for what, n := range map[string]int64{"a block is asked for": rung, "all who wait are woken": woken} {
		if n > 1 {
			what += fmt.Sprintf(" %d times", n)
		}
		if n > 0 {
			said = append(said, "- "+what)
		}
	}
	slices.Sort(said)
	return said
}

// askFor lets time pass beside a request that waits, which asks as often as engines do.
func askFor(d time.Duration, ask func()) {
	for ; d > 0; d -= Patience {
		ask()
		time.Sleep(min(d, Patience))
	}
}

// take asks for values, as a client does that is "redirected", or that wants them "in-a-row" or as "bulk".
func take(s id.Reserver, when id.When, n int, how ...string) (string, error) {
	when.Redirect = slices.Contains(how, "redirected")
	mint := func() (id.Run, error) { return s.Mint(when, n, slices.Contains(how, "bulk")) }
	if slices.Contains(how, "in-a-row") {
		mint = func() (id.Run, error) { return s.Reserve(when, n) }
	}
	run, err := mint()
	switch {
	case err == id.ErrWait:
		return "wait", nil
	case err != nil && isFinal(err):
		return "for good", err
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("%d from %d on", run.N, run.First), nil
}

// keep asks as often as engines do while time passes, and says what it is told besides "wait".
func keep(d time.Duration, ask func() (string, error)) string {
	said := "waits"
	askFor(d, func() {
		if text, err := ask(); text != "wait" {
			said = fmt.Sprint(text, err)
		}
	})
	return said
}

// facts says what figures are: all, or those of the given names.
func facts(r Reporter, names ...string) string {
	said := map[string]any{"issued": r.Issued()}
	r.Figures(func(f figure.Figure) {
		name := cmp.Or(f.Stat, f.Metric)
		if said[name] = f.Value; (f.Help == "") != (f.Metric == "") {
			said[name] = "with a metric or a help alone"
		}
	})
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(said))
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %v", name, said[name])
	}
	return strings.Join(names, ", ")
}

// isReady says whether a kind is.
func isReady(k Kind, now int64) (string, error) {
	if err := k.Ready(now); err != nil {
		return "", err
	}
	return "ready", nil
}

// TestSequence: testdata/sequence.txt has what clients get who ask for orders, where the keeper is the script.
func TestSequence(t *testing.T) {
	reasons := map[string]error{"": nil, "ended": counter.ErrEnded, "unknown": counter.ErrUnknown,
		"retired": counter.ErrRetired, "damaged": counter.ErrDamaged, "unusable": counter.ErrUnusable,
		"foreign": errors.Join(counter.ErrForeign, errors.New("a\r\nb"))}
	steps.Run(t, "testdata/sequence.txt", func(t *testing.T) steps.Calls {
		b := newSequenceBed()
		mint := func(n int, how ...string) (string, error) { return take(b, id.At(0), n, how...) }
		return steps.Calls{
			"":      func() string { return strings.Join(b.bell.said(), "\n") },
			"sleep": time.Sleep,
			"mint":  mint,
			"keep-minting": func(d time.Duration, n int, how ...string) string {
				return keep(d, func() (string, error) { return mint(n, how...) })
			},
			"append": func(lo, hi uint64) error { return b.Append(lo, hi) },
			"refuse": func(why string) {
				reason, ok := reasons[why]
				if !ok {
					reason = errors.New(why)
				}
				b.Refuse(reason)
			},
			"seal": func() { b.Seal() },
			"left": func() string {
				left, short := b.Left()
				return fmt.Sprintf("%d left, %d asked for", left, short)
			},
			"facts": func(names ...string) string { return facts(b, names...) },
			"granted-but": func(left uint64, days float64) { // what the store says is left
				b.status.Left, b.status.DaysLeft = left, days
			},
			"seconds-left": func() float64 { return b.Figures(func(figure.Figure) {}).DaysLeft * 86400 },
			"ready":        func() (string, error) { return isReady(b, 0) },
			"over":         func() error { return b.Over() },
			"refused": func() string {
				return fmt.Sprintf("%d requests, %d of all sequences", b.Refused(), b.refused.Load())
			},
			// they take a block and then ask for another value
			"those-who-are-woken-take": func(n int) {
				b.c.Wake = func() {
					b.bell.woken.Add(1)
					b.Mint(id.At(0), n, false)
					if _, err := b.Mint(id.At(0), 1, false); err != id.ErrWait {
						t.Error(err)
					}
				}
			},
		}
	})
}

// A counter that falls for a moment looks like a restart to whoever reads it. So it must not be too large
// for a moment either: it would stay there.
func TestIssuedNeverFalls(t *testing.T) {
	s := newSequenceBed()
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

func TestASequenceAllocatesNothing(t *testing.T) {
	b := newSequenceBed()
	b.Append(1, 1<<40)
	s := b.Source(1).(id.Reserver)
	if n := testing.AllocsPerRun(1000, func() {
		s.Mint(id.At(0), 3, true)
		s.Reserve(id.At(0), 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b = newSequenceBed()
	// 10,000 parked connections ask often
	if n := testing.AllocsPerRun(1000, func() { b.Mint(id.At(0), 1, false) }); n != 0 {
		t.Errorf("%v allocations to say wait", n)
	}
}
