package workerid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const t0 = int64(1732060800000)

// A driver steps a machine of one-minute leases and remembers what it wants.
type driver struct {
	t *testing.T
	*Machine
	now     Moment
	effects []Effect
}

func drive(t *testing.T, lanes int) *driver {
	requests := make([]Request, lanes)
	for i := range requests {
		requests[i] = Request{Owner: "me", Min: 1, Max: 9}
	}
	return &driver{t: t, now: Moment{ID: t0}, Machine: NewMachine(MachineConfig{
		Requests: requests, RunAhead: time.Second, Heartbeat: 5 * time.Second, Seed: 1,
	})}
}

func (d *driver) tell(e Event) *driver {
	d.effects = append([]Effect(nil), d.Step(d.now, e)...)
	return d
}

// pass lets time go by, with the Ticks that the machine asks for.
func (d *driver) pass(span time.Duration) *driver {
	d.effects = nil
	for end := d.now.Mono + span; ; {
		at := d.Deadline(d.now)
		if at < 0 || at > end {
			at = end
		}
		d.now.ID += at.Milliseconds() - d.now.Mono.Milliseconds()
		d.now.Mono = at
		d.effects = append(d.effects, d.Step(d.now, Tick{})...)
		if at == end {
			return d
		}
		if next := d.Deadline(d.now); next == at {
			d.t.Fatalf("at %v the machine wants a Tick, gets it, and wants another", at)
		}
	}
}

// wants checks the effects since the last step, Changed ones aside.
func (d *driver) wants(want ...Effect) *driver {
	d.t.Helper()
	var got []Effect
	for _, e := range d.effects {
		if _, ok := e.(Changed); !ok {
			got = append(got, e)
		}
	}
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		d.t.Fatalf("wants\n%s\nnot\n%s", list(got), list(want))
	}
	return d
}

// changed is the last Changed among the effects, zero if there is none.
func (d *driver) changed() (c Changed) {
	for _, e := range d.effects {
		if x, ok := e.(Changed); ok {
			c = x
		}
	}
	return c
}

func list(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		fmt.Fprintf(&b, "  %T%+v\n", e, e)
	}
	return b.String()
}

func (d *driver) is(states ...State) *driver {
	d.t.Helper()
	for i, s := range d.Status(d.now) {
		if s.State != states[i] {
			d.t.Fatalf("lane %d is %v (%s), not %v", i, s.State, s.Reason, states[i])
		}
	}
	return d
}

func window(worker uint64, lo, hi int64) Grant {
	return Grant{Worker: worker, Owner: "me", Lo: lo, Hi: hi}
}

func extended(results ...Result) Extended { return Extended{Results: results} }

// serving is a machine of one lane that serves worker id 7 for a minute and has just asked to
// extend that.
func serving(t *testing.T) *driver {
	d := drive(t, 1)
	d.tell(Tick{}).wants(Acquire{0, Request{"me", 1, 9}}).is(Acquiring)
	d.tell(Acquired{0, window(7, t0-5, t0+60000), nil}).wants(Publish{0, window(7, t0-5, t0+60000)}).is(Serving)
	d.pass(5600 * time.Millisecond).wants(Extend{[]Grant{window(7, t0-5, t0+60000)}}).is(Serving)
	return d
}

var errStore = errors.New("the store is on fire")

func TestExtends(t *testing.T) {
	d := serving(t)
	d.tell(extended(Result{Grant: window(7, t0+60001, t0+65000)})).wants(Lengthen{0, t0 + 60001, t0 + 65000}).is(Serving)
	d.pass(5600 * time.Millisecond).wants(Extend{[]Grant{window(7, t0-5, t0+65000)}})
	d.tell(extended(Result{Grant: window(7, t0+65001, t0+65000)})).wants().is(Serving) // nothing more: legal
	d.pass(5600 * time.Millisecond).wants(Extend{[]Grant{window(7, t0-5, t0+65000)}})
}

