package workerid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
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
	d.passing(span, func([]Effect) {})
	return d
}

// passing hands on the effects of each Tick.
func (d *driver) passing(span time.Duration, wanted func([]Effect)) {
	for end := d.now.Mono + span; ; {
		at := d.Deadline(d.now)
		if at < 0 || at > end {
			at = end
		}
		d.later(at - d.now.Mono)
		wanted(d.tell(Tick{}).effects)
		if at == end {
			return
		}
		if next := d.Deadline(d.now); next == at {
			d.t.Fatalf("at %v the machine wants a Tick, gets it, and wants another", at)
		}
	}
}

// later moves both clocks.
func (d *driver) later(span time.Duration) {
	d.now.ID += (d.now.Mono + span).Milliseconds() - d.now.Mono.Milliseconds()
	d.now.Mono += span
}

func list(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Acquire:
			fmt.Fprintf(&b, "acquire for lane %d: %v\n", e.Lane, e.Request)
		case Extend:
			fmt.Fprint(&b, "extend")
			for _, g := range e.Held {
				fmt.Fprint(&b, " ", windowText(g))
			}
			fmt.Fprintln(&b)
		case Publish:
			fmt.Fprintf(&b, "publish in lane %d: %s\n", e.Lane, windowText(e.Grant))
		case Lengthen:
			fmt.Fprintf(&b, "lengthen lane %d: %d..%d\n", e.Lane, e.Lo-t0, e.Hi-t0)
		case Release:
			fmt.Fprintf(&b, "release of lane %d: %s used to %d\n", e.Lane, windowText(e.Grant), e.Last-t0)
		case Changed:
			fmt.Fprintf(&b, "lane %d: %v -> %v, %s", e.Lane, e.From, e.To, windowText(e.Grant))
			if e.Wait != 0 {
				fmt.Fprintf(&b, ", waits %v", e.Wait)
			}
			fmt.Fprintln(&b, reasonText(e.Reason))
		default:
			fmt.Fprintf(&b, "%T%+v\n", e, e)
		}
	}
	return b.String()
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return "; " + reason
}

// windowText writes WORKER:LO..HI, ms since t0.
func windowText(g Grant) string {
	if g.Hi == Forever {
		return fmt.Sprintf("%d:%d..forever", g.Worker, g.Lo-t0)
	}
	if g == (Grant{}) {
		return "no window"
	}
	return fmt.Sprintf("%d:%d..%d", g.Worker, g.Lo-t0, g.Hi-t0)
}

func window(worker uint64, lo, hi int64) Grant {
	return Grant{Worker: worker, Owner: "me", Lo: lo, Hi: hi}
}

var errStore = errors.New("the store is on fire")

var namedErrors = map[string]error{
	"lost": ErrLost, "cloned": ErrCloned, "unconfirmed": ErrUnconfirmed, "no id": ErrNoID, "none yet": ErrNoneYet,
	"skew": ErrSkew, "foreign": ErrForeignPool, "timeout": context.DeadlineExceeded,
}

// answer reads a window, an error, or a window and an error in brackets behind it. An error is a name or a text, or a
// name in brackets behind a text, or how long the store lets newcomers wait.
func answer(text string) (r Result) {
	head, name, named := strings.Cut(strings.TrimSuffix(text, ")"), " (")
	r.Grant.Owner = "me"
	if n, _ := fmt.Sscanf(strings.ReplaceAll(head, "forever", fmt.Sprint(Forever-t0)), "%d:%d..%d", &r.Grant.Worker,
		&r.Grant.Lo, &r.Grant.Hi); n == 3 {
		r.Grant.Lo, r.Grant.Hi, r.Err = r.Grant.Lo+t0, r.Grant.Hi+t0, namedErrors[name]
		return r
	}
	hint, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return Result{Err: fmt.Errorf("so: %w", hinted(hint))}
	case named:
		return Result{Err: fmt.Errorf("%s: %w", head, namedErrors[name])}
	case namedErrors[text] != nil:
		return Result{Err: namedErrors[text]}
	}
	return Result{Err: errors.New(strings.ReplaceAll(text, `\n`, "\n"))}
}

