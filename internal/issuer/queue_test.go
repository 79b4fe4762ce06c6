package issuer

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// queueTestbed has no id left for bulk in this tick, of the layout that source is for. Its clock stands still until a
// test moves it.
func queueTestbed(t *testing.T, unit int64, source func(*testbed) id.Source) (
	b *testbed, s id.Source, woken *atomic.Int32) {
	t.Helper()
	b, woken = newTestbed(1, time.Second, ticksOf(unit)), new(atomic.Int32)
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	s = source(b)
	b.hog(t, s)
	b.c.Wake = func() { woken.Add(1) }
	b.c.Sleep = func(d time.Duration) { t.Errorf("slept %v", d) }
	return b, s, woken
}

func own(b *testbed) id.Source { return b.Source(0) }

func wants(t *testing.T, s id.Source, b *testbed, n int, want error) {
	t.Helper()
	if run, err := s.Mint(id.At(b.now), n, true); err != want {
		t.Errorf("%v, %v; want %v", run, err, want)
	}
}

// Bulk is woken once in its next tick, however many requests wait for that, and no loop sleeps for it.
func TestBulkIsWokenInItsNextTick(t *testing.T) {
	for what, source := range map[string]func(*testbed) id.Source{
		"ids":            own,
		"another layout": func(b *testbed) id.Source { return mustSnowflake(t, b, generator.Twitter()).Source(0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b, s, woken := queueTestbed(t, 1, source)
			refused := b.Refused(RateExceeded)
			for tick := range int32(3) {
				for range 5 {
					wants(t, s, b, 100, id.ErrWait)
				}
				if !b.Late() {
					t.Errorf("%s: nobody waits", what)
				}
				time.Sleep(time.Millisecond - 1)
				if synctest.Wait(); woken.Load() != tick {
					t.Errorf("%s: woken %d times before the tick", what, woken.Load())
				}
				time.Sleep(time.Nanosecond)
				if synctest.Wait(); woken.Load() != tick+1 || b.Late() {
					t.Errorf("%s: woken %d times", what, woken.Load())
				}
			}
			b.now++
			wants(t, s, b, 100, nil)
			if n := b.Refused(RateExceeded) - refused; n != 0 {
				t.Errorf("%s: %d refused", what, n)
			}
		})
	}
}

// Requests that nobody can serve within 250 ms are refused at once, and those before them wait.
func TestTheQueueIsNoLongerThanARequestMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, s, _ := queueTestbed(t, 1, own)
		refused := b.Refused(RateExceeded)
		for range 250 {
			wants(t, s, b, perTick, id.ErrWait)
		}
		if _, err := s.Mint(id.At(b.now-1), 1, true); err == nil || err.Error() != "id rate exceeded" { // a new turn
			t.Error(err)
		}
		if n := b.Refused(RateExceeded) - refused; n != 1 {
			t.Errorf("%d refused", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wants(t, s, b, perTick, id.ErrWait) // it is another tick, in which those before ask again
	})
}

// A tick that is far away is not awaited, nor what the clock does not bring.
func TestBulkDoesNotWaitForATickThatIsFarAway(t *testing.T) {
	for _, c := range []struct {
		unit, at int64 // at: ms past the start, which is that of a tick
		waits    bool
	}{{10, 0, true}, {1000, 749, false}, {1000, 750, true}} {
		synctest.Test(t, func(t *testing.T) {
			b, s, _ := queueTestbed(t, c.unit, own)
			b.now += c.at
			_, err := s.Mint(id.At(b.now), 100, true)
			if (err == id.ErrWait) != c.waits || !c.waits && err.Error() != "id rate exceeded" {
				t.Errorf("ticks of %d ms, at %d: %v", c.unit, c.at, err)
			}
			time.Sleep(time.Second) // no timer is left
		})
	}
	b, s, _ := queueTestbed(t, 1, own)
	b.publish(t, 0, 8, start-1000, start+1100)
	for {
		if _, err := s.Mint(id.At(b.now), perTick, true); err != nil {
			if err.Error() != "id rate exceeded" { // the run-ahead reaches the end of the window
				t.Error(err)
			}
			return
		}
	}
}

// A single request waits for nobody's answer: the loop sleeps for it, as long as it may.
func TestASingleRequestSleepsForTheNextTick(t *testing.T) {
	b, _, _ := queueTestbed(t, 1, own)
	for range perTick / 4 { // what bulk has left
		b.mint(t, b.Source(0), 1)
	}
	var slept time.Duration
	b.c.Sleep = func(d time.Duration) {
		slept += d
		b.now += d.Milliseconds()
	}
	if b.mint(t, b.Source(0), 1); slept != time.Millisecond || b.Late() {
		t.Errorf("slept %v", slept)
	}
}