// Every row of the table of states that serving does not show.
func TestStates(t *testing.T) {
	t.Run("acquiring: an error is followed by a longer pause each time", func(t *testing.T) {
		for _, err := range []error{ErrNoID, ErrSkew, ErrForeignPool, errStore} {
			d := drive(t, 1).tell(Tick{}).tell(Acquired{Lane: 0, Err: err}).wants().is(Acquiring)
			pauses, last := 0, time.Duration(0)
			for ; pauses < 12; pauses++ {
				at := d.Deadline(d.now) - d.now.Mono
				if at < last/4 || at > 2*backoffLast {
					t.Errorf("pause %d is %v, after %v", pauses, at, last)
				}
				d.pass(at).wants(Acquire{0, Request{"me", 1, 9}})
				d.tell(Acquired{Lane: 0, Err: err})
				last = at
			}
			if last < backoffLast/2 {
				t.Errorf("after %d times the pause is %v", pauses, last)
			}
			d.pass(time.Minute)
			if s := d.Status(d.now)[0]; s.Reason != err.Error() || s.Held {
				t.Errorf("%+v", s)
			}
		}
	})
	t.Run("acquiring: reported once per reason", func(t *testing.T) {
		d := drive(t, 1)
		changes := 0
		soon := func(d time.Duration) error { return fmt.Errorf("%w: for another %v", ErrNoneYet, d) }
		for i, err := range []error{soon(14 * time.Second), soon(4 * time.Second), ErrNoID, ErrNoID, ErrNoID, ErrSkew,
			ErrSkew} {
			d.pass(10 * time.Second).tell(Acquired{Lane: 0, Err: err})
			for _, e := range d.effects {
				if c, ok := e.(Changed); ok {
					if changes++; c.Reason != err.Error() {
						t.Errorf("%d: %+v", i, c)
					}
				}
			}
		}
		if changes != 3 {
			t.Errorf("%d reports", changes)
		}
	})
	t.Run("acquiring: what was reported once is not reported again", func(t *testing.T) {
		d := drive(t, 1)
		told := func(reasons ...string) {
			t.Helper()
			var got []string
			for _, e := range d.effects {
				if c, ok := e.(Changed); ok {
					got = append(got, c.Reason)
				}
			}
			if !slices.Equal(got, reasons) {
				t.Errorf("reported %q, not %q", got, reasons)
			}
		}
		fail := func(err error) { d.pass(10 * time.Second).tell(Acquired{Lane: 0, Err: err}) }
		slow := fmt.Errorf("the call may be carried out: %w", context.DeadlineExceeded)
		fail(errStore)
		told(errStore.Error())
		fail(slow)
		told(slow.Error())
		for _, err := range []error{errStore, slow, fmt.Errorf("no connection: %w", context.DeadlineExceeded), errStore} {
			fail(err)
			told() // two that take turns, and a time-out by another name
		}
		fail(errors.New("read from port 40312: reset\nafter 1.5s"))
		told("read from port 40312: reset; after 1.5s")
		fail(errors.New("read from port 51234: reset\nafter 12s"))
		told()
		for i := range len(reasons{}) { // so many others that the first are forgotten
			fail(errors.New(strings.Repeat("x", i+1)))
		}
		fail(errStore)
		told(errStore.Error())
		d.pass(10 * time.Second).tell(Acquired{0, window(7, t0, t0+300000), nil}).is(Serving)
		told("")
		d.pass(10 * time.Second).tell(Extended{Err: errStore}).is(Degraded)
		told(errStore.Error()) // in another state it is news
	})
	t.Run("acquiring: not confirmed", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, t0, t0+60000), ErrUnconfirmed}).wants().is(Acquiring)
		for range 3 { // extended until it counts, never acquired again
			d.pass(5600 * time.Millisecond).wants(Extend{[]Grant{window(7, t0, t0-1)}})
			d.tell(extended(Result{Grant: window(7, t0, t0+60000), Err: ErrUnconfirmed})).wants().is(Acquiring)
		}
		d.pass(5600 * time.Millisecond)
		d.tell(extended(Result{Grant: window(7, t0, t0+80000)})).wants(Publish{0, window(7, t0, t0+80000)}).is(Serving)
	})
	t.Run("waiting", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, t0+4000, t0+60000), nil}).
			wants(Publish{0, window(7, t0+4000, t0+60000)}).is(Waiting)
		want := "the clock has yet to reach the window: ids in 3s" // a second before the window, by the run-ahead
		if r := d.Status(d.now)[0].Reason; r != want || d.changed().Reason != want || d.changed().Wait != 3*time.Second {
			t.Errorf("%q, %+v", r, d.changed())
		}
		d.pass(2999 * time.Millisecond).is(Waiting).pass(time.Millisecond).is(Serving) // a second of run-ahead
	})
	t.Run("waiting: an earlier clock was ahead", func(t *testing.T) {
		hour := time.Hour.Milliseconds()
		lo := t0 + hour + 1000 // and a second of run-ahead
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, lo, lo+60000), nil}).is(Waiting)
		r := d.Status(d.now)[0].Reason
		for _, says := range []string{
			"the window: ids in 1h0m0s; ", "another worker id", "state reset -force", "repeats ids", "lease list",
		} {
			if !strings.Contains(r, says) {
				t.Errorf("%q does not say %q", r, says)
			}
		}
		const less = "the clock has yet to reach the window: ids in 59m59.999s"
		if r := d.pass(time.Millisecond).Status(d.now)[0].Reason; r != less {
			t.Error(r)
		}
	})
	t.Run("waiting for a window that is still empty", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, t0+500, t0-10000), nil}).
			wants(Publish{0, window(7, t0+500, t0+499)}).is(Waiting)
		want := "the clock has yet to reach the window: ids in 500ms" // the run-ahead is of no use to it
		if r := d.Status(d.now)[0].Reason; r != want || d.changed().Reason != want ||
			d.changed().Wait != 500*time.Millisecond {
			t.Errorf("%q, %+v", r, d.changed())
		}
		d.pass(5600 * time.Millisecond).wants(Extend{[]Grant{window(7, t0+500, t0+499)}}).is(Waiting)
		if s := d.Status(d.now)[0]; s.Reason != "the window is empty until it is extended" {
			t.Error(s.Reason)
		}
		d.tell(extended(Result{Grant: window(7, t0+500, t0+9000)})).wants(Lengthen{0, t0 + 500, t0 + 9000}).is(Serving)
	})
	t.Run("waiting: the clock is set right", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, t0+1e9, t0+1e9+60000), nil}).is(Waiting)
		d.now.ID += 1e9
		d.pass(lookAgain).is(Serving)
	})
	for name, fail := range map[string]Event{
		"error":            Extended{Err: errStore},
		"error of the one": extended(Result{Err: errStore}),
		"not confirmed":    extended(Result{Grant: window(7, t0+60001, t0+90000), Err: ErrUnconfirmed}),
		"skew":             extended(Result{Err: ErrSkew}),
		"no answer":        Tick{},
		"too few answers":  extended(),
		"overlap":          extended(Result{Grant: window(7, t0+60000, t0+90000)}),
		"another id":       extended(Result{Grant: window(8, t0+60001, t0+90000)}),
	} {
		t.Run("degraded by: "+name, func(t *testing.T) {
			d := serving(t)
			if name == "no answer" {
				d.pass(5600 * time.Millisecond).wants().is(Degraded) // and no second Extend
				d.tell(Extended{Err: errStore})
			} else {
				d.tell(fail).wants().is(Degraded)
			}
			d.pass(5 * time.Second).wants(Extend{[]Grant{window(7, t0-5, t0+60000)}})
			d.tell(extended(Result{Grant: window(7, t0+60001, t0+75000)})).wants(Lengthen{0, t0 + 60001, t0 + 75000}).is(Serving)
		})
	}
	t.Run("degraded: tried again soon, then at the heartbeat's pace", func(t *testing.T) {
		d := serving(t)
		var pauses []time.Duration
		for range 9 {
			d.tell(Extended{Err: errStore})
			pauses = append(pauses, d.Deadline(d.now)-d.now.Mono)
			d.pass(pauses[len(pauses)-1])
		}
		if pauses[0] > 2*backoffFirst || pauses[8] < 2500*time.Millisecond {
			t.Errorf("tried again after %v", pauses)
		}
		d.tell(extended(Result{Grant: window(7, t0+60001, t0+75000)})).pass(6 * time.Second).tell(Extended{Err: errStore})
		if at := d.Deadline(d.now) - d.now.Mono; at > 2*backoffFirst {
			t.Errorf("after a success, tried again after %v", at)
		}
	})
	t.Run("lost after many refusals: the first try is at once", func(t *testing.T) {
		d := drive(t, 1)
		for range 8 {
			d.pass(10 * time.Second).tell(Acquired{Err: ErrNoID})
		}
		lo := d.now.ID
		d.pass(10 * time.Second).tell(Acquired{0, window(7, lo, lo+60000), nil})
		d.pass(6 * time.Second).tell(extended(Result{Err: ErrLost})).wants(Acquire{0, Request{"me", 1, 9}})
		if d.tell(Acquired{Err: ErrNoID}); d.Deadline(d.now)-d.now.Mono > 2*backoffFirst {
			t.Errorf("and the second after %v", d.Deadline(d.now)-d.now.Mono)
		}
	})
	t.Run("exhausted, and extended again", func(t *testing.T) {
		d := serving(t).tell(Extended{Err: errStore})
		for d.now.ID < t0+60000 {
			d.is(Degraded).pass(d.Deadline(d.now) - d.now.Mono).tell(Extended{Err: errStore})
		}
		d.pass(time.Millisecond).is(Exhausted)
		d.pass(10 * time.Second).tell(extended(Result{Grant: window(7, t0+60001, t0+130000)})).
			wants(Lengthen{0, t0 + 60001, t0 + 130000}).is(Serving)
	})
	t.Run("exhausted by a pause", func(t *testing.T) {
		d := serving(t)
		d.now.ID += 180000
		d.now.Mono += 180 * time.Second
		d.tell(Tick{}).wants().is(Exhausted)
	})
	t.Run("exhausted, and lost", func(t *testing.T) {
		d := serving(t)
		d.now.ID += 180000
		d.tell(Tick{}).tell(extended(Result{Err: ErrLost})).is(Acquiring).wants(Acquire{0, Request{"me", 1, 9}})
	})
	t.Run("draining", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Err: fmt.Errorf("told: %w", ErrLost)})).wants(Acquire{0, Request{"me", 1, 9}}).
			is(Draining)
		if s := d.Status(d.now)[0]; s.Held || s.Worker != 7 || s.Left != 60*time.Second-5600*time.Millisecond {
			t.Errorf("%+v", s)
		}
		g := window(8, d.now.ID+1000, d.now.ID+60000)
		d.tell(Acquired{0, g, nil}).wants(Publish{0, g}).is(Serving)
	})
	t.Run("what is reported names the worker id that it is about", func(t *testing.T) {
		d := serving(t)
		of := func(workers ...uint64) {
			t.Helper()
			var got []uint64
			for _, e := range d.effects {
				if c, ok := e.(Changed); ok {
					got = append(got, c.Grant.Worker)
				}
			}
			if !slices.Equal(got, workers) {
				t.Errorf("worker ids %d, not %d:\n%s", got, workers, list(d.effects))
			}
		}
		d.tell(extended(Result{Err: ErrLost})).is(Draining)
		of(7)
		d.tell(Acquired{0, window(8, t0+90000, t0+120000), nil}).is(Draining) // of 7 it still issues
		of(7)
		d.pass(56 * time.Second).tell(extended(Result{Grant: window(8, t0+120001, t0+120000)})).is(Waiting)
		d.now.ID = t0 + 120001
		d.tell(Tick{}).is(Exhausted)
		of(8)
		d.pass(5600 * time.Millisecond).tell(extended(Result{Err: ErrLost})).is(Acquiring)
		of(8)
		d.tell(Acquired{Lane: 0, Err: ErrNoID}).is(Acquiring)
		of(0)
	})
	t.Run("draining until the next window begins", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Err: ErrLost}))
		g := window(8, t0+58000, t0+120000)
		d.tell(Acquired{0, g, nil}).wants().is(Draining)
		for d.now.ID < t0+56400 {
			d.pass(500 * time.Millisecond).is(Draining)
			for _, e := range d.effects {
				if x, ok := e.(Extend); ok {
					// the new one is kept meanwhile
					d.tell(extended(Result{Grant: window(8, x.Held[0].Hi+1, x.Held[0].Hi)})).wants()
				}
			}
		}
		for d.effects = nil; !strings.Contains(list(d.effects), "Publish"); {
			d.pass(100 * time.Millisecond)
		}
		if d.is(Serving); d.now.ID < t0+57000 || d.now.ID > t0+58000+lookAgain.Milliseconds() {
			t.Errorf("published at %d", d.now.ID-t0)
		}
	})
	t.Run("granted what it has had", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Grant: window(7, t0+60001, t0+70000)})).pass(6 * time.Second).
			tell(extended(Result{Err: ErrLost}))
		d.tell(Acquired{0, window(7, t0+70000, t0+120000), nil}).wants().is(Draining)
		if c := d.changed(); !strings.Contains(c.Reason, "has had until") {
			t.Errorf("reported %+v", c)
		}
		if d.pass(backoffLast / 2); len(d.effects) != 0 {
			t.Errorf("at once:\n%s", list(d.effects))
		}
		d.pass(backoffLast).wants(Acquire{0, Request{"me", 1, 9}})
		g := window(7, t0+70001, t0+120000)
		d.tell(Acquired{0, g, nil}).wants().is(Draining)
		d.now.ID = t0 + 70001
		d.tell(Tick{}).wants(Publish{0, g}).is(Serving)
		two := drive(t, 2).tell(Tick{}).tell(Acquired{0, window(7, t0, t0+60000), nil})
		two.tell(Acquired{1, window(7, t0+1000, t0+60000), nil}).wants().is(Serving, Acquiring)
	})
	t.Run("extended over what another lane has had", func(t *testing.T) {
		d := drive(t, 2).tell(Tick{}).tell(Acquired{0, window(7, t0, t0+60000), nil})
		g := window(7, t0+60001, t0+120000)
		d.tell(Acquired{1, g, nil}).wants(Publish{1, g}).is(Serving, Waiting)
		d.pass(6*time.Second).tell(extended(
			Result{Grant: window(7, t0+60001, t0+66000)}, Result{Grant: window(7, t0+120001, t0+126000)},
		)).wants(Lengthen{1, t0 + 120001, t0 + 126000}, Acquire{0, Request{"me", 1, 9}})
		if c := d.changed(); c.Lane != 0 || !strings.Contains(c.Reason, "has had until") {
			t.Errorf("reported %+v", c)
		}
	})
	t.Run("draining to the end", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Err: ErrLost})).tell(Acquired{Err: ErrNoID}).is(Draining)
		for d.now.ID <= t0+60000 {
			d.pass(min(time.Second, time.Duration(t0+60001-d.now.ID)*time.Millisecond))
			d.tell(Acquired{Err: ErrNoID})
		}
		d.is(Acquiring)
	})
	t.Run("cloned", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Err: ErrCloned})).wants(Seal{0}, Acquire{0, Request{"me", 1, 9}}).is(Acquiring)
		d.tell(SealedAt{0, t0 + 3000}).wants() // not ours to release
		g := window(8, t0, t0+90000)
		d.tell(Acquired{0, g, nil}).wants(Publish{0, g}).is(Serving)
	})
	t.Run("a gap makes another generator", func(t *testing.T) {
		g := window(7, t0+60010, t0+90000)
		d := serving(t)
		d.now.ID += 50000
		d.tell(extended(Result{Grant: g})).wants(Publish{0, g}).is(Waiting).pass(4 * time.Second).is(Serving)
	})
	t.Run("no end", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Acquired{0, window(7, t0, Forever), nil}).is(Serving)
		if at := d.Deadline(d.now); at >= 0 {
			t.Errorf("wants a Tick at %v", at)
		}
	})
}