// A hinted error says when to try again.
type hinted time.Duration

func (h hinted) Error() string             { return "none is given out yet" }
func (h hinted) RetryAfter() time.Duration { return time.Duration(h) }

// TestMachine: what a machine wants in each state, whatever the store answers. In testdata/machine.txt, times are ms
// since the machine began, by the id clock.
func TestMachine(t *testing.T) {
	steps.Run(t, "testdata/machine.txt", func(t *testing.T) steps.Calls {
		d := drive(t, 1)
		tell := func(e Event) string { return list(d.tell(e).effects) }
		return steps.Calls{
			"lanes":     func(n int) { d = drive(t, n) },
			"even":      func() { d.c.Even = true },
			"run-ahead": func(ms int64) { d.c.RunAhead = time.Duration(ms) * time.Millisecond },
			"issue":     func(ahead int64) { d.now.Position = d.now.ID + ahead }, // the latest id's ms
			"epoch": func(ms int64) {
				d.c.CheckTime = func(now int64) error {
					if now < t0+ms {
						return fmt.Errorf("%d is before the epoch", now-t0)
					}
					return nil
				}
			},
			"serving": func() {
				d.tell(Tick{}).tell(Acquired{0, window(7, t0-5, t0+60000), nil}).pass(5600 * time.Millisecond)
			},
			"tick":     func() string { return tell(Tick{}) },
			"stop":     func() string { return tell(Stop{}) },
			"sealed":   func(lane int, last int64) string { return tell(SealedAt{lane, t0 + last}) },
			"released": func(lane int) string { return tell(Released{Lane: lane}) },
			"unreleased": func(lane int, why string) string {
				return tell(Released{Lane: lane, Err: answer(why).Err})
			},
			"acquired": func(lane int, text string) string {
				r := answer(text)
				return tell(Acquired{lane, r.Grant, r.Err})
			},
			"extended": func(lanes ...string) string {
				var e Extended
				for _, text := range lanes {
					e.Results = append(e.Results, answer(text))
				}
				return tell(e)
			},
			"unextended": func(why string) string { return tell(Extended{Err: answer(why).Err}) },
			"pass":       func(span time.Duration, failing ...string) string { return d.passText(span, failing) },
			// without a Tick
			"stall":    d.later,
			"set":      func(ms int64) { d.now.ID += ms },
			"deadline": func() time.Duration { return d.Deadline(d.now) - d.now.Mono },
			"status":   d.statusText,
		}
	})
}

// passText is what comes while time passes and each call fails, if there is an error for that.
func (d *driver) passText(span time.Duration, failing []string) string {
	var b strings.Builder
	var wanted func(effects []Effect)
	wanted = func(effects []Effect) {
		for line := range strings.Lines(list(effects)) {
			fmt.Fprintf(&b, "%v %s", d.now.Mono.Round(time.Millisecond), line)
		}
		for _, e := range effects {
			if len(failing) == 0 {
				break
			}
			switch e := e.(type) {
			case Acquire:
				wanted(d.tell(Acquired{Lane: e.Lane, Err: answer(failing[0]).Err}).effects)
			case Extend:
				wanted(d.tell(Extended{Err: answer(failing[0]).Err}).effects)
			}
		}
	}
	d.passing(span, wanted)
	return b.String()
}

func (d *driver) statusText() string {
	var b strings.Builder
	for i, s := range d.Status(d.now) {
		fmt.Fprintf(&b, "lane %d: %v, held %v, %s, %v left, for %v", i, s.State, s.Held,
			windowText(Grant{Worker: s.Worker, Lo: s.Lo, Hi: s.Hi}), s.Left, s.For)
		fmt.Fprintln(&b, reasonText(s.Reason))
	}
	return b.String()
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