func TestOutsideTheTimeField(t *testing.T) {
	d := drive(t, 1)
	d.c.CheckTime = func(ms int64) error {
		if ms < t0+60000 {
			return fmt.Errorf("%d is before the epoch", ms)
		}
		return nil
	}
	d.tell(Tick{}).wants().is(Acquiring)
	if r := d.Status(d.now)[0].Reason; r != fmt.Sprintf("%d is before the epoch", t0) {
		t.Error(r)
	}
	reports := 0
	for _, e := range d.pass(50 * time.Second).wants().effects {
		if _, ok := e.(Changed); ok {
			reports++
		}
	}
	if reports > 0 {
		t.Errorf("reported %d more times", reports)
	}
	d.pass(20 * time.Second).wants(Acquire{0, Request{"me", 1, 9}})
}

func TestStop(t *testing.T) {
	g := window(7, t0-5, t0+60000)
	t.Run("what it had begun is not reported any more", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).wants(Acquire{0, Request{"me", 1, 9}}).tell(Stop{}).is(Sealed)
		if d.tell(Acquired{Lane: 0, Err: errStore}).wants(Finished{}); len(d.effects) != 1 {
			t.Errorf("reported:\n%s", list(d.effects))
		}
	})
	t.Run("seal, then release", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Grant: window(7, t0+60001, t0+60000)}))
		d.tell(Stop{}).wants(Seal{0}).is(Sealed)
		d.tell(SealedAt{0, t0 + 1234}).wants(Release{0, g, t0 + 1234})
		d.tell(Released{Lane: 0}).wants(Finished{})
		d.tell(Stop{}).wants()
	})
	t.Run("an answer is due", func(t *testing.T) {
		d := serving(t).tell(Stop{}).wants(Seal{0}).tell(SealedAt{0, t0 + 1234}).wants()
		longer := window(7, t0-5, t0+70000)
		d.tell(extended(Result{Grant: window(7, t0+60001, t0+70000)})).wants(Release{0, longer, t0 + 1234})
		d.tell(Released{Lane: 0, Err: errStore}).wants(Finished{})
	})
	t.Run("an answer is due, and bad", func(t *testing.T) {
		d := serving(t).tell(Stop{}).tell(SealedAt{0, t0 + 1234})
		d.tell(Extended{Err: errStore}).wants(Release{0, g, t0 + 1234})
		if c := d.changed(); c != (Changed{}) {
			t.Errorf("reported %+v", c)
		}
	})
	t.Run("lost meanwhile", func(t *testing.T) {
		for _, err := range []error{ErrLost, ErrCloned} {
			serving(t).tell(Stop{}).tell(SealedAt{0, t0 + 1234}).tell(extended(Result{Err: err})).wants(Finished{})
		}
	})
	t.Run("a grant is due", func(t *testing.T) {
		d := drive(t, 1).tell(Tick{}).tell(Stop{}).wants().is(Sealed)
		d.tell(Acquired{0, g, nil}).wants(Release{0, g, t0 - 6})
		d.tell(Released{Lane: 0}).wants(Finished{})
	})
	t.Run("nothing held", func(t *testing.T) {
		drive(t, 1).tell(Stop{}).wants(Finished{}).is(Sealed)
	})
	t.Run("draining, the next not begun", func(t *testing.T) {
		d := serving(t).tell(extended(Result{Err: ErrLost}))
		next := window(8, t0+58000, t0+120000)
		d.tell(Acquired{0, next, nil}).tell(Stop{}).wants(Seal{0})
		d.tell(SealedAt{0, t0 + 1234}).wants(Release{0, next, t0 + 57999})
	})
	t.Run("several lanes", func(t *testing.T) {
		d := drive(t, 2).tell(Tick{}).tell(Acquired{0, window(1, t0, t0+60000), nil}).
			tell(Acquired{1, window(2, t0, t0+60000), nil})
		d.tell(Stop{}).wants(Seal{0}, Seal{1})
		d.tell(SealedAt{0, t0 + 1}).wants(Release{0, window(1, t0, t0+60000), t0 + 1})
		d.tell(SealedAt{1, t0 + 2}).wants(Release{1, window(2, t0, t0+60000), t0 + 2})
		d.tell(Released{Lane: 1}).wants().tell(Released{Lane: 0}).wants(Finished{})
	})
}

func TestLanes(t *testing.T) {
	d := drive(t, 3)
	d.tell(Tick{}).wants(Acquire{0, Request{"me", 1, 9}})
	d.tell(Acquired{Lane: 0, Err: ErrNoID}).wants(Acquire{1, Request{"me", 1, 9}}) // the others are not held up
	d.tell(Acquired{1, window(1, t0, t0+60000), nil}).
		wants(Acquire{2, Request{"me", 1, 9}}, Publish{1, window(1, t0, t0+60000)}).is(Acquiring, Serving, Acquiring)
	d.tell(Acquired{2, window(2, t0, t0+60000), nil})
	d.pass(time.Second).wants(Acquire{0, Request{"me", 1, 9}})
	d.tell(Acquired{0, window(3, t0, t0+60000), nil}).is(Serving, Serving, Serving)
	d.pass(5600 * time.Millisecond).
		wants(Extend{[]Grant{window(3, t0, t0+60000), window(1, t0, t0+60000), window(2, t0, t0+60000)}})
	d.tell(extended(Result{Grant: window(3, t0+60001, t0+65000)}, Result{Err: ErrLost}, Result{Err: errStore}))
	d.wants(Lengthen{0, t0 + 60001, t0 + 65000}, Acquire{1, Request{"me", 1, 9}}).is(Serving, Draining, Degraded)
}

// With a store that answers slowly, every lane gets its turn.
func TestLanesTakeTurns(t *testing.T) {
	d := drive(t, 20)
	tried := map[int]int{}
	d.tell(Tick{})
	for range 100 {
		for _, e := range d.effects {
			if a, ok := e.(Acquire); ok {
				tried[a.Lane]++
				d.pass(time.Second).tell(Acquired{Lane: a.Lane, Err: errStore})
				break
			}
		}
	}
	for i := range 20 {
		if tried[i] < 4 {
			t.Errorf("lane %d was tried %d times of 100", i, tried[i])
		}
	}
}

// Heartbeats of daemons that start together drift apart.
func TestJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for seed := range uint64(100) {
		m := NewMachine(MachineConfig{Requests: make([]Request, 1), RunAhead: time.Second, Heartbeat: 5 * time.Second,
			Seed: seed})
		m.Step(Moment{ID: t0}, Tick{})
		m.Step(Moment{ID: t0}, Acquired{0, window(7, t0, t0+60000), nil})
		at := m.Deadline(Moment{ID: t0})
		if at < 4500*time.Millisecond || at > 5500*time.Millisecond {
			t.Errorf("seed %d: first heartbeat at %v", seed, at)
		}
		seen[at] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
}

// The invariants in Machine's comment hold whatever the store answers, and whenever.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(2000) {
		r := &random{driver: drive(t, 1+int(seed%3)), Rand: rand.New(rand.NewPCG(seed, 3)), mark: map[uint64]int64{}}
		r.lanes = make([]laneModel, len(r.Machine.lanes))
		for range 150 {
			r.once()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

type random struct {
	*driver
	*rand.Rand
	due   []Effect         // calls without an answer
	mark  map[uint64]int64 // granted so far, by worker id
	lanes []laneModel
	stop  bool
}

type laneModel struct {
	published, sealed bool
	grant             Grant
}

func (r *random) once() {
	var e Event = Tick{}
	switch k := r.IntN(10); {
	case k < 5 && len(r.due) > 0:
		i := r.IntN(len(r.due))
		e = r.answer(r.due[i])
		r.due = append(r.due[:i], r.due[i+1:]...)
	case k == 9 && r.IntN(20) == 0:
		e = Stop{}
		r.stop = true
	case k == 8 && r.IntN(5) == 0:
		r.now.ID += r.Int64N(200000) - 100000
	default:
		step := r.Int64N(4000)
		r.now.ID += step
		r.now.Mono += time.Duration(step) * time.Millisecond
	}
	for queue := []Event{e}; len(queue) > 0; queue = queue[1:] {
		r.tell(queue[0])
		for _, e := range r.effects {
			if back := r.check(e); back != nil {
				queue = append(queue, back)
			}
		}
	}
}

func (r *random) check(e Effect) Event {
	switch e := e.(type) {
	case Acquire, Extend:
		for _, d := range r.due {
			if reflect.TypeOf(d) == reflect.TypeOf(e) {
				r.t.Errorf("two %T at once", e)
			}
		}
		if r.stop {
			r.t.Errorf("%+v after Stop", e)
		}
		r.due = append(r.due, e)
	case Publish:
		if e.Grant.Hi > r.mark[e.Grant.Worker] {
			r.t.Errorf("%+v, but only granted to %d", e, r.mark[e.Grant.Worker])
		}
		r.lanes[e.Lane] = laneModel{published: true, grant: e.Grant}
	case Lengthen:
		l := &r.lanes[e.Lane]
		if e.Lo != l.grant.Hi+1 || e.Hi > r.mark[l.grant.Worker] || l.sealed {
			r.t.Errorf("%+v of %+v, granted to %d", e, l, r.mark[l.grant.Worker])
		}
		l.grant.Hi = e.Hi
	case Seal:
		r.lanes[e.Lane].sealed = true
		return SealedAt{e.Lane, r.lanes[e.Lane].grant.Lo}
	case Release:
		l := r.lanes[e.Lane]
		if l.published && !l.sealed || l.published && l.grant.Worker == e.Grant.Worker && l.grant.Hi > e.Grant.Hi {
			r.t.Errorf("%+v of %+v", e, l)
		}
		r.due = append(r.due, e)
	case Finished:
		if len(r.due) > 0 {
			r.t.Errorf("finished with %s", list(r.due))
		}
	}
	return nil
}

func (r *random) answer(e Effect) Event {
	errs := []error{nil, nil, nil, nil, errStore, ErrLost, ErrCloned, ErrUnconfirmed}
	switch e := e.(type) {
	case Acquire:
		w := e.Request.Min + r.Uint64N(9)
		err := errs[r.IntN(len(errs))]
		g := window(w, max(r.mark[w]+1, r.now.ID-r.Int64N(5000)), r.now.ID+r.Int64N(90000))
		r.mark[w] = max(r.mark[w], g.Hi, g.Lo-1)
		return Acquired{e.Lane, g, err}
	case Extend:
		results := make([]Result, len(e.Held))
		for i, g := range e.Held {
			g.Lo, g.Hi = g.Hi+1, max(g.Hi, r.now.ID+r.Int64N(90000))
			r.mark[g.Worker] = max(r.mark[g.Worker], g.Hi)
			results[i] = Result{g, errs[r.IntN(len(errs))]}
		}
		if r.IntN(5) == 0 {
			return Extended{nil, errStore}
		}
		return Extended{results, nil}
	}
	return Released{Lane: e.(Release).Lane}
}

// The Keeper asks for the deadline a moment after the step. The clock may reach the window in between.
func TestWaitingHasADeadlineWhenTheClockHasJustArrived(t *testing.T) {
	m := NewMachine(MachineConfig{Requests: []Request{{Min: 1, Max: 1}}, RunAhead: time.Second, Heartbeat: time.Second})
	at := Moment{ID: 1_800_000_000_000}
	m.Step(at, Tick{})
	m.Step(at, Acquired{Lane: 0, Grant: Grant{Worker: 1, Lo: at.ID + 1001, Hi: Forever}})
	if s := m.Status(at)[0].State; s != Waiting {
		t.Fatalf("%v", s)
	}
	later := Moment{Mono: 5 * time.Millisecond, ID: at.ID + 5}
	if d := m.Deadline(later); d != later.Mono {
		t.Fatalf("deadline %v at %v", d, later.Mono)
	}
	m.Step(later, Tick{})
	if s := m.Status(later)[0].State; s != Serving {
		t.Fatalf("%v", s)
	}
}

// A process that is stopped while its Extend is under way gets a window that is already over. It
// must not wait for a whole heartbeat.
func TestAnAnswerThatComesTooLateIsAskedForAgainSoon(t *testing.T) {
	d := serving(t)
	d.now.Mono, d.now.ID = d.now.Mono+time.Hour, d.now.ID+time.Hour.Milliseconds()
	d.tell(Tick{}).is(Exhausted)
	stale := t0 + 65000
	d.tell(extended(Result{Grant: window(7, t0+60001, stale)})).is(Exhausted)
	d.pass(150 * time.Millisecond).wants(Extend{[]Grant{window(7, t0-5, stale)}})
	d.tell(extended(Result{Grant: window(7, stale+1, d.now.ID+60000)})).is(Serving)
	d.pass(4 * time.Second).wants() // and the next one after a heartbeat, as always
}

// A call that is repeated just before an even beat is not without an answer at that beat: what failed stays known.
func TestTheReasonOutlivesABeatThatComesAtOnce(t *testing.T) {
	d := drive(t, 1)
	d.c.Even = true
	d.tell(Tick{}).tell(Acquired{0, window(7, t0-5, t0+60000), nil})
	d.pass(9850 * time.Millisecond).wants(Extend{[]Grant{window(7, t0-5, t0+60000)}})
	d.tell(Extended{Err: errStore})
	d.pass(d.Deadline(d.now) - d.now.Mono).wants(Extend{[]Grant{window(7, t0-5, t0+60000)}})
	if early := 10*time.Second - d.now.Mono; early <= 0 {
		t.Fatalf("the call is repeated %v after the beat", -early)
	}
	reason := func() string { return d.Status(d.now)[0].Reason }
	if d.pass(200 * time.Millisecond).wants().is(Degraded); !strings.Contains(reason(), errStore.Error()) {
		t.Errorf("at the beat: %s", reason())
	}
	if d.pass(5 * time.Second).wants().is(Degraded); !strings.Contains(reason(), "no answer from the store for 5") {
		t.Errorf("a beat later: %s", reason())
	}
}

// A hinted error says when to try again.
type hinted time.Duration

func (h hinted) Error() string             { return "none is given out yet" }
func (h hinted) RetryAfter() time.Duration { return time.Duration(h) }

// If the store says when it gives out worker ids again, each lane asks soon after that, not only
// when its own pause is over. It also asks before, because the store may be wrong.
func TestAsksAgainWhenTheStoreSays(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, 3 * time.Second, 65 * time.Second} {
		d := drive(t, 2).tell(Tick{})
		ends, asked, early := d.now.Mono+wait, map[int]time.Duration{}, 0
		for len(asked) < 2 {
			for _, e := range d.effects {
				a, ok := e.(Acquire)
				if !ok {
					continue
				}
				left := ends - d.now.Mono
				if left > 0 {
					early++
				} else if asked[a.Lane] == 0 {
					asked[a.Lane] = d.now.Mono
				}
				d.tell(Acquired{Lane: a.Lane, Err: fmt.Errorf("so: %w", hinted(max(left, 0)))})
				break
			}
			if len(asked) < 2 && !slices.ContainsFunc(d.effects, func(e Effect) bool {
				_, ok := e.(Acquire)
				return ok
			}) {
				d.pass(d.Deadline(d.now) - d.now.Mono)
			}
		}
		for lane, at := range asked {
			if late := at - ends; late > 3*backoffFirst/2 {
				t.Errorf("a wait of %v: lane %d asks %v after it", wait, lane, late)
			}
		}
		if most := 4 * int(10+wait/time.Second); early > most {
			t.Errorf("a wait of %v: asked %d times before it was over", wait, early)
		}
	}
}
